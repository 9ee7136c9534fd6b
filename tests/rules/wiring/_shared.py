"""What the cases on the loader do to the text of a `.cu`."""

from __future__ import annotations

import re

from tests.emitter import Pair
from tests.rules import with_text


def edited(pair: Pair, *changes: tuple[str, str]) -> Pair:
    """A pair with texts of its .cu replaced, each of which must be there."""
    text = pair.cuda_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return with_text(pair, text)


def changed(pair: Pair, *changes: tuple[str, str]) -> Pair:
    """A pair with what patterns match in its .cu replaced."""
    text = pair.cuda_text()
    for pattern, new in changes:
        text, times = re.subn(pattern, new, text, flags=re.MULTILINE)
        assert times, pattern
    return with_text(pair, text)


def key(name: str) -> str:
    """The expression that a tensor is loaded by."""
    return f'model_tensors.at("{name}")'

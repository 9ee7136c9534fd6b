"""Surgery on the calls in dispatch bodies."""

from __future__ import annotations

from tests.emitter import Pair
from tests.rules import with_text


def edited(pair: Pair, old: str, new: str, task: str, variant: int = 0) -> Pair:
    """A pair in one of whose bodies a text stands in the place of another."""
    text = pair.cuda_text()
    start = text.index(f"task_type == {task} && task_desc->variant_id == {variant}")
    end = text.find("else if", start)
    body = text[start:end]
    assert old in body, body
    return with_text(pair, text[:start] + body.replace(old, new, 1) + text[end:])

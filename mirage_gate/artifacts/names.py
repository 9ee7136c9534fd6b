"""What a tensor's name says: the layer it belongs to, and its role in every layer."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"(?:^|[._])layers?[._](\d{1,4})(?=[._]|$)")
_MTP = re.compile(r"(?:^|[._])mtp(?=[._]|$)")


def layer_in(name: str) -> int | None:
    """Read the layer's number from a name such as ``layer_3_q_norm`` or ``model.layers.3.x``.

    A name of multi-token prediction (``mtp_model_layers_61_…``) has none: its module runs
    after the layers, whatever number its weights keep from the checkpoint.
    """
    if _MTP.search(name):
        return None
    number = _NUMBER.search(name)
    return int(number[1]) if number else None


def stack_in(name: str) -> str:
    """Read what stands before the layer's number: ``draft_layer_``, ``model.layers.``."""
    number = _NUMBER.search(name)
    return name[: number.start(1)] if number else ""


def role_of(name: str) -> str:
    """Give a name without its layer's number: what the tensor is in every layer."""
    return _NUMBER.sub(lambda match: match[0].replace(match[1], "N"), name, count=1)


def named_in(role: str, layer: int) -> str:
    """Give the name that a role has in one layer."""
    return re.sub(r"(?<=[._])N(?=[._]|$)", str(layer), role, count=1)


def spans(numbers: Sequence[int]) -> str:
    """Write ascending numbers briefly: ``0-3, 6``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)

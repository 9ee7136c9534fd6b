"""Which layer of the model a task belongs to, from the names it carries."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import SENTINEL

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

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


def role_of(name: str) -> str:
    """Give a name without its layer's number: what the tensor is in every layer."""
    return _NUMBER.sub(lambda match: match[0].replace(match[1], "N"), name, count=1)


class Layers:
    """The layer of each group of tasks.

    Weights and caches say it by name; where only scratch names carry a number, they say it;
    a task that carries activations alone belongs where the task before it does. A weight
    without a number (the embedding, the final norm, the head) is outside the layers.
    """

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts

    @cached_property
    def of_group(self) -> list[int | None]:
        """The layer of each group, by group number; None is outside the layers."""
        layers: list[int | None] = []
        current: int | None = None
        for group in self._facts.wiring.groups:
            current = self._named(group, current)
            layers.append(current)
        return layers

    def _named(self, group: Group, before: int | None) -> int | None:
        tensors = self._facts.graph.tensors
        declared = self._facts.declared
        loaded: list[int | None] = []
        scratch: list[int] = []
        for number in (*group.inputs, *group.outputs):
            name = tensors[number].base_ptr
            declaration = declared.get(name)
            if name == SENTINEL or declaration is None:
                continue
            layer = layer_in(name)
            if declaration.kind in ("host", "shuffled"):
                if layer is not None or not self._facts.is_critical(declaration):
                    loaded.append(layer)
            elif layer is not None:
                scratch.append(layer)
        numbered = [layer for layer in loaded if layer is not None]
        if numbered:
            return max(set(numbered), key=numbered.count)
        if loaded:
            return None
        if scratch:
            return max(scratch)
        return before

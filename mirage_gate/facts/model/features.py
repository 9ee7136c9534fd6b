"""Which layers of the graph attend, rotate, normalise queries and keys, feed forward, and mix.

Three answers: yes, no, and None where the tasks leave it open, as an operator that no table
knows does: it may be anything. "No" is said only where every operator of the layer is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import SENTINEL

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Name, Operator

_ATTENTION = re.compile(r"_ATTENTION_?|_ATTN_|_MLA_(?!.*(?:REDUCE|GATHER|ROPE))")
_NO_ATTENTION = re.compile(r"_MERGE_|_REDUCE_|_LINEAR_ATTENTION_")
_FEEDS = re.compile(r"_(?:SILU|SWIGLU|GELU|GEGLU|RELU2?|MOE|MLP|FFN)_")
_FEED_WEIGHT = re.compile(
    r"(?:^|[._])(?:mlp|ffn|feed_forward|(?:gate|up|gate_?up|down)_proj|w[123]|w13|fc[12]|experts)"
    r"(?=[._]|$)"
)
_QK = re.compile(r"(?:^|[._])(q|k|query|key)_?(?:layer)?(?:norm|ln)(?=[._]|$)")
_NORM = re.compile(r"_RMS_NORM_|_LAYER_?NORM_")


class Features:
    """What each layer of a rank's graph has. ``layers`` are those whose tensors are numbered."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts

    @cached_property
    def operators(self) -> dict[int, list[Operator]]:
        """The operators of each layer, numbered from 0 also where the names count from 1."""
        found = self._facts.layers.by_layer
        return {layer - self.base: operators for layer, operators in found.items()}

    @cached_property
    def base(self) -> int:
        """The number of the first layer in the tensors' names: 1 where all count from 1."""
        found = self._facts.layers.by_layer
        model = self._facts.options.model
        return int(model is not None and set(found) == set(range(1, model.layers + 1)))

    @property
    def layers(self) -> frozenset[int]:
        """The numbers of the graph's layers."""
        return frozenset(self.operators)

    @cached_property
    def unclear(self) -> frozenset[int]:
        """The layers with an operator that no table knows."""
        return frozenset(
            layer
            for layer, operators in self.operators.items()
            if not all(self._facts.knows(operator.task_type) for operator in operators)
        )

    def attention(self, layer: int) -> list[Operator]:
        """The layer's operators that are known to be softmax attention."""
        return [o for o in self.operators[layer] if self.is_attention(o)]

    def is_attention(self, operator: Operator) -> bool:
        """Whether a type's name says that it attends."""
        name = f"{self._facts.task_type(operator.task_type).name}_"
        return bool(_ATTENTION.search(name)) and not _NO_ATTENTION.search(name)

    def attends(self, layer: int) -> bool | None:
        """Whether the layer has attention."""
        return True if self.attention(layer) else self._no(layer)

    def is_feed_forward(self, operator: Operator) -> bool:
        """Whether a type's name or a weight's says that it is of a feed-forward network."""
        name = f"_{self._facts.task_type(operator.task_type).name}_"
        return bool(_FEEDS.search(name)) or any(
            _FEED_WEIGHT.search(of.role) for of in operator.names(is_input=True) if of.weight
        )

    def feeds(self, layer: int) -> bool | None:
        """Whether the layer has a feed-forward network, of experts or dense.

        "No" is said only where other layers show how the model's is known.
        """
        if layer in self._feeding:
            return True
        return self._no(layer) if self._feeding else None

    @cached_property
    def _feeding(self) -> frozenset[int]:
        return frozenset(
            layer
            for layer, operators in self.operators.items()
            if any(map(self.is_feed_forward, operators))
        )

    def rotates(self, layer: int) -> bool | None:
        """Whether something in the layer is given a table of rotations.

        A table is critical, or stands in attention's slot for one, or is loaded, for no layer
        in particular, and read in this one: so a table under any name counts.
        """
        names = self._read(layer)
        if any(self._is_critical(name) or self._is_table(name) for name in names):
            return True
        if self._operand(layer, ("cos", "sin")):
            return True
        # A fork hands the tables to the kernel with the runtime's configuration.
        branches = self._facts.cuda.dispatch.values()
        if any("rope" in f or "rotary" in f or "cos" in f for b in branches for f in b.runtime):
            return None
        return self._no(layer) if self.attention(layer) else None

    def normalises(self, layer: int) -> bool | None:
        """Whether queries and keys are normalised with weights."""
        found = {match[1][0] for name in self._read(layer) if (match := _QK.search(name.name))}
        if found >= {"q", "k"} or self._operand(layer, ("q", "k")):
            return True
        attention = self.attention(layer)
        slots = [self._facts.task_type(o.task_type).words for o in attention]
        if not attention or not all("q" in words for words in slots):
            return None
        norms = sum(
            bool(_NORM.search(f"_{self._facts.task_type(o.task_type).name}_"))
            for o in self.operators[layer]
        )
        # Norms under other names may be operators of their own, beside the block's two.
        return None if norms > 2 or found else self._no(layer)

    def mixes(self, layer: int) -> bool | None:
        """Whether the layer has a mixture of experts."""
        kinds = [self._facts.task_type(o.task_type).name for o in self.operators[layer]]
        return True if any("_MOE_" in kind for kind in kinds) else self._no(layer)

    def first_task(self, layer: int) -> int:
        """The task to point at: the layer's attention, or its first."""
        return min(o.first for o in self.attention(layer) or self.operators[layer])

    def _no(self, layer: int) -> bool | None:
        return None if layer in self.unclear else False

    def _operand(self, layer: int, words: tuple[str, str]) -> bool:
        """Whether attention's slots for two operands, known by their words, hold tensors."""
        for operator in self.attention(layer):
            known = self._facts.task_type(operator.task_type).words
            filled = {
                known[index]
                for (is_input, index), names in operator.slots.items()
                if is_input and 3 <= index < len(known)
                for name, group in names.items()
                if name.name != SENTINEL and self._facts.wiring.use(group, True, index)[1]
            }
            if filled >= set(words):
                return True
        return False

    def _read(self, layer: int) -> Iterator[Name]:
        """The tensors that the layer's operators really read."""
        for operator in self.operators[layer]:
            for (is_input, index), names in operator.slots.items():
                for name, group in names.items():
                    if self._facts.wiring.use(group, is_input, index)[1]:
                        yield name

    def _is_critical(self, name: Name) -> bool:
        declaration = self._facts.declared.get(name.name)
        return declaration is not None and self._facts.is_critical(declaration)

    def _is_table(self, name: Name) -> bool:
        return name.loaded and name.layer is None

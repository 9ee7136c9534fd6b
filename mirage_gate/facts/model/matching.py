"""A checkpoint's weights and what the host gives the kernel, matched by what their names mean.

A shuffled tensor stands for the sources that are copied into it, a host tensor for the name that
the map is asked for. What either side has under a name that says nothing is kept apart: it may
stand for anything, so nothing is claimed of what it could be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import LOADED, SENTINEL
from mirage_gate.facts.model.words import Facet, Words, no_weight, words

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Declaration
    from mirage_gate.artifacts.weights import Weight
    from mirage_gate.facts import RankFacts
    from mirage_gate.findings import Location

Key = tuple["int | None", str, Facet]
"""A layer, a role, a facet: what a weight is."""

_FP8 = 930
_BUFFERS = re.compile(r"inv_freq|rotary_emb|masked_bias|position_ids|(?:^|\.)attn\.bias$")
"""What older checkpoints keep beside their weights."""

_DENSE = {f"experts.{part}_proj": f"{part}_proj" for part in ("gate", "up", "down")}


class Source(msgspec.Struct, frozen=True):
    """What the host gives: ``name`` in its map, for the declared ``tensor``."""

    name: str
    tensor: str
    location: Location
    meaning: Words
    copied: bool = False


class Matching:
    """Both sides of a rank's loading."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self._mapped = [
            (_pattern(graph), names) for graph, names in facts.options.weight_names.items()
        ]

    # -- the graph ---------------------------------------------------------------------------

    @cached_property
    def sources(self) -> list[Source]:
        """Every weight that the host gives, in the order of the text."""
        return [
            source
            for declaration in self._facts.cuda.declarations
            if declaration.kind in LOADED and declaration.name != SENTINEL
            for source in self._of(declaration)
        ]

    def _of(self, declaration: Declaration) -> Iterator[Source]:
        seen: set[str] = set()
        for copy in declaration.copies:
            if copy.named and copy.source not in seen:
                seen.add(copy.source)
                yield Source(
                    copy.source,
                    declaration.name,
                    copy.location,
                    self._meaning(copy.source, ""),
                    copied=True,
                )
        if not seen:
            name = declaration.key or declaration.name
            meaning = self._meaning(name, declaration.name)
            yield Source(name, declaration.name, declaration.location, meaning)

    def _meaning(self, name: str, tensor: str) -> Words:
        for pattern, names in self._mapped:
            found = pattern.fullmatch(name) or (pattern.fullmatch(tensor) if tensor else None)
            if found:
                layer = found.groupdict().get("layer")
                meant = [words(one.replace("{layer}", layer or "0")) for one in names]
                roles = tuple(role for one in meant for role in one.roles)
                return msgspec.structs.replace(meant[0], roles=roles, foreign=False)
        meaning = words(name)
        used = self._used_as.get(tensor)
        return msgspec.structs.replace(meaning, roles=used) if used else meaning

    @cached_property
    def _used_as(self) -> dict[str, tuple[str, ...]]:
        """Stacked experts by the operators that read them, whatever they are called."""
        found: dict[str, tuple[str, ...]] = {}
        for operator in self._facts.layers.operators:
            kind = self._facts.task_type(operator.task_type).name
            roles: tuple[str, ...] = ()
            if "_MOE_W13_" in kind:
                roles = ("experts.gate_proj", "experts.up_proj")
            elif "_MOE_W2_" in kind:
                roles = ("experts.down_proj",)
            for name in operator.names(is_input=True) if roles else ():
                if name.weight and words(name.name).facet == "weight":
                    found[name.name] = roles
        return found

    @cached_property
    def given(self) -> dict[Key, list[Source]]:
        """What the graph's weights stand for."""
        found: dict[Key, list[Source]] = {}
        for source in self.sources:
            meaning = source.meaning
            if meaning.known and not meaning.foreign:
                for role in meaning.roles:
                    key = (self._layer(meaning.layer), role.partition(":")[0], meaning.facet)
                    found.setdefault(key, []).append(source)
        return found

    def _layer(self, layer: int | None) -> int | None:
        return None if layer is None else layer - self._facts.features.base

    @cached_property
    def unknown(self) -> list[Source]:
        """What the host gives under names that say nothing: no caches, tables or tokens."""
        return [
            source
            for source in self.sources
            if not source.meaning.known
            and not source.meaning.foreign
            and not no_weight(source.name)
            and not self._is_table(source.tensor)
            and source.meaning.facet == "weight"
        ]

    def _is_table(self, name: str) -> bool:
        declaration = self._facts.declared.get(name)
        return declaration is not None and self._facts.is_critical(declaration)

    # -- the checkpoint ----------------------------------------------------------------------

    @cached_property
    def wanted(self) -> dict[Key, list[Weight]]:
        """The checkpoint's weights of the layers that the graph has, by what they are."""
        found: dict[Key, list[Weight]] = {}
        for weight, meaning in self._weights:
            if meaning.known:
                for role in meaning.roles:
                    key = (meaning.layer, role.partition(":")[0], meaning.facet)
                    found.setdefault(key, []).append(weight)
        return found

    @cached_property
    def unread(self) -> list[Weight]:
        """The checkpoint's weights whose names say nothing."""
        return [weight for weight, meaning in self._weights if not meaning.known]

    @cached_property
    def meanings(self) -> list[tuple[Weight, Words]]:
        """What the name of each weight of the checkpoint means."""
        checkpoint = self._facts.options.checkpoint
        weights = checkpoint.weights.values() if checkpoint else ()
        return [(weight, words(weight.name)) for weight in weights]

    @cached_property
    def _weights(self) -> list[tuple[Weight, Words]]:
        return list(self._read())

    def _read(self) -> Iterator[tuple[Weight, Words]]:
        layers = self._facts.features.layers
        absent = [name.replace("{layer}", "*") for name in self._facts.options.weights_absent]
        beside = self._modules()
        for weight, meaning in self.meanings:
            if meaning.foreign or meaning.layer in beside or _BUFFERS.search(weight.name):
                continue
            if meaning.layer is not None and layers and meaning.layer not in layers:
                continue
            if not any(fnmatchcase(weight.name, pattern) for pattern in absent):
                yield weight, meaning

    def _modules(self) -> set[int | None]:
        """The layers of multi-token prediction: those behind the model's own."""
        model = self._facts.options.model
        found: set[int | None] = set()
        for weight, meaning in self.meanings:
            if meaning.layer is not None and (
                (meaning.foreign and "mtp" not in weight.name)
                or (model is not None and meaning.layer >= model.layers)
            ):
                found.add(meaning.layer)
        return found

    # -- what is missing ---------------------------------------------------------------------

    @cached_property
    def missing(self) -> dict[tuple[str, Facet], list[int | None]]:
        """What the checkpoint has and the graph does not load: role and facet to layers.

        Where the graph loads something that nobody knows, in the layer or outside of all, it may
        be that, and is not missing.
        """
        open_in = {self._layer(source.meaning.layer) for source in self.unknown}
        found: dict[tuple[str, Facet], list[int | None]] = {}
        for key in self.wanted:
            layer, role, facet = key
            if key in self.given or layer in open_in or self._excused(key):
                continue
            found.setdefault((role, facet), []).append(layer)
        return found

    def _excused(self, key: Key) -> bool:
        """Whether a weight may be missing: multiplied into another, tied, or its scale is."""
        layer, role, facet = key
        dense = _DENSE.get(role)
        if (
            dense
            and (layer, dense, facet) in self.given
            and (layer, dense, facet) not in self.wanted
        ):
            return True
        if role == "kv_b_proj":
            # Latent attention's decoding multiplies it into what stands beside it.
            return any((layer, r, "weight") in self.given for r in ("q_b_proj", "q_proj"))
        if role == "lm_head":
            model = self._facts.options.model
            tied = model is not None and model.sizes.tied
            return bool(tied) and (None, "embed_tokens", "weight") in self.given
        if facet == "scale":
            sources = self.given.get((layer, role, "weight"), [])
            tiles = [t for s in sources for t in self._facts.shapes.tiles(s.tensor)]
            return not any(tile.data_type == _FP8 for tile in tiles)
        return False


def _pattern(name: str) -> re.Pattern[str]:
    """A configured name, in which ``{layer}`` stands for a number."""
    text = re.escape(name).replace(r"\{layer\}", r"(?P<layer>\d{1,4})", 1)
    return re.compile(text.replace(r"\{layer\}", r"\d{1,4}"))

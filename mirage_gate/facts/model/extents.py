"""The shapes of a graph's weights against those of the model: its configuration, its checkpoint.

A weight may be shared out over the ranks: a projection's rows or its columns, or whole experts.
Key and value heads fewer than the ranks are kept on several. Weights that are fused have the rows
of their parts. The vocabulary may be padded to whole tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.model import Sizes
from mirage_gate.facts.model.architecture import architecture_of

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.model.matching import Source
    from mirage_gate.findings import Location

_PADDING = 10
"""A vocabulary may have a tenth of its rows more."""

_COLUMNS_SHARED = frozenset({"o_proj", "down_proj", "experts.down_proj", "shared.down_proj"})
_VOCABULARY = frozenset({"embed_tokens", "lm_head"})
_ABSORBING = frozenset({"q_b_proj", "q_proj", "o_proj"})
"""What latent attention's ``kv_b_proj`` may have been multiplied into."""


class Differing(msgspec.Struct, frozen=True):
    """A weight whose tiles add up to another shape; ``what`` says to which, and what is meant."""

    tensor: str
    role: str
    what: str
    location: Location
    related: tuple[Location, ...]


class _Meant(msgspec.Struct):
    """What is meant: the allowed numbers of rows, of columns and of experts, and words for it."""

    rows: set[int]
    columns: set[int]
    words: str
    experts: set[int] = msgspec.field(default_factory=set)
    padded: bool = False


class Extents:
    """The weights of a rank whose shapes are not the model's."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self._ranks = max(facts.cuda.world_size or 1, 1)

    @cached_property
    def differing(self) -> list[Differing]:
        """Each, in the order of the text."""
        return list(self._differing())

    def _differing(self) -> Iterator[Differing]:
        seen: set[tuple[str, str]] = set()
        for source in self._facts.matching.sources:
            meaning = source.meaning
            if meaning.facet != "weight" or meaning.foreign or not meaning.known:
                continue
            if (source.tensor, source.name) in seen:
                continue
            seen.add((source.tensor, source.name))
            shape = self._shape(source)
            if shape is None:
                continue
            for meant in self._meant(source, len(shape)):
                if not self._fits(shape, meant):
                    yield self._say(source, shape, meant)
                    break

    def _say(self, source: Source, shape: tuple[int, ...], meant: _Meant) -> Differing:
        tiles = "x".join(map(str, shape))
        shared = f" on {self._ranks} ranks" if self._ranks > 1 else ""
        model, checkpoint = self._facts.options.model, self._facts.options.checkpoint
        related = model.place("hidden_size") if model else None
        if related is None and checkpoint:
            related = checkpoint.place()
        return Differing(
            tensor=source.name,
            role=" ".join(source.meaning.roles),
            what=f"read as {tiles}, and {meant.words}{shared}",
            location=source.location,
            related=() if related is None else (related,),
        )

    def _shape(self, source: Source) -> tuple[int, ...] | None:
        shapes = self._facts.shapes
        shape = shapes.of(source.tensor)
        if shape is None or not source.copied:
            return shape
        # Of a tensor that is filled by copies: the rows of this source.
        elements = shapes.copied(source.tensor).get(source.name, 0)
        if len(shape) == 1 or elements % shape[-1]:
            return None
        if len(shape) == 2:
            return elements // shape[-1], shape[-1]
        outer = shape[0]
        rows, left = divmod(elements // shape[-1], outer)
        return None if left else (outer, rows, shape[-1])

    def _fits(self, shape: tuple[int, ...], meant: _Meant) -> bool:
        *outer, columns = shape
        if meant.columns and columns not in meant.columns:
            return False
        if not outer or not meant.rows:
            return True
        rows = outer[-1]
        if meant.experts and len(outer) == 2 and outer[0] not in meant.experts:
            return False
        if meant.padded:
            return any(least <= rows <= least + least // _PADDING for least in meant.rows)
        return rows in meant.rows

    def _meant(self, source: Source, rank: int) -> Iterator[_Meant]:
        roles = [role.partition(":")[0] for role in source.meaning.roles]
        if rank == 3 and not any(role.startswith("experts.") for role in roles):
            roles = [f"experts.{role}" for role in roles]
        if len(roles) == 1 and ":" in source.meaning.roles[0]:
            return  # a part of a weight
        if rank > 3:
            return
        by_config = self._by_config(roles)
        if by_config is not None:
            yield by_config
        by_checkpoint = self._by_checkpoint(source, roles)
        if by_checkpoint is not None:
            yield by_checkpoint

    # -- the configuration -------------------------------------------------------------------

    @cached_property
    def _sizes(self) -> Sizes:
        """The sizes of a model whose keys are known to mean what they do in Llama."""
        model = self._facts.options.model
        if model is None or architecture_of(model.model_type) is None:
            return Sizes()
        return model.sizes

    def _share(self, whole: int) -> int:
        return -(-whole // self._ranks)

    def _by_config(self, roles: list[str]) -> _Meant | None:
        parts = [self._one(role) for role in roles]
        known = [part for part in parts if part is not None]
        if not known or len(known) < len(parts):
            return None
        width = {column for *_, columns, _ in known for column in columns}
        texts = " and ".join(dict.fromkeys(text for *_, text in known))
        whole = {sum(rows[0] for rows, *_ in known), sum(rows[1] for rows, *_ in known)}
        meant = _Meant(whole - {0}, width, f"the configuration says {texts}")
        if any(role.startswith("experts.") for role in roles) and self._sizes.experts:
            meant.experts = {self._sizes.experts, self._share(self._sizes.experts)}
            # A rank has whole experts, or a part of each.
        meant.padded = bool(set(roles) & _VOCABULARY)
        return meant

    def _one(self, role: str) -> tuple[tuple[int, int], set[int], str] | None:
        """Give (rows whole and shared out, the columns that may be, words) of one role."""
        s = self._sizes
        hidden = s.hidden
        if not hidden:
            return None
        name = role.rpartition(".")[2]
        if role in _VOCABULARY:
            if not s.vocabulary:
                return None
            rows = s.vocabulary
            return (rows, self._share(rows)), {hidden}, f"{rows} rows of {hidden}"
        if role in ("norm", "input_layernorm", "post_attention_layernorm"):
            return (0, 0), {hidden}, f"a hidden size of {hidden}"
        if s.kv_rank is None and s.heads and s.head_dim:
            attention = self._attention(role, s.heads, s.head_dim, hidden)
            if attention is not None:
                return attention
        if name in ("gate_proj", "up_proj", "down_proj"):
            width = self._width(role)
            if not width:
                return None
            text = f"{width} for the intermediate size"
            if role in _COLUMNS_SHARED:
                return (hidden, hidden), {width, self._share(width)}, text
            return (width, self._share(width)), {hidden}, text
        if role == "router" and s.experts:
            return (s.experts, s.experts), {hidden}, f"{s.experts} experts"
        ranks = {"q_a_layernorm": s.q_rank, "kv_a_layernorm": s.kv_rank}
        if ranks.get(role):
            return (0, 0), {ranks[role] or 0}, f"{ranks[role]} for the latent's width"
        if role == "q_a_proj" and s.q_rank:
            return (s.q_rank, s.q_rank), {hidden}, f"{s.q_rank} for the latent's width"
        return None

    def _width(self, role: str) -> int:
        s = self._sizes
        if role.startswith("experts."):
            return s.expert_intermediate or 0
        if role.startswith("shared."):
            return (s.expert_intermediate or 0) * (s.shared_experts or 0)
        return s.intermediate or 0

    def _attention(
        self, role: str, heads: int, dim: int, hidden: int
    ) -> tuple[tuple[int, int], set[int], str] | None:
        keys = self._sizes.kv_heads or heads
        own = max(self._share(keys), 1) * dim
        if role == "q_proj":
            return (heads * dim, self._share(heads) * dim), {hidden}, f"{heads} heads of {dim}"
        if role in ("k_proj", "v_proj"):
            return (keys * dim, own), {hidden}, f"{keys} key and value heads of {dim}"
        if role == "o_proj":
            columns = {heads * dim, self._share(heads) * dim}
            return (hidden, hidden), columns, f"{heads} heads of {dim}"
        if role in ("q_norm", "k_norm"):
            return (0, 0), {dim, heads * dim, keys * dim, own}, f"heads of {dim}"
        return None

    # -- the checkpoint ----------------------------------------------------------------------

    def _by_checkpoint(self, source: Source, roles: list[str]) -> _Meant | None:
        wanted = self._facts.matching.wanted
        layer = source.meaning.layer
        if layer is not None:
            layer -= self._facts.features.base
        absorbed = (layer, "kv_b_proj", "weight") in wanted
        rows, columns, experts = 0, set[int](), 0
        for role in roles:
            weights = wanted.get((layer, role, "weight"), [])
            shapes = {weight.shape for weight in weights}
            if len(shapes) != 1 or (absorbed and role in _ABSORBING):
                return None
            shape = shapes.pop()
            if not shape or len(shape) > 2:
                return None
            if len(shape) == 2:
                rows += shape[0]
            columns.add(shape[-1])
            experts = len(weights) if role.startswith("experts.") else 0
        if len(columns) != 1:
            return None
        (width,) = columns
        text = f"the checkpoint has {rows}x{width}" if rows else f"the checkpoint has {width}"
        keys = self._sizes.kv_heads or 0
        spare = {"k_proj", "v_proj"} & set(roles) and 0 < keys < self._ranks
        allowed = set() if spare else {rows, self._share(rows)} - {0}
        return _Meant(
            allowed,
            {width, self._share(width)},
            text,
            {experts, self._share(experts)} - {0},
            bool(set(roles) & _VOCABULARY),
        )

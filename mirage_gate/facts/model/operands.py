"""The operands of a program's steps by the roles of weights, and the shares of the ranks."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from mirage_gate.artifacts.model import Sizes
from mirage_gate.facts.model.words import Words, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.model.architecture import Wanted
    from mirage_gate.facts.plan import Atom, Operand, Step

_CACHES = {"k_cache": "k", "v_cache": "v", "kv_cache": "kv", "cos": "cos", "sin": "sin"}
_CACHE = re.compile(r"(?:^|[._])(k|v|key|value|kv|ckv)\w*?[._]?(?:kpe[._])?cache(?=[._]|$)")
_TABLE = re.compile(r"(?:^|[._])(cos|sin)(?=[._]|$)")


class Operands:
    """What operands are by their names, and by the places where they stand."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts

    def words(self, atom: Atom) -> Words:
        """What a parameter's name means."""
        prefix = "" if atom.layer is None else f"layers.{atom.layer}."
        return words(f"{prefix}{atom.name}")

    def roles(self, operand: Operand) -> set[str]:
        """The roles of all the weights that an operand is made from."""
        found: set[str] = set()
        for atom in operand.atoms:
            if atom.name:
                meaning = self.words(atom)
                suffix = ".bias" if meaning.facet == "bias" else ""
                found |= {f"{role}{suffix}" for role in meaning.roles}
        return found

    def shown(self, operand: Operand) -> str:
        """An operand in words."""
        names = [atom.name or "a value" for atom in operand.atoms]
        return ", ".join(sorted(set(names))) or "none"

    def scaled(self, operand: Operand) -> bool:
        """Whether scales that do not go by the operand's own name may be its own all the same."""
        own = {(role, atom.layer) for atom in operand.atoms for role in self._roles(atom)}
        return all(
            bool(atom.name)
            and ({(role, atom.layer) for role in self._roles(atom)} <= own or self._unknown(atom))
            for atom in operand.scales
        )

    def _roles(self, atom: Atom) -> tuple[str, ...]:
        return self.words(atom).roles if atom.name else ()

    def _unknown(self, atom: Atom) -> bool:
        """Whether a name says nothing, not even a layer."""
        return not self.words(atom).known and atom.layer is None

    def is_table(self, operand: Operand) -> bool:
        """Whether an operand is a tensor that the host fills for no layer in particular."""
        return bool(operand.atoms) and all(
            atom.name and atom.layer is None and not atom.before for atom in operand.atoms
        )

    def fits(
        self, operand: Operand, wanted: Wanted, layer: int | None, *, surely: bool = False
    ) -> bool:
        """Whether an operand may be the weight, cache or table that is wanted.

        A name that is not known may be anything, unless it is to be so ``surely``. A tensor of
        another layer is none.
        """
        if not all(atom.name for atom in operand.atoms) or not operand.atoms:
            return False
        layers = {atom.layer for atom in operand.atoms}
        named = {None if n is None else self._facts_layer(n) for n in layers}
        if layer is not None and named - {layer, None}:
            return False
        if layer is None and named - {None}:
            return False
        kind = _CACHES.get(wanted.names[0])
        if kind is not None:
            return self._is_kind(operand, kind)
        roles = self.roles(operand)
        unknown = {role for role in roles if role.startswith("?")}
        if unknown:
            return not surely and not any(self._is_other(atom) for atom in operand.atoms)
        want = set(wanted.names)
        if any(name.startswith("experts.") for name in want):
            # Stacked experts go by the names of a single one's weights, too.
            return bool(roles & {*want, *(name.partition(".")[2] for name in want)}) and (
                roles <= {*want, *(name.partition(".")[2] for name in want)}
            )
        if want == {"lm_head"}:
            return roles <= self._heads
        return roles <= want

    @cached_property
    def _heads(self) -> set[str]:
        model = self._facts.options.model
        tied = model.sizes.tied if model else None
        return {"lm_head"} if tied is False else {"lm_head", "embed_tokens"}

    def _facts_layer(self, layer: int) -> int:
        """A layer's number from 0, where names count from 1."""
        return layer - self._facts.features.base

    @staticmethod
    def _is_other(atom: Atom) -> bool:
        """Whether a name that is no weight's says what it is: a cache, a table."""
        return bool(_CACHE.search(atom.name) or _TABLE.search(atom.name))

    @staticmethod
    def _is_kind(operand: Operand, kind: str) -> bool:
        for atom in operand.atoms:
            name = atom.name.lower()
            if kind in ("cos", "sin"):
                found = {match[1] for match in _TABLE.finditer(name)}
                if found and kind not in found:
                    return False
            elif kind in ("k", "v") and (match := _CACHE.search(name)):
                held = match[1]
                if held not in ("kv", "ckv") and held[0] != kind:
                    return False
        return True

    def share(self, step: Step, steps: Sequence[Step]) -> tuple[int, int] | None:
        """How many columns of a projection's weight this rank has, and of how many.

        Experts that the ranks share out count as such. None where nothing is known of it.
        """
        ranks = self._facts.cuda.world_size or 1
        if ranks == 1:
            return None
        if step.operator == "weighted_sum":
            source = step.operands[0].atoms[:1] if step.operands else ()
            known = [atom.step for atom in source if not atom.name]
            return self.share(steps[known[0]], steps) if known else None
        for operand in step.operands:
            for atom in operand.atoms:
                if not atom.name or self.words(atom).facet != "weight":
                    continue
                declared = self._declared.get((atom.name, atom.layer), atom.name)
                shape = self._facts.shapes.of(declared)
                if shape is None or len(shape) < 2:
                    continue
                role = "experts" if step.operator == "experts" else self.words(atom).roles[0]
                experts = self._sizes.experts
                if role == "experts" and experts and shape[0] * ranks == experts:
                    return shape[0], experts
                mine = shape[-1]
                # Where a whole of one kind is a share of another, nothing is known.
                fitting = [
                    whole for whole in self._columns(role) if mine in (whole, -(-whole // ranks))
                ]
                if len(fitting) == 1:
                    return mine, fitting[0]
        return None

    @cached_property
    def _sizes(self) -> Sizes:
        model = self._facts.options.model
        return model.sizes if model else Sizes()

    def _columns(self, role: str) -> list[int]:
        """How many columns a row-parallel weight has as a whole, smaller numbers first."""
        sizes = self._sizes
        whole: list[int] = []
        if role == "o_proj":
            # Latent attention's own, or with the values' part of kv_b_proj multiplied into it.
            widths = (sizes.head_dim, sizes.value_dim, sizes.kv_rank)
            whole = [(sizes.heads or 0) * (width or 0) for width in widths]
        elif role == "experts":
            whole = [sizes.expert_intermediate or 0]
        elif role == "down_proj":
            whole = [sizes.intermediate or 0]
        elif role == "shared.down_proj":
            whole = [(sizes.expert_intermediate or 0) * (sizes.shared_experts or 1)]
        return sorted({width for width in whole if width})

    @cached_property
    def _declared(self) -> dict[tuple[str, int | None], str]:
        """The declared name of a layer's tensor by its name in a plan."""
        found: dict[tuple[str, int | None], str] = {}
        for name in self._facts.layers.names:
            if name.layer is not None:
                bare = re.sub(
                    r"(?:^model[._])?(?:(?<=[._])|^)layers?[._]N[._]", "", name.role, count=1
                )
                found[bare, name.layer] = name.name
        return found

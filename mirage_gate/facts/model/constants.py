"""What the variants were compiled for, against the constants that the configuration names.

Only of device functions whose parameters are known by name (:mod:`mirage_gate.facts.signatures`),
and where the argument is a literal: the width of a head, how many experts there are and are
chosen, and the epsilon of the norms that the configuration's is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.model.architecture import architecture_of
from mirage_gate.facts.model.words import words

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.findings import Location

_NORMS = frozenset({"input_layernorm", "post_attention_layernorm", "norm", "q_norm", "k_norm"})
_KEYS = {
    "HEAD_DIM": "head_dim",
    "NUM_EXPERTS": "num_experts",
    "NUM_TOPK": "num_experts_per_tok",
    "TOPK_EXPERTS": "num_experts_per_tok",
    "eps": "rms_norm_eps",
    "q_eps": "rms_norm_eps",
    "k_eps": "rms_norm_eps",
}


class Compiled(msgspec.Struct, frozen=True):
    """A constant that a variant was compiled for, and the configuration's."""

    function: str
    type_name: str
    parameter: str
    value: float
    meant: float
    location: Location
    key: str


def compiled(facts: RankFacts) -> Iterator[Compiled]:
    """Every constant that is another than the configuration says."""
    model = facts.options.model
    if model is None or architecture_of(model.model_type) is None:
        return
    ranks = max(facts.cuda.world_size or 1, 1)
    for (task_type, variant), groups in sorted(facts.wiring.kernels.items()):
        branch = facts.wiring.branch(task_type, variant)
        if branch is None or branch.body is None:
            continue
        call, way = facts.signatures.constants.known(branch.body)
        if call is None or way is None:
            continue
        meant = _meant(facts, {n for group in groups for n in group.inputs}, ranks)
        named = chain(
            zip(way.template, call.template, strict=False),
            zip(way.call, call.arguments, strict=False),
        )
        for parameter, argument in named:
            allowed = meant.get(parameter.name, ())
            value = argument.value
            if not allowed or value is None or isinstance(value, bool) or not argument.certain:
                continue
            if not any(abs(value - one) <= abs(one) * 1e-3 for one in allowed):
                yield Compiled(
                    call.function,
                    branch.type_name,
                    parameter.name,
                    value,
                    allowed[0],
                    branch.body.location(argument),
                    _KEYS[parameter.name],
                )


def _meant(facts: RankFacts, inputs: set[int], ranks: int) -> dict[str, tuple[float, ...]]:
    """What the configuration says of the parameters of a function that reads some tensors."""
    model = facts.options.model
    if model is None:
        return {}
    sizes = model.sizes
    roles = {
        role
        for number in inputs
        if facts.layers.names[number].loaded
        for role in words(facts.layers.names[number].name).roles
    }
    found: dict[str, tuple[float, ...]] = {}
    if sizes.head_dim and sizes.kv_rank is None:
        found["HEAD_DIM"] = (sizes.head_dim,)
    if sizes.experts:
        found["NUM_EXPERTS"] = (sizes.experts, -(-sizes.experts // ranks))
    if sizes.top_k:
        found["NUM_TOPK"] = found["TOPK_EXPERTS"] = (sizes.top_k,)
    if sizes.eps:
        if roles and roles <= _NORMS:
            found["eps"] = (sizes.eps,)
        if {"q_norm", "k_norm"} <= roles:
            found["q_eps"] = found["k_eps"] = (sizes.eps,)
    return found


__all__ = ["Compiled", "compiled"]

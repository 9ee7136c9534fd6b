"""MG704: the graph has not the layers that the model's own configuration describes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import layer_in
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import in_layers, plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.layers._shared import is_critical

if TYPE_CHECKING:
    from mirage_gate.artifacts.model_config import ModelConfig
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator

RULE = Rule(
    "MG704",
    "layer-count",
    Severity.ERROR,
    "The graph has not the layers that the model's own configuration describes.",
    why="""
        A loop that ends one layer early, a layer whose attention was never built, a model
        with rotary embedding in which no layer reads a table: the graph cannot know what it
        lacks. The model's `config.json` does.
    """,
    example="`num_hidden_layers` is 36, and the graph has 35 layers.",
    fix="Build all layers that the configuration names, each as it describes.",
    limits="""
        Only with `--model-config`. A graph of fewer layers on purpose is a finding, and
        `--ignore MG704` or a waiver says so. What the configuration does not say is not
        checked: the key for rotary embedding, for norms of queries and keys, for experts.
        In a layer with a task type that is in no table, attention is not missed.
    """,
)


_ATTENTION = re.compile(r"_ATTENTION_?|_ATTN_|_MLA_(?!.*REDUCE).*(?:DECODE|PREFILL)")


_NO_ATTENTION = re.compile(r"_MERGE_|_REDUCE_")


_Promise = tuple[frozenset[int] | None, Callable[[int], bool], str, tuple[str, ...]]
"""The layers that have something, how to tell, its name, and the configuration's keys for it."""


_QK = re.compile(r"(?:^|[._])(q|k)_(?:layer)?norm(?=[._]|$)")


@RULE.checked_by
def layer_count(facts: RankFacts) -> Iterator[Finding]:
    model = facts.options.model
    if model is None:
        return
    found = facts.layers.by_layer
    if model.layers is not None and set(found) != set(range(model.layers)):
        missing = sorted(set(range(model.layers)) - set(found))
        extra = sorted(set(found) - set(range(model.layers)))
        lacking = f", {in_layers(missing)} missing" if missing else ""
        more = f", {in_layers(extra)} too many" if extra else ""
        last = max(found, default=-1)
        at = next(
            (d.location for d in facts.cuda.declarations if layer_in(d.name) == last),
            facts.cuda.declarations[0].location,
        )
        yield RULE.finding(
            facts.rank,
            (
                f"the graph has {plural(len(found), 'layer')}, the model's configuration "
                f"{model.layers}{lacking}{more}"
            ),
            at,
            hint="build all layers that the configuration names",
            related=(model.place("num_hidden_layers", "n_layer", "num_layers"),),
        )
    attention = {
        layer: next((o for o in operators if _attends(facts, o)), None)
        for layer, operators in found.items()
    }
    read = {layer: _read_in(facts, operators) for layer, operators in found.items()}
    # An operator of an unknown type may be an attention.
    unclear = {
        layer
        for layer, operators in found.items()
        if not all(facts.knows(operator.task_type) for operator in operators)
    }
    promises: tuple[_Promise, ...] = (
        (
            model.attention,
            lambda layer: attention[layer] is not None or layer in unclear,
            "attention",
            ("layer_types", "num_hidden_layers"),
        ),
        (
            model.rotary,
            lambda layer: any(is_critical(facts, name) for name in read[layer]),
            "rotary embedding",
            ("no_rope_layers", "rope_parameters", "rope_theta", "rope_scaling"),
        ),
        (
            model.qk_norm,
            lambda layer: {"q", "k"} <= {m[1] for n in read[layer] if (m := _QK.search(n))},
            "norms of queries and keys",
            ("use_qk_norm", "qk_layernorm", "model_type"),
        ),
        (
            model.mixture if model.experts else None,
            lambda layer: facts.siblings.kind_of(layer).startswith("moe"),
            "a mixture of experts",
            ("num_experts", "n_routed_experts", "num_local_experts"),
        ),
    )
    for expected, has, what, keys in promises:
        without = [n for n in sorted(expected or ()) if n in found and not has(n)]
        if not without:
            continue
        operator = attention[without[0]] or found[without[0]][0]
        yield RULE.finding(
            facts.rank,
            f"the model has {what} in {in_layers(without)}, and the graph has not",
            facts.in_graph("all_tasks", operator.first, "task_type"),
            hint=f"build {in_layers(without)} as the configuration describes",
            related=(model.place(*keys),),
        )
    if model.experts:
        yield from _experts(facts, model)


def _attends(facts: RankFacts, operator: Operator) -> bool:
    name = f"{facts.task_type(operator.task_type).name}_"
    return bool(_ATTENTION.search(name)) and not _NO_ATTENTION.search(name)


def _read_in(facts: RankFacts, operators: Iterable[Operator]) -> set[str]:
    """The tensors that some operators really read."""
    return {
        name.name
        for operator in operators
        for (is_input, index), names in operator.slots.items()
        for name, group in names.items()
        if facts.wiring.use(group, is_input, index)[1]
    }


def _experts(facts: RankFacts, model: ModelConfig) -> Iterator[Finding]:
    """Compare the first dimension of the experts' weights; ranks may share the experts out."""
    expected = model.experts or 0
    shares = {expected, expected // max(1, facts.cuda.world_size or 1)}
    tensors = facts.graph.tensors
    for layer, operators in facts.layers.by_layer.items():
        for operator in operators:
            if "_MOE_W13_" not in facts.task_type(operator.task_type).name:
                continue
            group = operator.groups[0]
            for index, number in enumerate(group.inputs):
                tile = tensors[number]
                weight = facts.layers.names[number].weight
                if weight and len(tile.dims) == 3 and tile.dims[0] not in shares:
                    yield RULE.finding(
                        facts.rank,
                        (
                            f"{tile.base_ptr} has {tile.dims[0]} experts, the model's "
                            f"configuration {expected}"
                        ),
                        facts.in_graph("all_tasks", group.first, "inputs", index, "dims"),
                        hint=f"build layer {layer} with all experts",
                        related=(
                            model.place("num_experts", "n_routed_experts", "num_local_experts"),
                        ),
                        tensor=tile.base_ptr,
                    )
                    return

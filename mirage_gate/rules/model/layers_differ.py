"""MG005: the graph's layers are not those that the model's configuration describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import layer_in
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import in_layers, layers_option, plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.model._promised import COUNT, promised

if TYPE_CHECKING:
    from mirage_gate.artifacts.model import ModelConfig
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG005",
    "layers-differ",
    Severity.ERROR,
    "The graph has not the layers that the model's own configuration describes.",
    why="""
        A loop that ends one layer early, a layer whose attention was never built, a model
        with rotary embedding in which no layer reads a table: the graph cannot know what it
        lacks. The model's `config.json` does.
    """,
    example="`num_hidden_layers` is 36, and the graph has 35 layers.",
    fix="""
        Build all layers that the configuration names, each as it describes. Of a model that is
        cut on purpose say so: `--layers 4` for the first four, `--layers 0,3` for two of them.
    """,
    limits="""
        Only with `--model-config`. A graph of at most half of the layers is taken for one that
        was cut on purpose, and a note says so. What the configuration does not say is not
        checked, nor what a key says that is not known here (`-v` lists them): a model's type
        that is not known promises that some layer rotates, not which. In a layer with a task
        type that is in no table, nothing is missed. Attention in a layer that has none by its
        configuration is no finding.
    """,
)


@RULE.checked_by
def layers_differ(facts: RankFacts) -> Iterator[Finding]:
    model = facts.options.model
    if model is None or not facts.cuda.declarations:
        return
    found = facts.features.layers
    if not found:
        yield RULE.finding(
            facts.rank,
            "no tensor's name says a layer, so nothing is proven of the model's "
            f"{plural(model.layers, 'layer')}",
            facts.cuda.declarations[0].location,
            hint="name weights by their layer, as layer_3_q_proj",
            severity=Severity.NOTE,
            related=(model.place(*COUNT),),
        )
        return
    yield from _count(facts, model, found)
    yield from _promises(facts, model)
    yield from _experts(facts, model)


def _count(facts: RankFacts, model: ModelConfig, found: frozenset[int]) -> Iterator[Finding]:
    wanted = facts.options.layers
    expected = frozenset(range(model.layers)) if wanted is None else wanted
    # A module of multi-token prediction may go on with the layers' numbers.
    missing = expected - found
    extra = found - expected - frozenset(range(model.layers, model.layers + model.extra_layers))
    if not missing and not extra:
        return
    asked = "asked for are" if wanted is not None else "the model's configuration"
    if wanted is None and not extra and 2 * len(found) <= model.layers:
        yield RULE.finding(
            facts.rank,
            f"the graph has {plural(len(found), 'layer')} of the model's {model.layers} "
            f"({in_layers(found)}): taken for a model that is cut on purpose",
            _last(facts, found),
            hint=f"say so with --layers {layers_option(found)}",
            severity=Severity.NOTE,
            related=(model.place(*COUNT),),
        )
        return
    lacking = f", {in_layers(missing)} missing" if missing else ""
    more = f", {in_layers(extra)} too many" if extra else ""
    yield RULE.finding(
        facts.rank,
        f"the graph has {plural(len(found), 'layer')}, {asked} {len(expected)}{lacking}{more}",
        _last(facts, found),
        hint="build all layers that the configuration names, or give --layers for a cut model",
        related=(model.place(*COUNT),),
    )


def _last(facts: RankFacts, found: frozenset[int]) -> Location:
    last = max(facts.layers.by_layer, default=max(found))
    declared = (d.location for d in facts.cuda.declarations if layer_in(d.name) == last)
    return next(declared, facts.cuda.declarations[0].location)


def _promises(facts: RankFacts, model: ModelConfig) -> Iterator[Finding]:
    features = facts.features
    for promise, has, what, keys in promised(features, model):
        said = {layer: has(layer) for layer in sorted(features.layers) if layer < model.layers}
        without = [n for n, shown in said.items() if shown is False and n in promise.having]
        # A mixer that a configuration lists as none may be attention all the same, of its own kind.
        lacking = frozenset() if promise is model.attention else promise.lacking
        beyond = [n for n, shown in said.items() if shown and n in lacking]
        if without:
            about = [f"no {what} in layer {layer}" for layer in without]
            yield _differs(facts, model, keys, without, f"has {what} in", "has not", about)
        if beyond:
            yield _differs(
                facts, model, keys, beyond, f"has no {what.removeprefix('a ')} in", "has"
            )
        nowhere = bool(said) and all(shown is False for shown in said.values())
        if promise.some and not promise.having and nowhere and len(said) == model.layers:
            yield _differs(facts, model, keys, list(said), f"has {what} in some of", "has not")


def _differs(
    facts: RankFacts,
    model: ModelConfig,
    keys: tuple[str, ...],
    layers: list[int],
    meant: str,
    shown: str,
    about: Sequence[str] = (),
) -> Finding:
    return RULE.finding(
        facts.rank,
        f"the model {meant} {in_layers(layers)}, and the graph {shown}",
        facts.in_graph("all_tasks", facts.features.first_task(layers[0]), "task_type"),
        hint=f"build {in_layers(layers)} as the configuration describes",
        related=(model.place(*keys),),
        about=about,
    )


def _experts(facts: RankFacts, model: ModelConfig) -> Iterator[Finding]:
    """Compare the first dimension of the experts' weights; ranks may share the experts out."""
    expected = model.sizes.experts
    if expected is None:
        return
    shares = {expected, -(-expected // max(1, facts.cuda.world_size or 1))}
    tensors = facts.graph.tensors
    for layer, operators in facts.features.operators.items():
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
                        f"{tile.base_ptr} has {tile.dims[0]} experts, the model's "
                        f"configuration {expected}",
                        facts.in_graph("all_tasks", group.first, "inputs", index, "dims"),
                        hint=f"build layer {layer} with all experts",
                        related=(
                            model.place("num_experts", "n_routed_experts", "num_local_experts"),
                        ),
                        tensor=tile.base_ptr,
                    )
                    return

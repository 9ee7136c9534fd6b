"""MG004: what the graph computes is not what the model's architecture computes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import in_layers
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.model.dataflow import Mismatch

RULE = Rule(
    "MG004",
    "dataflow-differs",
    Severity.ERROR,
    "The graph computes something else than the model's architecture.",
    why="""
        A residual that is taken from the wrong place in every layer, a norm that none has, a sum
        over the ranks that is missing everywhere: all layers agree, so nothing about the graph
        alone is wrong. What the model's layers compute is known by its type. The graph is read
        back as a program (`mirage-gate plan` prints it) and compared statement by statement.
    """,
    example="""
        All layers compute `r = linear(a, o_proj) + h`, and Qwen 3 `r = linear(a, o_proj) + x`.
    """,
    fix="""
        Give the operator the operands of the line that should stand there. Where your model is
        not what its `model_type` says, leave `--model-config` out, or ignore the rule.
    """,
    limits="""
        Only with `--model-config`, and for the types of models that have a file: Llama, Mistral,
        Qwen 2 and 3, Qwen 3 MoE, Mixtral, DeepSeek V3 and what computes the same. Weights are
        known by their names; one under a name that says nothing is taken for whatever is wanted.
        Where an operator without a word is a part of what differs, a note says that it was not
        compared. Each layer is reported up to its first statement that differs. A residual that
        a rank other than the first does not add is taken for added by another.
    """,
)


_OF_FEEDING = re.compile(r"post_attention|pre_feedforward|ffn|mlp|gate|up_proj|down|experts|router")
"""What a statement of a feed-forward network, or of the norm before it, takes."""


@RULE.checked_by
def dataflow_differs(facts: RankFacts) -> Iterator[Finding]:
    model = facts.options.model
    if model is None or not facts.features.layers:
        return
    architecture = facts.dataflow.architecture
    if architecture is None:
        return
    texts = {
        (statement.operator, first): str(statement)
        for block in facts.plan.blocks
        for statement in block.statements
        for first in statement.where
    }
    alike: dict[tuple[str, str, str, bool], list[Mismatch]] = {}
    for one in facts.dataflow.mismatches:
        step = None if one.step is None else facts.dataflow.steps[one.step]
        text = texts.get((step.operator, step.first), step.operator) if step else ""
        why = re.sub(r" of layer \d+", "", one.why)
        alike.setdefault((one.should, text, why, one.certain), []).append(one)
    for (should, text, why, certain), found in alike.items():
        layers = [one.layer for one in found if one.layer is not None]
        where = f"in {in_layers(layers)}" if layers else "outside of the layers"
        first = found[0]
        shown = f"`{text}`" if text else "nothing"
        if not certain:
            foreign = facts.dataflow.foreign.get(first.layer, ())
            reason = f"no word for {', '.join(foreign)}" if foreign else f"unclear: {why}"
            yield RULE.finding(
                facts.rank,
                f"{where} `{should}` was not found, and the dataflow is not compared ({reason})",
                facts.in_graph("all_tasks", _task(facts, first), "task_type"),
                hint="nothing is proven of it",
                severity=Severity.NOTE,
            )
            continue
        yield RULE.finding(
            facts.rank,
            f"{where} stands {shown} where {model.name} has `{should}`: {why}",
            facts.in_graph("all_tasks", _task(facts, first), "task_type"),
            hint=f"build it as `{should}`",
            related=(model.place("architectures", "model_type"),),
            about=[
                claim
                for one in found
                for claim in list(_about(facts, one)) or [f"dataflow of layer {one.layer}"]
            ],
        )


def _about(facts: RankFacts, mismatch: Mismatch) -> Iterator[str]:
    """Say what is wrong in the words of the rules that look at it more closely."""
    layer, features = mismatch.layer, facts.features
    if layer is None:
        return
    attends, feeds = features.attends(layer), features.feeds(layer)
    of_feeding = _OF_FEEDING.search(mismatch.should) is not None
    if mismatch.absent and attends is False and not of_feeding:
        yield f"no attention in layer {layer}"
    elif mismatch.absent and feeds is False and of_feeding:
        yield f"no a feed-forward network in layer {layer}"
    elif mismatch.why in ("cos is not given", "sin is not given") and (
        features.rotates(layer) is False
    ):
        yield f"no rotary embedding in layer {layer}"
    elif mismatch.step is not None:
        step = facts.dataflow.steps[mismatch.step]
        if step.added and re.search(r"\b(?:is not added|is added as well)$", mismatch.why):
            yield f"another summand at task {step.first}"
        elif mismatch.why.startswith("it takes "):
            for atom in (atom for operand in step.operands for atom in operand.atoms):
                if atom.name and atom.layer not in (None, layer):
                    yield f"a weight of layer {atom.layer} at task {step.first}"


def _task(facts: RankFacts, mismatch: Mismatch) -> int:
    if mismatch.step is not None:
        return facts.dataflow.steps[mismatch.step].first
    if mismatch.layer is not None:
        return facts.features.first_task(mismatch.layer)
    return max((step.first for step in facts.dataflow.steps), default=0)

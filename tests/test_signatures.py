"""The notation of operators, and the tables written in it."""

from __future__ import annotations

import pytest

from mirage_gate.config import Config, ConfigError, TaskTypeConfig, task_types
from mirage_gate.facts.signatures.notation import Axis, signatures
from mirage_gate.facts.signatures.table import OPERATORS
from tests.audits import findings_of
from tests.emitter import Model, qwen3, qwen3_ampere


def test_an_operator_reads_as_an_einsum() -> None:
    (linear,) = signatures("x[b,k] w:f8[n,k] r?[b,n] -> y[b,n]")
    assert [operand.name for operand in linear.inputs] == ["x", "w", "r"]
    assert [operand.index for operand in linear.operands] == [0, 1, 2, 0]
    assert linear.summed == {"k"}
    weight, residual = linear.named("w"), linear.named("r")
    assert weight is not None
    assert weight.kind == "f8"
    assert residual is not None
    assert residual.optional
    assert residual.axes == (Axis("b"), Axis("n"))


def test_factors_units_and_unrelated_axes() -> None:
    (found,) = signatures("x[_,2n] k[h.c] -> y[n] z[h.q]")
    assert found.inputs[0].axes == (Axis("_"), Axis("n", 2))
    assert not found.inputs[0].axes[0].related
    assert found.inputs[1].axes == (Axis("h", unit="c"),)
    assert found.summed == frozenset()


def test_the_reading_is_chosen_by_the_ranks_of_the_tiles() -> None:
    flat, deep = signatures("x[b,2n] -> y[b,n] | x[b,s,2n] q?[e] -> y[b,s,n]")
    assert flat.fits((2, 2), 1)
    assert not flat.fits((3, 3), 1)
    assert deep.fits((3, 1, 3), 2)
    assert deep.fits((3, 0, 3), 2)
    assert not deep.fits((0, 1, 3), 2)
    assert not deep.fits((3, 1), 2)


@pytest.mark.parametrize(
    "text",
    ["x[b]", "x -> y[b]", "X[b] -> y[b]", "x[b-1] -> y[b]", "x[b] -> x[b]", "x:q[b] -> y[b]"],
)
def test_what_is_no_operator(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no|twice"):
        signatures(text)


def test_the_table_can_be_read() -> None:
    for name, text in OPERATORS.items():
        assert name.startswith("TASK_")
        assert signatures(text)


def test_a_user_says_what_the_slots_of_a_type_are_to_each_other() -> None:
    own = TaskTypeConfig(name="TASK_MINE", code=900, operator="x[b,d] g[d] -> y[b,d]")
    assert task_types(Config(task_types=[own]))[900].operator == own.operator
    with pytest.raises(ConfigError, match=r"task type TASK_MINE: .* is no operator"):
        task_types(Config(task_types=[TaskTypeConfig(name="TASK_MINE", code=900, operator="x[b]")]))


@pytest.mark.parametrize(
    "model",
    [qwen3(1, arch="blackwell"), pytest.param(qwen3_ampere(1), marks=pytest.mark.slow)],
    ids=["blackwell", "ampere"],
)
@pytest.mark.parametrize("part", ["dims", "strides"])
def test_a_tile_with_too_few_dims_or_strides_breaks_no_rule(model: Model, part: str) -> None:
    """Fuzzing found it: strides were looked up by dim in MG204, MG213 and MG509."""
    pair = model.emit()
    cuda, seen = pair.cuda_text(), set()
    for task in pair.graph["all_tasks"]:
        for side in ("inputs", "outputs"):
            for slot, tensor in enumerate(task[side] or ()):
                key = (task["task_type"], side, slot)
                if key in seen or not tensor[part]:
                    continue
                seen.add(key)
                kept = tensor[part]
                for short in (kept[:0], kept[:-1]):
                    tensor[part] = short
                    report = findings_of(cuda, pair.json_text())
                    assert "internal error" not in report.ranks[0].failure, key
                    assert "MG504" in {finding.rule for finding in report.findings}
                tensor[part] = kept

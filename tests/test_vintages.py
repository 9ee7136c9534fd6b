"""Graphs of earlier generators: as clean, and as well held, as those of today."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mirage_gate import Finding, Severity, audit
from mirage_gate.artifacts import pairs
from mirage_gate.auditing.ranks import check
from tests.emitter import Model, Pair, qwen3
from tests.emitter.graph import dump
from tests.emitter.vintages import VINTAGES, Texts

PUT = 301

MODELS: dict[str, Model] = {
    "dense": qwen3(2),
    "allgather": qwen3(2, ranks=2, collective="allgather"),
}


def loud(texts: Texts) -> list[Finding]:
    report = audit(texts.cuda, texts.graph, rank=texts.rank)
    assert not report.failed_ranks, report.failed_ranks
    return [finding for finding in report.findings if finding.severity is not Severity.NOTE]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("vintage", VINTAGES)
def test_a_clean_graph_is_clean_in_every_vintage(tmp_path: Path, vintage: str, model: str) -> None:
    for pair in MODELS[model].emit_all():
        texts = VINTAGES[vintage](pair)
        (tmp_path / f"kernel_{pair.rank}.cu").write_text(texts.cuda)
        (tmp_path / f"task_graph_{pair.rank}.json").write_text(texts.graph)
    report = check(pairs.find([str(tmp_path)]))
    assert not report.failed_ranks
    said = [f"{f.rule} {f.message}" for f in report.findings if f.severity is not Severity.NOTE]
    assert said == []


@pytest.mark.parametrize("vintage", VINTAGES.values(), ids=VINTAGES)
def test_lost_tables_are_found_in_every_vintage(vintage: Callable[[Pair], Texts]) -> None:
    found = loud(vintage(qwen3(2).without_rope().emit()))
    assert {finding.tensor for finding in found if finding.rule == "MG101"} == {
        "cos_position_embedding",
        "sin_position_embedding",
    }


@pytest.mark.parametrize("vintage", VINTAGES.values(), ids=VINTAGES)
def test_a_lost_kernel_is_found_in_every_vintage(vintage: Callable[[Pair], Texts]) -> None:
    texts = vintage(qwen3(2).emit())
    texts.cuda = re.sub(r"TASK_SILU_MUL\b", "TASK_SILU_MUL_LINEAR_WITH_RESIDUAL", texts.cuda)
    (finding,) = [f for f in loud(texts) if f.rule == "MG501"]
    assert "TASK_SILU_MUL" in finding.message


def test_a_waiter_that_counts_copies_and_not_their_rows_starts_early() -> None:
    pair = qwen3(2, ranks=2, collective="allgather").emit(1)
    texts = VINTAGES["november_2025"](pair)
    put = pair.tasks(PUT)[0]
    rows = put["inputs"][0]["dims"][0]
    assert rows > 1
    graph = json.loads(texts.graph)
    graph["all_events"][put["trigger_event"] & 0xFFFF_FFFF]["num_triggers"] -= rows - 1
    texts.graph = dump(graph)
    assert "MG401" in {finding.rule for finding in loud(texts)}


def test_a_code_that_no_vintage_fits_is_unknown() -> None:
    texts = VINTAGES["october_2025"](qwen3(2).emit())
    texts.cuda = texts.cuda.replace("TASK_ATTN_SM100", "TASK_OUR_OWN_ATTENTION")
    report = audit(texts.cuda, texts.graph)
    unknown = [finding for finding in report.findings if finding.rule == "MG507"]
    assert ["253" in finding.message for finding in unknown] == [True]
    assert [f"{f.rule} {f.message}" for f in loud(texts)] == []

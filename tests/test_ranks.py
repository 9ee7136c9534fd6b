"""Ranks: what only their comparison shows, in one run, in processes, and from summaries."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from mirage_gate import Selection, schema_files
from mirage_gate.agreed import summarizing, summary
from mirage_gate.artifacts import pairs
from mirage_gate.auditing import asking, workers
from mirage_gate.auditing import ranks as all_ranks
from mirage_gate.auditing.rank import Job, Outcome, audit_pair
from mirage_gate.auditing.ranks import check
from mirage_gate.cli import cli
from mirage_gate.findings import Finding
from mirage_gate.report import Report
from mirage_gate.rules import all_rules, rule_by_id
from tests.emitter import Pair, deepseek_v3, qwen3
from tests.rules.ranks._shared import TP2, TP4, without_collective

RANKS = Selection(select=("MG6",))


def write(folder: Path, ranks: list[Pair]) -> str:
    for pair in ranks:
        pair.write(folder)
    return str(folder)


def run(path: str, selection: Selection = RANKS, **rest: Any) -> Report:
    report = check(pairs.find([path]), selection=selection, **rest)
    assert not report.failed_ranks, report.failed_ranks[0].failure
    return report


def findings(folder: Path, ranks: list[Pair]) -> tuple[Finding, ...]:
    return run(write(folder, ranks)).findings


# -- Sound runs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [TP4, TP2, qwen3(1, ranks=4)],
    ids=["allgather", "tile", "one layer"],
)
def test_sound_ranks_fit_together(tmp_path: Path, model: Any) -> None:
    assert findings(tmp_path, model.emit_all()) == ()


def test_the_ranks_of_deepseek_lack_their_sums_and_fit_together(tmp_path: Path) -> None:
    # as MPK's own builder has it: no sum over the ranks behind o_proj and the dense down_proj
    found = findings(tmp_path, deepseek_v3(4, ranks=8).emit_all())
    assert {finding.rule for finding in found} == {"MG607"}
    assert {finding.rank for finding in found} == set(range(8))


@pytest.mark.parametrize(
    "name", ["qwen3_8b_2l_ampere_tp4_allgather", "qwen3_1.7b_6l_hopper_tp2_tile"]
)
def test_real_ranks_fit_together(artifacts: Path, name: str) -> None:
    assert run(str(artifacts / name)).findings == ()


@pytest.mark.parametrize("names", ["rank", "plain"])
def test_every_family_of_names(tmp_path: Path, names: Any) -> None:
    TP2.write(tmp_path, names)
    folders = [tmp_path] if names == "rank" else sorted(tmp_path.iterdir())
    report = check(pairs.find(map(str, folders)), selection=RANKS)
    assert len(report.ranks) == 2
    assert report.findings == ()


def test_half_a_pair_is_no_rank(tmp_path: Path) -> None:
    folder = write(tmp_path, TP4.emit_all())
    (tmp_path / "task_graph_2.json").unlink()
    report = check(pairs.find([folder]), selection=RANKS)
    assert [rank.rank for rank in report.failed_ranks] == [2]
    assert {finding.rule for finding in report.findings} == {"MG903"}
    assert report.exit_status() == 1


# -- Summaries ---------------------------------------------------------------------------------


def broken_run() -> list[Pair]:
    """Four ranks, each with something of its own, and something between them."""
    ranks = [
        TP4.emit(0),
        TP4.without_rope(layer=1).emit(1),
        without_collective(TP4.emit(2), 301, 1),
        TP4.with_extra_host("lost").emit(3),
    ]
    ranks[0].declaration("all_reduce_buf").nbytes *= 2
    return ranks


def test_a_folder_is_no_summary_and_a_file_no_format(tmp_path: Path) -> None:
    folder = write(tmp_path / "all", broken_run())
    done = CliRunner().invoke(cli, ["merge", folder])
    assert done.exit_code == 2
    assert f"first sum it up with `mirage-gate check {folder} -o summary=FILE`" in done.output
    done = CliRunner().invoke(cli, ["check", folder, "-o", "page.html"])
    assert done.exit_code == 2
    assert "'page.html' is no format (a file is FORMAT=page.html)" in done.output


def test_merged_summaries_are_one_run(tmp_path: Path) -> None:
    folder = write(tmp_path / "all", broken_run())
    runner = CliRunner()
    for rank in range(4):
        runner.invoke(
            cli, ["check", folder, "--ranks", str(rank), "-o", f"summary={tmp_path}/{rank}.json"]
        )
    whole, merged = tmp_path / "whole.json", tmp_path / "merged.json"
    one = runner.invoke(cli, ["check", folder, "-o", f"json={whole}"], standalone_mode=False)
    files = [str(tmp_path / f"{rank}.json") for rank in (2, 0, 3, 1)]
    two = runner.invoke(cli, ["merge", *files, "-o", f"json={merged}"], standalone_mode=False)
    assert one.return_value == two.return_value == 1
    here, there = (json.loads(file.read_text()) for file in (whole, merged))
    assert here["findings"] == there["findings"]
    assert {f["rule"] for f in here["findings"]} >= {"MG102", "MG601", "MG602", "MG603", "MG701"}
    for one_rank, other in zip(here["ranks"], there["ranks"], strict=True):
        for field in (
            "rank",
            "cuda",
            "graph",
            "audited",
            "tasks",
            "events",
            "tensors",
            "task_types",
        ):
            assert one_rank[field] == other[field]
        for tensor, same in zip(one_rank["coverage"], other["coverage"], strict=True):
            assert {**tensor, "layers": []} == {**same, "layers": []}


def test_a_summary_of_several_ranks_is_that_of_each(tmp_path: Path) -> None:
    folder = write(tmp_path, TP4.emit_all())
    together = check(pairs.find([folder]), selection=RANKS).summaries
    apart = [
        check(pairs.find([folder], {rank}), selection=RANKS, summarize=True).summaries[0]
        for rank in range(4)
    ]
    assert list(together) == apart
    assert summary.decode(summary.encode(together).encode()) == together
    assert all(place.placed for one in together for place in summarizing.places(one))


def test_a_summary_holds_to_its_schema(tmp_path: Path) -> None:
    folder = write(tmp_path, broken_run())
    (tmp_path / "kernel_9.cu").write_text("nothing")
    text = summary.encode(check(pairs.find([folder])).summaries)
    schema = json.loads(schema_files.text("summary"))
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(json.loads(text))


def test_a_rank_that_was_not_audited_is_not_audited_when_merged(tmp_path: Path) -> None:
    folder = write(tmp_path / "all", TP2.emit_all())
    graph = tmp_path / "all" / "task_graph_1.json"
    graph.write_text(graph.read_text()[:-100])
    file = str(tmp_path / "s.json")
    CliRunner().invoke(cli, ["check", folder, "-o", f"summary={file}"])
    result = CliRunner().invoke(cli, ["merge", file], standalone_mode=False)
    assert result.return_value == 1
    assert "NOT AUDITED" in result.output


def test_a_rank_given_twice_is_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path / "all", TP2.emit_all())
    file = str(tmp_path / "s.json")
    CliRunner().invoke(cli, ["check", folder, "-o", f"summary={file}"])
    result = CliRunner().invoke(cli, ["merge", file, file], standalone_mode=False)
    assert result.return_value == 1
    assert "rank 0 is there more than once" in result.output


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "tool": "", "ranks": []}',
        '{"version": 1, "ranks": 3}',
        '{"version": 1, "tool": "", "ranks": [{"rank": 0, "cuda_path": "", "graph_path": "", '
        '"audited": true, "sent": [[0, 0, 4611686018427387904, 1]]}]}',
        "\udc80",
    ],
)
def test_what_is_no_summary_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "s.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    result = CliRunner().invoke(cli, ["merge", str(file)])
    assert result.exit_code == 2
    assert "s.json is" in result.output


def test_a_merge_of_nothing_audited_passes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('{"version": 1, "tool": "", "ranks": []}')
    result = CliRunner().invoke(cli, ["merge", str(file)], standalone_mode=False)
    assert result.return_value == 2


def test_a_summary_is_small(tmp_path: Path) -> None:
    folder = write(tmp_path, [deepseek_v3(61, ranks=8).emit(0)])
    text = summary.encode(run(folder, summarize=True).summaries)
    assert len(text) < 400_000


# -- Processes ---------------------------------------------------------------------------------


def test_ranks_in_processes_give_the_same_report(tmp_path: Path) -> None:
    found = pairs.find([write(tmp_path, broken_run())])
    alone, together = check(found), check(found, jobs=3)
    assert msgspec.structs.replace(together, seconds=0) == msgspec.structs.replace(alone, seconds=0)


@pytest.mark.parametrize(
    ("death", "says"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by signal 9"),
        (lambda: os._exit(0), "ended with 0"),
        (lambda: 1 // 0, "the audit broke: ZeroDivisionError"),
    ],
    ids=["killed", "gone", "raises"],
)
def test_a_rank_whose_process_dies_was_not_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, death: Callable[[], object], says: str
) -> None:
    def dies(pair: pairs.Pair, job: Job) -> Outcome:
        if pair.rank == 1:
            death()
        return audit_pair(pair, job)

    monkeypatch.setattr(all_ranks, "audit_pair", dies)
    report = check(pairs.find([write(tmp_path, TP2.emit_all())]), jobs=2)
    assert [rank.rank for rank in report.failed_ranks] == [1]
    assert says in report.failed_ranks[0].failure
    assert report.exit_status("never") == 1
    assert report.ranks[0].audited


@pytest.fixture
def big_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[pairs.Pair]:
    """One rank with findings of many families, as big as need be for a second process."""
    assert workers.can_fork()  # or what is to die would be this process
    pair = TP2.emit_all()[1]
    tasks = pair.graph["all_tasks"]
    tasks[7]["trigger_event"] += 1
    tasks[9]["outputs"][0]["offset"] += 2
    tasks[20]["variant_id"] = 7
    pair.declarations.insert(0, type(pair.declarations[0])("nobody_reads_it"))
    monkeypatch.setattr(asking, "MANY", 1)
    return pairs.find([write(tmp_path, [pair])])


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[object]:
    """The calls of what starts a process, as they come."""
    calls: list[object] = []
    start = getattr(workers, name)

    def starts(*arguments: Any) -> workers.Process:
        calls.append(arguments)
        return cast("workers.Process", start(*arguments))

    monkeypatch.setattr(workers, name, starts)
    return calls


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_one_big_rank_in_two_processes_is_the_same(
    big_alone: list[pairs.Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = counted(monkeypatch, "start")
    one, two = check(big_alone), check(big_alone, jobs=2)
    assert len(started) == 1
    assert {finding.rule[:3] for finding in one.findings} >= {"MG1", "MG2", "MG4", "MG5"}
    assert msgspec.structs.replace(one, seconds=0) == msgspec.structs.replace(two, seconds=0)


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.parametrize(
    ("death", "says"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by signal 9"),
        (lambda: os._exit(0), "ended with 0"),
        (lambda: 1 // 0, "internal error in MG301: ZeroDivisionError"),
        (lambda: sys.exit(0), "the audit broke: SystemExit"),
    ],
    ids=["killed", "gone", "raises", "exits"],
)
def test_a_big_rank_whose_second_process_dies_was_not_audited(
    big_alone: list[pairs.Pair],
    monkeypatch: pytest.MonkeyPatch,
    death: Callable[[], object],
    says: str,
) -> None:
    monkeypatch.setattr(rule_by_id("MG301"), "check", lambda _: death())
    report = check(big_alone, jobs=2)
    assert [rank.rank for rank in report.failed_ranks] == [1]
    assert says in report.failed_ranks[0].failure
    assert report.exit_status("never") != 0


def _dies_of(number: int) -> int:
    if number % 10 == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    if number % 10 == 8:
        raise ValueError(number)
    return number


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_many_small_things_share_processes_and_one_that_dies_takes_none_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = counted(monkeypatch, "_start")
    assert workers.each(_dies_of, [(10 * number,) for number in range(1_000)], 2) == [
        10 * number for number in range(1_000)
    ]
    assert len(started) < 20
    results = workers.each(_dies_of, [(number,) for number in range(100)], 3)
    for number, result in enumerate(results):
        if number % 10 in (7, 8):
            assert isinstance(result, workers.Broke)
            assert ("killed by signal 9", "ValueError")[number % 10 - 7] in result.reason
        else:
            assert result == number


def test_one_rank_or_small_files_need_no_processes(tmp_path: Path) -> None:
    found = pairs.find([write(tmp_path, TP2.emit_all())])
    assert all_ranks.default_jobs(found) == 1
    assert all_ranks.default_jobs(found[:1]) == 1


def test_big_files_have_a_process_each(tmp_path: Path) -> None:
    found = pairs.find([write(tmp_path, TP2.emit_all())])
    for pair in found:
        with open(pair.graph, "ab") as file:  # noqa: PTH123
            file.truncate(all_ranks.BIG)
    assert 1 <= all_ranks.default_jobs(found) <= 2
    assert all_ranks.default_jobs(found[:1]) == all_ranks.default_jobs(found)


# -- A rule that breaks ------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["MG601", "MG701", "MG801"])
def test_a_rule_that_breaks_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    def breaks(_: object) -> Any:
        raise RuntimeError("boom")

    monkeypatch.setattr(rule_by_id(rule), "check", breaks)
    report = check(pairs.find([write(tmp_path, TP2.emit_all())]))
    assert report.exit_status("never") != 0
    assert all(f"internal error in {rule}" in rank.failure for rank in report.failed_ranks)


def test_the_scope_of_a_rule_is_one_of_three() -> None:
    assert {rule.scope for rule in all_rules()} == {"rank", "ranks", "memory"}

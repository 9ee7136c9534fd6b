"""MG301 to MG305 on graphs whose edges were moved or cut, each next to one that is sound.

Most cases keep every count, range and id consistent, so that only the order of accesses can see
what is wrong; a brute-force look at the pair (:mod:`tests.emitter.invariants`) says which are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirage_gate.auditing.selection import Selection
from mirage_gate.findings import Finding, Severity
from tests.emitter import Pair, deepseek_v3, qwen3, qwen3_moe
from tests.emitter.graph import INVALID_EVENT
from tests.emitter.invariants import problems
from tests.test_mg4 import CLEAN, RealPair, allgather, by_rule, check, line_of, only, small

ORDER = Selection(select=("MG3",))
BOTH = Selection(select=("MG3", "MG4"))


def recount(pair: Pair) -> None:
    """Let every event count what triggers it."""
    arrivals: dict[int, int] = {0: 1}
    for task in pair.graph["all_tasks"]:
        if task["trigger_event"] != INVALID_EVENT:
            event = task["trigger_event"] & 0xFFFF_FFFF
            arrivals[event] = arrivals.get(event, 0) + 1
    for number, event in enumerate(pair.graph["all_events"]):
        event["num_triggers"] = arrivals.get(number, 0)


def shift(pair: Pair, event: int) -> int:
    """Move the boundary after an event's range up by one task, ids and all; give the task."""
    events, tasks = pair.graph["all_events"], pair.graph["all_tasks"]
    moved: int = events[event + 1]["first_task_id"]
    tasks[moved]["dependent_event"] = tasks[moved - 1]["dependent_event"]
    events[event]["last_task_id"] = events[event + 1]["first_task_id"] = moved + 1
    return moved


def errors(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(f for f in findings if f.severity is Severity.ERROR)


# -- what only the order can see -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["dense", "tile-tp2", "mixture", "deepseek", "allgather-tp4"])
def test_a_range_shifted_with_its_ids_is_seen_where_it_does_harm(name: str) -> None:
    count = len(CLEAN[name]().graph["all_events"])
    harmful = 0
    for event in range(2, count - 2, 7):
        pair = CLEAN[name]()
        shift(pair, event)
        found = check(pair, BOTH)
        assert set(by_rule(found)) <= {"MG301", "MG302", "MG303", "MG304"}
        if _harm(pair):
            harmful += 1
            assert found, event
    assert harmful


def _harm(pair: Pair) -> bool:
    """By brute force: bytes read before they are written, or a task that END does not wait for."""
    said = problems(pair.cuda_text(), pair.json_text())
    return any("read before" in text or "lead to the end" in text for text in said)


def test_the_message_names_both_tasks_their_bytes_and_the_fork() -> None:
    pair = small()
    attention = pair.tasks(153)
    tasks = pair.graph["all_tasks"]
    second = tasks.index(attention[1])
    event = attention[0]["dependent_event"]
    assert shift(pair, event) == second
    found = check(pair, ORDER)
    (finding,) = (f for f in found if f.rule == "MG301" and f.tensor == "attn_in")
    linear = next(i for i, t in enumerate(tasks) if t["trigger_event"] == event + 1)
    assert finding.message.startswith(
        f"task {second} (TASK_PAGED_ATTENTION_HOPPER, layer 0, input 0) reads bytes "
    )
    assert f"of attn_in, which task {linear} (TASK_LINEAR_SWAPAB_HOPPER, layer 0" in finding.message
    assert "nothing orders them: event " in finding.message
    assert finding.location.line == line_of(pair.graph, "all_tasks", second, "dependent_event")
    steps = [step.line for step in finding.trace]
    assert steps == [
        line_of(pair.graph, "all_tasks", linear, "outputs", 0, "base_ptr"),
        line_of(pair.graph, "all_tasks", linear, "trigger_event"),
        line_of(pair.graph, "all_events", event - 1, "num_triggers"),
        line_of(pair.graph, "all_tasks", second, "dependent_event"),
    ]
    assert f"let task {linear} trigger event {event}" in finding.hint
    dead_end = only(found, "MG304")
    assert f"trigger event {event + 1}, which nobody waits for" in dead_end.message
    assert dead_end.location.line == line_of(pair.graph, "all_tasks", linear, "trigger_event")


def to_end(pair: Pair, tasks: list[dict[str, Any]]) -> None:
    """Let tasks trigger END instead of what waits for them, every count made right again."""
    end = len(pair.graph["all_events"]) - 1
    for task in tasks:
        task["trigger_event"] = task["trigger_event"] >> 32 << 32 | end
    recount(pair)


def test_a_gather_that_leads_to_the_end_alone() -> None:
    """The newer emitter's defect: the decode reads what nothing makes it wait for."""
    pair = deepseek_v3(5).emit()
    gathers = pair.tasks(278)
    for gather, decode in zip(gathers, _first_of_each_layer(pair, 269), strict=True):
        waits = gather["dependent_event"]
        for task in pair.graph["all_tasks"]:
            if task["dependent_event"] == decode:
                task["dependent_event"] = waits
    to_end(pair, gathers)
    found = by_rule(check(pair, ORDER))
    finding = next(f for f in found["MG301"] if f.tensor == "contiguous_kv")
    assert finding.severity is Severity.ERROR
    assert "TASK_MLA_MTP_DECODE_SM100, layer 0, input 1) reads" in finding.message
    assert "in 5 layers (0 to 4)" in finding.message
    assert {f.tensor for f in found["MG302"]} >= {"k_pe_out", "c_latent_out"}
    assert sum(map(len, found.values())) <= 8


def _first_of_each_layer(pair: Pair, kind: int) -> list[int]:
    return list(dict.fromkeys(task["dependent_event"] for task in pair.tasks(kind)))


def test_a_buffer_overwritten_while_it_is_read() -> None:
    """Layer 1's norm writes what layer 0's linear may still be reading."""
    pair = small()
    linear = pair.tasks(155)[0]
    to_end(pair, [linear])
    found = by_rule(check(pair, ORDER))
    (finding,) = found["MG302"]
    assert finding.tensor == "rmsnorm_out"
    assert "writes anew, and nothing orders them" in finding.message
    assert {f.tensor for f in found["MG301"]} == {"attn_in"}


def test_two_tiles_of_one_operator_that_overlap() -> None:
    pair = small()
    one, other = pair.tasks(155)[:2]
    other["outputs"][0]["offset"] = one["outputs"][0]["offset"] + 2
    finding = only(check(pair, ORDER), "MG303")
    assert finding.tensor == "attn_in"
    assert "both write bytes" in finding.message
    assert "both wait for event" in finding.message
    task = pair.graph["all_tasks"].index(other)
    assert finding.location.line == line_of(pair.graph, "all_tasks", task, "dependent_event")
    pair = small()
    one, other = pair.tasks(155)[:2]
    one["outputs"], other["outputs"] = other["outputs"], one["outputs"]
    assert not [f for f in check(pair, ORDER) if f.rule == "MG303"]


def test_two_tasks_that_are_alike_are_told_apart() -> None:
    pair = small()
    one, other = pair.tasks(118)[:2]
    for task in (one, other):  # in place: to do it twice is not to do it once
        task["inputs"] = task["outputs"] = one["outputs"]
        task["trigger_event"] = one["trigger_event"]
        task["dependent_event"] = one["dependent_event"]
    first, second = (pair.graph["all_tasks"].index(one) + i for i in (0, 1))
    finding = next(f for f in check(pair, ORDER) if f.rule == "MG303")
    assert finding.message.startswith(f"task {first} (")
    assert f" and task {second} (" in finding.message
    assert finding.location.line == line_of(pair.graph, "all_tasks", second, "dependent_event")


def test_a_task_that_reads_its_neighbour_s_tile() -> None:
    pair = small()
    one, other = pair.tasks(118)[:2]
    other["inputs"] = one["outputs"]
    found = [f for f in check(pair, ORDER) if f.tensor == "silu_mul_out"]
    assert [f.rule for f in found] == ["MG301"]
    assert f"task {pair.graph['all_tasks'].index(other)} (TASK_SILU_MUL" in found[0].message


def test_two_tasks_that_write_the_same_tile() -> None:
    pair = small()
    one, other = pair.tasks(155)[:2]
    other["outputs"] = one["outputs"]
    finding = only(check(pair, ORDER), "MG303")
    assert f"task {pair.graph['all_tasks'].index(one)} (" in finding.message
    # With the same weight as well it is the same work, twice: MG505's business.
    other["inputs"] = one["inputs"]
    assert "MG303" not in by_rule(check(pair, ORDER))


def test_tasks_that_pick_their_rows_by_metadata_need_different_metadata() -> None:
    """The reduce tasks all carry the whole output and pick rows by what the body reads."""
    pair = deepseek_v3(4).emit()
    reduce = pair.tasks(270)
    assert len({str(task["outputs"]) for task in reduce}) == 1
    assert check(pair, ORDER) == ()
    pair.branch("TASK_MLA_MTP_REDUCE_SM100").body = "i0 i1 o0"
    # Alike in everything the body reads now: repeated work.
    assert check(pair, ORDER) == ()
    reduce[0]["inputs"][0]["dims"] = [1, *reduce[0]["inputs"][0]["dims"][1:]]
    assert only(check(pair, ORDER), "MG303").tensor == "attn_out"


# -- MG304, MG305 ----------------------------------------------------------------------------------


def test_a_task_that_triggers_nothing_may_outlive_the_iteration() -> None:
    pair = small()
    one = pair.tasks(tensor="argmax_part_value")[0]
    one["trigger_event"] = INVALID_EVENT
    recount(pair)
    task = pair.graph["all_tasks"].index(one)
    finding = only(check(pair, ORDER), "MG304")
    assert finding.message.startswith(f"task {task} (TASK_ARGMAX_PARTIAL_SM100) ")
    assert "triggers no event: END does not wait for it" in finding.message
    assert finding.location.line == line_of(pair.graph, "all_tasks", task, "trigger_event")


def test_what_leads_to_the_end_over_a_remote_event_leads_to_the_end() -> None:
    for rank in range(4):
        assert check(allgather(rank), ORDER) == ()


def test_a_buffer_read_before_anything_writes_it() -> None:
    pair = small()
    first = pair.tasks(154)[0]
    index = pair.graph["all_tasks"].index(first)
    first["inputs"][0] = dict(first["inputs"][0], base_ptr="mlp_out")
    finding = only(check(pair, ORDER), "MG305")
    assert finding.severity is Severity.WARNING
    assert finding.tensor == "mlp_out"
    assert finding.location.line == line_of(pair.graph, "all_tasks", index, "inputs", 0, "base_ptr")
    assert "before any task writes them" in finding.message


def test_rows_picked_at_run_time_make_a_warning_where_they_may_miss() -> None:
    """In a later layer an expert's task may find its rows written before, by an earlier one."""
    pair = qwen3_moe(3).emit()
    experts = pair.tasks(255)
    last = experts[-1]["dependent_event"]
    shift(pair, last - 1)
    found = check(pair, ORDER)
    warned = [f for f in found if f.tensor == "silu_mul_out"]
    assert [f.severity for f in warned] == [Severity.WARNING]
    assert "picked at run time and may not meet" in warned[0].message
    # In the first layer nobody can have written them.
    pair = qwen3_moe(3).emit()
    shift(pair, pair.tasks(255)[0]["dependent_event"] - 1)
    stopped = [f for f in check(pair, ORDER) if f.tensor == "silu_mul_out"]
    assert [f.severity for f in stopped] == [Severity.ERROR]


def test_split_kv_partials_meet_by_their_descriptors_and_are_no_race() -> None:
    assert check(qwen3(3, split_kv=True).emit(), ORDER) == ()


# -- the real graphs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("qwen3_0.6b_4l_hopper", 0),
        ("qwen3_8b_2l_ampere_tp4_allgather", 2),
        ("qwen3_1.7b_6l_hopper_tp2_tile", 1),
        ("fused_shuffled_none_3l_ampere", 0),
    ],
)
def test_a_real_range_shifted_with_its_ids_is_stopped(
    artifacts: Path, name: str, rank: int
) -> None:
    pair = RealPair(artifacts, name, rank)
    count = len(pair.starts["all_events"])
    for event in range(3, count - 2, count // 6):
        moved = pair.get("all_events", event + 1, "first_task_id")
        before = pair.get("all_tasks", moved - 1, "dependent_event")
        kept = pair.get("all_tasks", moved, "dependent_event")
        pair.put("all_tasks", moved, "dependent_event", before)
        pair.put("all_events", event, "last_task_id", moved + 1)
        pair.put("all_events", event + 1, "first_task_id", moved + 1)
        found = pair.check()
        assert errors(found)
        assert {f.rule for f in found} <= {"MG301", "MG302", "MG303", "MG304"}
        pair.put("all_tasks", moved, "dependent_event", kept)
        pair.put("all_events", event, "last_task_id", moved)
        pair.put("all_events", event + 1, "first_task_id", moved)


def test_the_unordered_accesses_of_the_newer_emitter(artifacts: Path) -> None:
    found = by_rule(RealPair(artifacts, "dsv3_4l_blackwell_tp1").check())
    assert {f.tensor for f in found["MG301"]} == {"contiguous_kv", "c_latent_out", "k_pe_out"}
    assert {f.tensor for f in found["MG302"]} == {
        "rmsnorm_out",
        "fp8_input_7168_shared",
        "fp8_scale_7168_shared",
        "c_latent_out",
        "k_pe_out",
    }
    assert set(found) == {"MG301", "MG302", "MG401", "MG403"}
    assert all(f.severity is Severity.ERROR for own in found.values() for f in own)
    gather = next(f for f in found["MG301"] if f.tensor == "contiguous_kv")
    assert gather.message.startswith(
        "task 357 (TASK_MLA_MTP_DECODE_SM100, layer 0, input 1) reads bytes 0..4718591 of "
        "contiguous_kv, which task 356 (TASK_MLA_KV_GATHER_SM100, layer 0, input 3) writes"
    )
    assert "in 4 layers (0 to 3)" in gather.message

"""MG401 to MG407 on graphs of the emitter, each broken in one place, and next to it a sound one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage_gate.auditing.ranks import audit
from mirage_gate.auditing.selection import Selection
from mirage_gate.facts import Options
from mirage_gate.findings import Finding, Severity
from tests.emitter import Pair, deepseek_v3, qwen3, qwen3_ampere, qwen3_moe
from tests.emitter.graph import INVALID_EVENT, NVSHMEM_TAG, dump

Graph = dict[str, Any]
ORDER_AND_EVENTS = Selection(select=("MG3", "MG4"))
EVENTS = Selection(select=("MG4",))


def check(
    pair: Pair, selection: Selection = EVENTS, workers: int = 0, graph: str = ""
) -> tuple[Finding, ...]:
    """Audit a pair; the audit must come to its end."""
    report = audit(
        pair.cuda_text(),
        graph or pair.json_text(),
        rank=pair.rank,
        selection=selection,
        options=Options(workers=workers),
    )
    assert report.ranks[0].audited, report.ranks[0].failure
    return report.findings


def line_of(graph: Graph, *pointer: str | int) -> int:
    """The line where a value of the graph stands, found by putting something else there."""
    marked = copy.deepcopy(graph)
    holder = marked
    for part in pointer[:-1]:
        holder = holder[part]  # type: ignore[index]
    holder[pointer[-1]] = "<here>"  # type: ignore[index]
    before, _, _ = dump(marked).partition('"<here>"')
    return before.count("\n") + 1


def by_rule(findings: tuple[Finding, ...]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.rule, []).append(finding)
    return found


def only(findings: tuple[Finding, ...], rule: str) -> Finding:
    (finding,) = by_rule(findings)[rule]
    return finding


def small() -> Pair:
    return qwen3(2).emit()


def allgather(rank: int = 1) -> Pair:
    return qwen3(2, ranks=4, collective="allgather").emit(rank)


CLEAN: dict[str, Callable[[], Pair]] = {
    "dense": small,
    "split-kv": lambda: qwen3(2, split_kv=True).emit(),
    "fused": lambda: qwen3_ampere(2).emit(),
    "mixture": lambda: qwen3_moe(2).emit(),
    "deepseek": lambda: deepseek_v3(4).emit(),
    "deepseek-tp8": lambda: deepseek_v3(4, dense_layers=2, ranks=8).emit(3),
    "tile-tp2": lambda: qwen3(2, ranks=2, collective="tile").emit(1),
    "allgather-tp4": allgather,
}


@pytest.mark.parametrize("name", CLEAN)
def test_a_sound_graph_is_silent(name: str) -> None:
    assert check(CLEAN[name](), ORDER_AND_EVENTS) == ()


def join(pair: Pair) -> int:
    """An event of several triggers in the midst of the graph."""
    events = pair.graph["all_events"]
    return next(i for i, e in enumerate(events) if i > len(events) // 3 and e["num_triggers"] > 2)


# -- MG401 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("name", CLEAN)
def test_a_count_one_off_is_named_with_its_line(name: str, by: int) -> None:
    pair = CLEAN[name]()
    event = join(pair)
    needed = pair.graph["all_events"][event]["num_triggers"] + by
    pair.graph["all_events"][event]["num_triggers"] = needed
    found = check(pair, ORDER_AND_EVENTS)
    finding = only(found, "MG401")
    assert finding.location.line == line_of(pair.graph, "all_events", event, "num_triggers")
    assert f"event {event} counts on {needed} triggers" in finding.message
    assert ("MG403" in by_rule(found)) == (by > 0)
    assert set(by_rule(found)) <= {"MG401", "MG403"}


def test_the_end_counts_too() -> None:
    pair = small()
    end = len(pair.graph["all_events"]) - 1
    pair.graph["all_events"][end]["num_triggers"] += 1
    found = check(pair)
    assert "END never comes" in only(found, "MG401").message
    assert "every task starts and END never fires" in only(found, "MG403").message


def test_a_task_that_triggers_another_event_puts_both_counts_wrong() -> None:
    pair = small()
    event = join(pair)
    tasks = pair.graph["all_tasks"]
    moved = next(i for i, t in enumerate(tasks) if t["trigger_event"] == event)
    tasks[moved]["trigger_event"] = event + 1
    short, long = by_rule(check(pair))["MG401"]
    assert {short.location.line, long.location.line} == {
        line_of(pair.graph, "all_events", e, "num_triggers") for e in (event, event + 1)
    }
    assert any(
        place.line == line_of(pair.graph, "all_tasks", moved, "trigger_event")
        for place in long.related
    )


def test_the_same_mistake_in_every_layer_is_one_finding() -> None:
    pair = qwen3(6).emit()
    waits = {t["dependent_event"] for t in pair.tasks(153)}
    for event in waits:
        pair.graph["all_events"][event]["num_triggers"] *= 2
    found = check(pair)
    finding = only(found, "MG401")
    assert f"so do {len(waits) - 1} more events" in finding.message
    assert len(found) == 2


def test_a_wrong_count_is_proven_on_one_rank_where_the_triggers_are_remote() -> None:
    for rank in range(4):
        pair = allgather(rank)
        event = pair.tasks(301)[0]["trigger_event"] & 0xFFFF_FFFF
        pair.graph["all_events"][event]["num_triggers"] += 1
        message = only(check(pair), "MG401").message
        assert f"event {event} counts on 4 triggers and 3 triggers arrive from the other" in message


def test_a_rank_that_is_left_out_is_a_warning() -> None:
    pair = allgather(0)
    first = pair.tasks(301)[0]
    first["trigger_event"] += 1 << 32
    finding = only(check(pair), "MG401")
    assert finding.severity is Severity.WARNING
    index = pair.graph["all_tasks"].index(first)
    assert finding.location.line == line_of(pair.graph, "all_tasks", index, "trigger_event")


# -- MG402, MG403 ----------------------------------------------------------------------------------


def test_a_task_that_waits_for_its_own_future_makes_a_cycle() -> None:
    pair = small()
    task = pair.graph["all_tasks"].index(pair.tasks(153)[1])
    trigger = pair.graph["all_tasks"][task]["trigger_event"]
    pair.graph["all_tasks"][task]["dependent_event"] = trigger + 1
    found = check(pair, ORDER_AND_EVENTS)
    finding = only(found, "MG402")
    assert f"events {trigger} → {trigger + 1} → {trigger} wait for each other" in finding.message
    assert finding.location.line == line_of(pair.graph, "all_tasks", task, "dependent_event")
    assert [step.line for step in finding.trace][-1] == line_of(
        pair.graph, "all_tasks", task, "trigger_event"
    )
    assert f"event {trigger} waits for itself" in only(found, "MG403").message


def test_a_task_that_waits_for_what_it_triggers() -> None:
    pair = small()
    task = pair.graph["all_tasks"].index(pair.tasks(153)[0])
    one = pair.graph["all_tasks"][task]
    one["dependent_event"] = one["trigger_event"]
    message = only(check(pair), "MG402").message
    assert message.startswith(f"event {one['trigger_event']} waits for itself: task {task} ")


def test_the_stall_names_the_first_to_blame_and_leads_to_the_end() -> None:
    pair = small()
    events = pair.graph["all_events"]
    early, late = join(pair), len(events) - 2
    events[early]["num_triggers"] += 2
    events[late]["num_triggers"] += 1
    finding = only(check(pair), "MG403")
    assert f"event {early} needs" in finding.message
    assert finding.location.line == line_of(pair.graph, "all_events", early, "num_triggers")
    assert finding.trace[-1].note.startswith(f"END, event {len(events) - 1} needs 1 trigger")
    never = len(pair.graph["all_tasks"]) - events[early]["first_task_id"]
    assert f"{never:,} tasks of {len(pair.graph['all_tasks']):,} never start" in finding.message


# -- MG404 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [-2, -1, 1, 2])
@pytest.mark.parametrize("name", CLEAN)
def test_a_task_that_waits_for_another_event_than_its_range_says(name: str, by: int) -> None:
    pair = CLEAN[name]()
    event = join(pair)
    task = pair.graph["all_events"][event]["first_task_id"]
    pair.graph["all_tasks"][task]["dependent_event"] += by
    finding = only(check(pair), "MG404")
    assert finding.location.line == line_of(pair.graph, "all_tasks", task, "dependent_event")
    assert f"waits for event {event + by} and is in the range of event {event}" in finding.message


def test_a_range_that_moved_leaves_one_task_out_and_takes_another() -> None:
    pair = small()
    event = join(pair)
    one = pair.graph["all_events"][event]
    low, high = one["first_task_id"], one["last_task_id"]
    one["first_task_id"], one["last_task_id"] = low + 1, high + 1
    found = by_rule(check(pair))
    assert set(found) == {"MG404"}
    lines = {finding.location.line for finding in found["MG404"]}
    assert line_of(pair.graph, "all_tasks", low, "dependent_event") in lines
    assert line_of(pair.graph, "all_events", event + 1, "first_task_id") in lines


def test_ranges_that_are_none() -> None:
    pair = small()
    events, count = pair.graph["all_events"], len(pair.graph["all_tasks"])
    events[2]["last_task_id"] = count + 7
    events[3]["first_task_id"] = events[3]["last_task_id"] + 1
    messages = [finding.message for finding in by_rule(check(pair))["MG404"]]
    assert any(f"and there are {count:,} tasks" in message for message in messages)
    assert any("ends before it starts" in message for message in messages)


def test_first_tasks_wait_for_nothing_and_are_in_no_range() -> None:
    pair = small()
    pair.graph["all_tasks"][2]["dependent_event"] = 3
    assert "is one of first_tasks and waits for event 3" in only(check(pair), "MG404").message
    pair = small()
    pair.graph["all_events"][2]["first_task_id"] = 2
    assert "task 2 is one of first_tasks and is in the range" in only(check(pair), "MG404").message
    pair = small()
    pair.graph["first_tasks"] = []
    assert "task 2 (TASK_EMBEDDING) waits for no event" in only(check(pair), "MG404").message


def test_many_mismatches_are_few_findings() -> None:
    pair = qwen3(6).emit()
    for event in pair.graph["all_events"][2:-1]:
        event["first_task_id"] += 1
    found = check(pair)
    assert 0 < len(found) <= 15
    assert any(finding.message.endswith(" more like it") for finding in found)


# -- MG405 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["dependent_event", "trigger_event"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda i: i + 50_000, "has position"),
        (lambda i: i | 0xFFFF_0000, "has position"),
        (lambda i: i + (5 << 32), "is rank 5's"),
        (lambda i: i | 0x0100 << 48, "has the tag 0x100"),
        (lambda i: 0, "is event 0"),
    ],
)
def test_an_id_that_cannot_be_meant(field: str, change: Callable[[int], int], says: str) -> None:
    pair = small()
    task = pair.graph["all_tasks"].index(pair.tasks(153)[1])
    one = pair.graph["all_tasks"][task]
    one[field] = change(one[field])
    finding = only(check(pair, ORDER_AND_EVENTS), "MG405")
    assert says in finding.message
    assert f"{field} {one[field]} of task {task} " in finding.message
    assert finding.location.line == line_of(pair.graph, "all_tasks", task, field)


def test_an_nvshmem_tag_where_nothing_is_sent() -> None:
    pair = small()
    pair.tasks(153)[0]["trigger_event"] |= NVSHMEM_TAG << 48
    assert "its task sends nothing" in only(check(pair), "MG405").message
    pair = small()
    pair.tasks(153)[0]["dependent_event"] |= NVSHMEM_TAG << 48
    finding = only(check(pair), "MG405")
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("gpu", "says"), [(1, "which is this rank"), (4, "and there are 4"), (900, "and there are 4")]
)
def test_a_remote_trigger_must_go_to_another_rank_that_is_there(gpu: int, says: str) -> None:
    pair = allgather(1)
    first = pair.tasks(301)[0]
    first["trigger_event"] = NVSHMEM_TAG << 48 | gpu << 32 | first["trigger_event"] & 0xFFFF_FFFF
    assert says in only(check(pair), "MG405").message


def test_a_file_of_another_rank_is_not_this_rule_s_business() -> None:
    pair = allgather(2)
    report = audit(pair.cuda_text(), pair.json_text(), rank=0, selection=EVENTS)
    assert report.findings == ()


# -- MG406, MG407 ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("all_tasks", 0, "task_type"), 10, "takes it for TERMINATE"),
        (("all_tasks", 1, "task_type"), 101, "takes it for BEGIN"),
        (("all_tasks", 1, "trigger_event"), 2, "it must trigger event 1"),
        (("all_tasks", 1, "trigger_event"), INVALID_EVENT, "triggers no event"),
        (("all_tasks", 1, "dependent_event"), 2, "it must wait for nothing"),
        (("all_tasks", 0, "trigger_event"), 3, "it must trigger nothing"),
        (("all_tasks", 9, "task_type"), 0, "stops for good"),
        (("all_events", 0, "event_type"), 900, "it ends the kernel"),
        (("all_events", 1, "event_type"), 902, "it launches the tasks"),
        (("all_events", 1, "first_task_id"), 3, "the tasks to launch are 2.."),
        (("all_events", 1, "last_task_id"), 9, "the tasks to launch are 2.."),
        (("all_events", -1, "event_type"), 900, "it ends the iteration"),
        (("all_events", 5, "event_type"), 910, "the iteration ends there"),
        (("all_events", 5, "event_type"), 903, "launched twice"),
        (("first_tasks", 0), 1, "which the runtime starts itself"),
        (("first_tasks", 0), 2_000_000, "first_tasks names task 2000000"),
    ],
)
def test_a_place_that_the_runtime_has_built_in(
    place: tuple[Any, ...], value: int, says: str
) -> None:
    pair = small()
    if place[:2] == ("all_events", -1):
        place = ("all_events", len(pair.graph["all_events"]) - 1, place[2])
    holder = pair.graph
    for part in place[:-1]:
        holder = holder[part]
    holder[place[-1]] = value
    finding = only(check(pair, ORDER_AND_EVENTS), "MG406")
    assert says in finding.message
    assert finding.location.line == line_of(pair.graph, *place)


@pytest.mark.parametrize("key", ["all_tasks", "all_events"])
def test_an_empty_graph_is_reported_and_nothing_else_happens(key: str) -> None:
    pair = small()
    pair.graph[key] = []
    assert "MG406" in by_rule(check(pair, ORDER_AND_EVENTS))


def test_a_graph_of_event_0_alone_has_no_end_to_wait_for() -> None:
    pair = small()
    del pair.graph["all_events"][1:]
    del pair.graph["all_tasks"][2:]
    assert set(by_rule(check(pair))) == {"MG405", "MG406"}


def test_the_queues_overflow_with_few_workers_and_hold_with_many() -> None:
    pair = small()
    tasks = pair.graph["all_tasks"]
    tasks += [tasks[2]] * (8193 - (len(tasks) - 2))
    finding = only(check(pair, Selection(select=("MG407",)), workers=1), "MG407")
    assert finding.severity is Severity.ERROR
    assert "8,193 tasks are launched at once, 8,193 for each of 1 workers" in finding.message
    assert finding.location.line == line_of(pair.graph, "all_events", 1, "last_task_id")
    assert not check(pair, Selection(select=("MG407",)), workers=2)
    assert not check(pair, Selection(select=("MG407",)))


# -- the real graphs -------------------------------------------------------------------------------

REAL = [
    ("qwen3_0.6b_4l_hopper", 0),
    ("qwen3_8b_4l_hopper_splitkv", 0),
    *(("qwen3_8b_2l_ampere_tp4_allgather", rank) for rank in range(4)),
    ("qwen3_30b_a3b_6l_blackwell", 0),
    ("qwen3_1.7b_6l_hopper_tp2_tile", 0),
    ("qwen3_1.7b_6l_hopper_tp2_tile", 1),
    ("fused_shuffled_none_3l_ampere", 0),
    ("mutant_residual_layer1_stale", 0),
    ("pre665_dsv3_4l_blackwell_tp1", 0),
    ("pre665_dsv3_5l_blackwell_tp8_mtp2", 0),
    ("pre665_dsv3_7l_blackwell_tp8", 0),
]


class RealPair:
    """A real pair, changed a line at a time: its text has one scalar on each."""

    def __init__(self, artifacts: Path, name: str, rank: int = 0) -> None:
        folder = artifacts / name
        self.rank = rank
        self.cuda = (folder / f"kernel_{rank}.cu").read_text()
        self.lines = (folder / f"task_graph_{rank}.json").read_text().split("\n")
        starts = [i for i, line in enumerate(self.lines) if line == "    {"]
        tasks_at = self.lines.index('  "all_tasks": [')
        self.starts = {
            "all_events": [i for i in starts if i < tasks_at],
            "all_tasks": [i for i in starts if i > tasks_at],
        }

    def line(self, of: str, number: int, field: str) -> int:
        """The line (from 1) of a number of an event or task."""
        at = self.starts[of][number]
        while not self.lines[at].startswith(f'      "{field}": '):
            at += 1
        return at + 1

    def get(self, of: str, number: int, field: str) -> int:
        text = self.lines[self.line(of, number, field) - 1]
        return int(text.split(":")[1].rstrip(","))

    def put(self, of: str, number: int, field: str, value: int) -> None:
        at = self.line(of, number, field) - 1
        comma = "," if self.lines[at].endswith(",") else ""
        self.lines[at] = f'      "{field}": {value}{comma}'

    def check(self) -> tuple[Finding, ...]:
        report = audit(self.cuda, "\n".join(self.lines), rank=self.rank, selection=ORDER_AND_EVENTS)
        assert report.ranks[0].audited, report.ranks[0].failure
        return report.findings


@pytest.mark.parametrize(("name", "rank"), REAL)
def test_a_real_graph_is_silent(artifacts: Path, name: str, rank: int) -> None:
    assert RealPair(artifacts, name, rank).check() == ()


@pytest.mark.parametrize(("name", "rank"), REAL[::3])
def test_a_real_graph_broken_in_one_place_is_stopped(artifacts: Path, name: str, rank: int) -> None:
    pair = RealPair(artifacts, name, rank)
    last = len(pair.starts["all_events"]) - 1
    event = last // 2
    task = pair.get("all_events", event, "first_task_id")
    count = pair.get("all_events", event, "num_triggers")
    waits = pair.get("all_tasks", task, "dependent_event")
    fires = pair.get("all_tasks", task, "trigger_event")
    mutations = [
        ("all_events", event, "num_triggers", count + 1, "MG401"),
        ("all_events", event, "num_triggers", count - 1, "MG401"),
        ("all_events", last, "event_type", 900, "MG406"),
        ("all_tasks", 1, "task_type", 101, "MG406"),
        ("all_tasks", task, "dependent_event", waits - 1, "MG404"),
        ("all_tasks", task, "dependent_event", waits + 1, "MG404"),
        ("all_tasks", task, "dependent_event", fires, "MG402"),
        ("all_tasks", task, "trigger_event", fires + last, "MG405"),
        ("all_tasks", task, "dependent_event", waits + last, "MG405"),
    ]
    for of, number, field, value, rule in mutations:
        kept = pair.get(of, number, field)
        pair.put(of, number, field, value)
        found = by_rule(pair.check())
        assert rule in found, (of, number, field, value)
        assert pair.line(of, number, field) in {each.location.line for each in found[rule]}
        pair.put(of, number, field, kept)


def test_the_join_that_counts_twice(artifacts: Path) -> None:
    pair = RealPair(artifacts, "dsv3_4l_blackwell_tp1")
    found = by_rule(pair.check())
    (count,) = found["MG401"]
    assert "event 121 counts on 18 triggers and 9 tasks trigger it" in count.message
    assert count.location.line == pair.line("all_events", 121, "num_triggers")
    (stall,) = found["MG403"]
    assert "1,810 tasks of 13,646 never start: event 121 needs 18 triggers" in stall.message


# -- hostile input ---------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(0, 60),
    st.sampled_from([2**31 - 1, 0xFFFF, 1 << 16]),
)
IDS = st.one_of(
    st.integers(0, 60),
    st.just(INVALID_EVENT),
    st.integers(0, 2**63 - 1),
    st.builds(lambda g, e: NVSHMEM_TAG << 48 | g << 32 | e, st.integers(0, 5), st.integers(0, 60)),
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_nothing_in_a_graph_breaks_the_audit(data: st.DataObject) -> None:
    pair = SOURCES[data.draw(st.sampled_from(sorted(SOURCES)))]
    graph = copy.deepcopy(pair.graph)
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            event = data.draw(st.sampled_from(graph["all_events"]))
            field = data.draw(st.sampled_from(sorted(event)))
            event[field] = data.draw(NUMBERS)
        else:
            task = data.draw(st.sampled_from(graph["all_tasks"]))
            field = data.draw(st.sampled_from(["trigger_event", "dependent_event"]))
            task[field] = data.draw(IDS)
    for finding in check(pair, ORDER_AND_EVENTS, graph=dump(graph)):
        assert finding.message
        assert finding.location.line > 0
        assert "\n" not in finding.message
        assert all(place.line > 0 for place in (*finding.related, *finding.trace))


SOURCES = {"dense": small(), "allgather": allgather()}

"""Order and events together: nothing said of what is sound, something of all that is broken.

Most of what is broken here keeps every count, range and id consistent, so that only the order of
accesses can see it; a brute-force look (:mod:`tests.emitter.invariants`) says which are.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage_gate import Finding, Severity
from tests.audits import findings_of
from tests.emitter import Pair
from tests.emitter.graph import INVALID_EVENT, NVSHMEM_TAG, dump
from tests.emitter.invariants import problems
from tests.rules.graphs import ORDER_AND_EVENTS, SOUND, RealPair, allgather, shift, small


def check(pair: Pair, graph: str = "") -> tuple[Finding, ...]:
    """What the rules of both say of a pair; the audit must come to its end."""
    text = graph or pair.json_text()
    report = findings_of(pair.cuda_text(), text, rank=pair.rank, selection=ORDER_AND_EVENTS)
    assert report.ranks[0].audited, report.ranks[0].failure
    return report.findings


def by_rule(findings: tuple[Finding, ...]) -> dict[str, list[Finding]]:
    """The findings of each rule, those among them that follow from another."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        for one in (finding, *finding.folded):
            found.setdefault(one.rule, []).append(one)
    return found


def errors(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(f for f in findings if f.severity is Severity.ERROR)


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_graph_is_silent(name: str) -> None:
    assert check(SOUND[name]()) == ()


@pytest.mark.parametrize("name", ["dense", "tile-tp2", "mixture", "deepseek", "allgather-tp4"])
def test_a_range_shifted_with_its_ids_is_seen_where_it_does_harm(name: str) -> None:
    count = len(SOUND[name]().graph["all_events"])
    harmful = 0
    for event in range(2, count - 2, max(7, count // 12)):
        pair = SOUND[name]()
        shift(pair, event)
        found = check(pair)
        assert set(by_rule(found)) <= {"MG301", "MG302", "MG303", "MG304"}
        if _harm(pair):
            harmful += 1
            assert found, event
    assert harmful


def _harm(pair: Pair) -> bool:
    """By brute force: bytes read before they are written, or a task that END does not wait for."""
    said = problems(pair.cuda_text(), pair.json_text())
    return any("read before" in text or "lead to the end" in text for text in said)


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


@pytest.mark.parametrize(("name", "rank"), REAL)
def test_a_real_graph_is_silent(artifacts: Path, name: str, rank: int) -> None:
    assert RealPair(artifacts, name, rank).check() == ()


@pytest.mark.slow
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
    assert "event 121 waits for 18 triggers and 9 tasks trigger it" in count.message
    assert count.location.line == pair.line("all_events", 121, "num_triggers")
    (stall,) = found["MG403"]
    assert "1,810 tasks of 13,646 never start: event 121 needs 18 triggers" in stall.message


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
    for event in range(3, count - 2, count // 4):
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
    assert "such pairs, in layers 0-3" in gather.message


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
    for finding in check(pair, graph=dump(graph)):
        assert finding.message
        assert finding.location.line > 0
        assert "\n" not in finding.message
        assert all(place.line > 0 for place in (*finding.related, *finding.trace))


SOURCES = {"dense": small(), "allgather": allgather()}

"""MG303 two-writers."""

from __future__ import annotations

import pytest

from mirage_gate.auditing.ranks import audit
from tests.emitter import Pair, deepseek_v3, qwen3
from tests.rules import Expect, fires, silent
from tests.rules.graphs import position, small


@fires("MG303", tensor="attn_in", once=True, says=("both write bytes", "both wait for event"))
def test_two_tiles_of_one_operator_that_overlap() -> Expect:
    pair = small()
    one, other = pair.tasks(155)[:2]
    other["outputs"][0]["offset"] = one["outputs"][0]["offset"] + 2
    return Expect(pair, graph=("all_tasks", position(pair, other), "dependent_event"))


@silent("MG303")
def test_two_tiles_of_one_operator_that_are_exchanged() -> Pair:
    pair = small()
    one, other = pair.tasks(155)[:2]
    one["outputs"], other["outputs"] = other["outputs"], one["outputs"]
    return pair


@fires("MG303")
def test_two_tasks_that_are_alike_are_told_apart() -> Expect:
    pair = small()
    one, other = pair.tasks(118)[:2]
    for task in (one, other):  # in place: to do it twice is not to do it once
        task["inputs"] = task["outputs"] = one["outputs"]
        task["trigger_event"] = one["trigger_event"]
        task["dependent_event"] = one["dependent_event"]
    first, second = (position(pair, one) + i for i in (0, 1))
    return Expect(
        pair,
        graph=("all_tasks", second, "dependent_event"),
        says=(f"task {first} (", f" and task {second} ("),
    )


def _one_tile() -> Pair:
    pair = small()
    one, other = pair.tasks(155)[:2]
    other["outputs"] = one["outputs"]
    return pair


@fires("MG303", once=True)
def test_two_tasks_that_write_the_same_tile() -> Expect:
    pair = _one_tile()
    one, other = (position(pair, task) for task in pair.tasks(155)[:2])
    return Expect(pair, graph=("all_tasks", other, "dependent_event"), says=(f"task {one} (",))


@silent("MG303")
def test_the_same_work_done_twice() -> Pair:
    """With the same weight as well it is MG505's business."""
    pair = _one_tile()
    one, other = pair.tasks(155)[:2]
    other["inputs"] = one["inputs"]
    return pair


def _reducers_that_take_no_metadata() -> Pair:
    pair = deepseek_v3(4).emit()
    pair.branch("TASK_MLA_MTP_REDUCE_SM100").body = "i0 i1 o0"
    return pair


@silent("MG303", alone=("MG3",))
def test_tasks_that_carry_the_whole_output_and_pick_rows_by_their_metadata() -> Pair:
    pair = deepseek_v3(4).emit()
    assert len({str(task["outputs"]) for task in pair.tasks(270)}) == 1
    return pair


@silent("MG303", alone=("MG3",))
def test_tasks_that_are_alike_in_everything_their_body_reads() -> Pair:
    return _reducers_that_take_no_metadata()


@fires("MG303", tensor="attn_out", once=True)
def test_tasks_that_carry_the_whole_output_and_differ_in_what_they_read() -> Expect:
    pair = _reducers_that_take_no_metadata()
    first, second = pair.tasks(270)[:2]
    first["inputs"][0]["dims"] = [1, *first["inputs"][0]["dims"][1:]]
    return Expect(pair, graph=("all_tasks", position(pair, second), "dependent_event"))


@silent("MG303", alone=("MG3",))
def test_split_kv_partials_meet_by_their_descriptors() -> Pair:
    return qwen3(3, split_kv=True).emit()


def test_a_race_too_many_to_be_listed_makes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two writers the later of which races with a reader, that race may be beyond the list."""
    pair = deepseek_v3(10).emit(0)
    gathers = [task for task in pair.graph["all_tasks"] if task["task_type"] == 278]
    assert gathers
    for task in gathers:
        task["trigger_event"] = len(pair.graph["all_events"]) - 1
    texts = pair.cuda_text(), pair.json_text()

    def writers() -> set[str]:
        return {f.tensor for f in audit(*texts).findings if f.rule == "MG303"}

    every = writers()
    for most in (5, 20, 40):
        monkeypatch.setattr("mirage_gate.facts.order.races.MOST_RACES", most)
        assert writers() <= every

"""What follows from a broken event or a race is said with it; another mistake is said itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirage_gate import Finding, Selection, Severity
from mirage_gate.artifacts.graph import NVSHMEM_TAG
from tests.emitter import Pair, qwen3, qwen3_moe
from tests.emitter.graph import INVALID_EVENT
from tests.rules import Waived, report_of
from tests.rules.graphs import position, shift, to_end

LINEAR, ATTENTION = 155, 153


def found(pair: Pair, selection: Selection | None = None) -> list[Finding]:
    report = report_of(pair, selection=selection)
    assert not report.failed_ranks
    return [one for one in report.findings if one.severity is not Severity.NOTE]


def said(pair: Pair, selection: Selection | None = None) -> list[tuple[str, list[str]]]:
    """The rules of the findings, each with those of what follows from it."""
    return [
        (one.rule, sorted({other.rule for other in one.folded})) for one in found(pair, selection)
    ]


def loses_its_trigger(pair: Pair, layer: int = 1) -> dict[str, Any]:
    """The first projection of a layer triggers nothing."""
    task = pair.tasks(LINEAR)[4 * layer]
    task["trigger_event"] = INVALID_EVENT
    return task


def starts_too_early(pair: Pair, layer: int) -> int:
    """The second attention task of a layer starts with those that write what it reads."""
    attention = pair.tasks(ATTENTION)[4 * layer : 4 * layer + 2]
    shift(pair, attention[0]["dependent_event"])
    return position(pair, attention[1])


def event_of(pair: Pair, event_id: int) -> dict[str, Any]:
    event: dict[str, Any] = pair.graph["all_events"][event_id & 0xFFFF_FFFF]
    return event


def test_a_wrong_count_is_one_error() -> None:
    pair = qwen3(3).emit()
    event_of(pair, pair.tasks(LINEAR)[4]["trigger_event"])["num_triggers"] += 1
    assert said(pair) == [("MG401", ["MG403"])]


@pytest.mark.parametrize("model", [qwen3(3), qwen3(3, split_kv=True), qwen3(3, arch="blackwell")])
def test_a_task_that_triggers_nothing_is_one_error(model: Any) -> None:
    pair = model.emit()
    number = next(i for i, t in enumerate(pair.graph["all_tasks"]) if t["task_type"] in (155, 252))
    task = pair.graph["all_tasks"][number]
    event = task["trigger_event"] & 0xFFFF_FFFF
    task["trigger_event"] = INVALID_EVENT
    ((rule, follows),) = said(pair)
    assert rule == "MG401"
    assert {"MG301", "MG304", "MG403"} <= set(follows)
    (one,) = found(pair)
    assert one.message.startswith(f"event {event} waits for")
    assert any(f"follows from it: task {number} " in place.note for place in one.related)
    assert one.hint == f"let task {number} trigger event {event}"
    assert any(place.note.startswith("no event here, and others of") for place in one.related)


def test_a_task_that_triggers_another_event_is_one_error() -> None:
    pair = qwen3(3).emit()
    linears = pair.tasks(LINEAR)
    right = linears[0]["trigger_event"]
    linears[0]["trigger_event"] = pair.tasks(ATTENTION)[8]["trigger_event"]
    (one,) = found(pair)
    assert one.message.startswith(f"event {right & 0xFFFF_FFFF} waits for")
    assert {"MG301", "MG401", "MG403"} <= {other.rule for other in one.folded}


def test_a_trigger_that_makes_a_circle_is_one_error() -> None:
    pair = qwen3(3).emit()
    linears = pair.tasks(LINEAR)
    linears[8]["trigger_event"] = linears[0]["trigger_event"]
    assert said(pair) == [("MG401", ["MG401", "MG402", "MG403"])]


@pytest.mark.parametrize(
    ("odd", "waits_as", "follow"),
    [(5, 1, {"MG302"}), (1, 5, {"MG402", "MG403"})],
    ids=["too early", "for what it leads to"],
)
def test_a_task_that_waits_for_another_event_is_one_error(
    odd: int, waits_as: int, follow: set[str]
) -> None:
    pair = qwen3(3).emit()
    attention = pair.tasks(ATTENTION)
    attention[odd]["dependent_event"] = attention[waits_as]["dependent_event"]
    ((rule, follows),) = said(pair)
    assert rule == "MG404"
    assert follow <= set(follows)


@pytest.mark.parametrize(
    ("field", "follows"),
    [("dependent_event", ["MG403", "MG404"]), ("trigger_event", ["MG401", "MG403"])],
)
def test_an_id_of_no_event_is_one_error(field: str, follows: list[str]) -> None:
    pair = qwen3(3).emit()
    task = pair.tasks(LINEAR)[4]
    task[field] = task[field] >> 32 << 32 | 9999
    ((rule, others),) = said(pair)
    assert rule == "MG405"
    assert set(follows) <= set(others)


def test_a_tag_on_a_trigger_is_one_error() -> None:
    pair = qwen3(3).emit()
    pair.tasks(LINEAR)[4]["trigger_event"] |= NVSHMEM_TAG << 48
    assert said(pair) == [("MG405", ["MG409"])]


def test_tags_on_what_puts_trigger_are_no_ones_follow_up() -> None:
    """On another rank's event a missing tag is a mistake of its own."""
    pair = qwen3(2, ranks=4, collective="allgather").emit(1)
    tagged = [t for t in pair.graph["all_tasks"] if t["dependent_event"] >> 48 == NVSHMEM_TAG]
    assert tagged
    for task in tagged:
        task["dependent_event"] &= (1 << 48) - 1
    own = next(t for t in pair.graph["all_tasks"] if not t["trigger_event"] >> 48 and t["inputs"])
    own["trigger_event"] |= NVSHMEM_TAG << 48
    assert {"MG405", "MG409"} <= {rule for rule, _ in said(pair)}


def test_a_race_elsewhere_is_another_error() -> None:
    pair = qwen3(4).emit()
    reader = starts_too_early(pair, 3)
    loses_its_trigger(pair, 0)
    wrong, race = found(pair)
    assert (wrong.rule, race.rule) == ("MG401", "MG301")
    assert race.location.pointer.startswith(f"/all_tasks/{reader}/")


def test_a_lack_that_does_not_add_up_explains_no_race() -> None:
    """Two triggers are missing and one task triggers nothing: it may be meant for elsewhere."""
    pair = qwen3(3).emit()
    event = pair.tasks(LINEAR)[4]["trigger_event"]
    loses_its_trigger(pair)
    event_of(pair, event)["num_triggers"] += 1
    assert {"MG401", "MG301"} <= {rule for rule, _ in said(pair)}


def test_what_is_said_of_a_count_that_was_made_to_fit() -> None:
    """Counts are right, so nothing but the race says what is wrong."""
    pair = qwen3(3).emit()
    to_end(pair, pair.tasks(LINEAR)[4:5])
    assert {rule[:3] for rule, _ in said(pair)} == {"MG3"}
    assert len(said(pair)) == 1


def test_races_of_one_missing_edge_are_one_error() -> None:
    pair = qwen3(4).emit()
    reader = starts_too_early(pair, 1)
    (one,) = found(pair)
    assert one.rule == "MG301"
    assert one.location.pointer.startswith(f"/all_tasks/{reader}/")
    assert {other.rule for other in one.folded} >= {"MG304"}


def test_races_of_two_missing_edges_are_two_errors() -> None:
    pair = qwen3(4).emit()
    starts_too_early(pair, 1)
    to_end(pair, pair.tasks(LINEAR)[14:15])
    assert len(said(pair)) >= 2


def test_without_the_cause_the_rest_is_said() -> None:
    pair = qwen3(3).emit()
    loses_its_trigger(pair)
    rules = {rule for rule, _ in said(pair, Selection(ignore=("MG401", "MG403")))}
    assert "MG301" in rules


def test_no_error_is_folded_into_a_warning() -> None:
    pair = qwen3(3).emit()
    loses_its_trigger(pair)
    quiet = Selection(severities={"MG401": Severity.WARNING})
    severities = {one.rule: one.severity for one in found(pair, quiet)}
    assert severities["MG401"] is Severity.WARNING
    assert severities["MG301"] is Severity.ERROR


WAIVER = '[[waivers]]\nrule = "{}"\ntensor = "*"\nreason = "known"\n'


def test_what_follows_from_a_waived_finding_is_said() -> None:
    pair = qwen3(3).emit()
    loses_its_trigger(pair)
    report = report_of(Waived(pair, WAIVER.format("MG401")))
    assert [one.rule for one in report.hidden] == ["MG401"]
    assert {"MG301", "MG403"} <= {one.rule for one in report.findings}
    assert report.exit_status() == 1


def test_a_waiver_of_what_follows_is_not_stale() -> None:
    pair = qwen3(3).emit()
    loses_its_trigger(pair)
    report = report_of(Waived(pair, WAIVER.format("MG301")))
    assert [f.rule for f in report.findings if f.severity is Severity.ERROR] == ["MG401"]
    both = report_of(Waived(pair, WAIVER.format("MG301") + WAIVER.format("MG401")))
    assert "MG301" in {one.rule for one in both.hidden}
    assert "MG803" not in {one.rule for one in both.findings}


@pytest.mark.parametrize("change", [loses_its_trigger, lambda pair: starts_too_early(pair, 1)])
def test_nothing_follows_in_a_sound_graph(change: Callable[[Pair], object]) -> None:
    assert said(qwen3(3).emit()) == []
    assert said(qwen3_moe(3).emit()) == []
    pair = qwen3(3).emit()
    change(pair)
    assert said(pair)

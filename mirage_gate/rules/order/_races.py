"""How a race is said: which rule it is, who meets whom, and the steps that lead there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.order.following import unordered
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import in_layers, plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.order._sides import Side, event_text, kind_of, sides_of

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.order import Race
    from mirage_gate.facts.order.following import Key, Kind

LIMITS = """
    Where a slot picks its rows at run time (pages, requests, experts, splits) two tasks may
    miss each other although their tiles meet: there the rule only warns, and says nothing
    within one operator. Ranks are taken to be in step: a remote trigger is counted as if it
    landed on the rank that sends it. Of two writers the later of which races
    with a reader too, only that race is reported: the same edge is missing.
"""


_KINDS: dict[str, Kind] = {"MG301": "read", "MG302": "overwritten", "MG303": "written twice"}


def race_findings(rule: Rule, facts: RankFacts) -> Iterator[Finding]:
    """Report the races that are a rule's: one finding for what a tensor is in every layer.

    Those whose bytes are picked at run time are apart.
    """
    following = facts.order.following
    mine = [key for key in following.races if key[0] == _KINDS[rule.id]]
    for key in sorted(mine, key=lambda key: not key[2]):
        yield _race(rule, facts, key)


def _race(rule: Rule, facts: RankFacts, key: Key) -> Finding:
    following = facts.order.following
    races, more = following.races[key], following.more[key[1]]
    race = min(races, key=lambda r: (r.earlier.first.first, r.later.first.first))
    tensor = race.tensor
    one, other, what = sides_of(facts, race)
    writer, reader = (one, other) if one.writes else (other, one)
    if rule.id == "MG303":
        message = f"{one.task} and {other.task} both write {what} of {tensor}"
    elif rule.id == "MG302":
        message = f"{one.task} reads {what} of {tensor}, which {other.task} writes anew"
    else:
        message = f"{reader.task} reads {what} of {tensor}, which {writer.task} writes"
    fork = _fork(facts, race)
    message += ", and nothing orders them"
    if fork >= 0:
        together = one.group.dependent == other.group.dependent
        message += (
            f": both wait for event {fork}"
            if together
            else f": event {fork} is the last that comes before both"
        )
    if not race.certain:
        message += " (their rows are picked at run time and may not meet)"
    others = _others(races, race)
    return rule.finding(
        facts.rank,
        message + _extent(facts, races, more) + _other_kinds(facts, others),
        other.at("dependent_event"),
        hint=_hint(facts, one, other),
        severity=Severity.ERROR if race.certain else Severity.WARNING,
        related=(
            other.at_slot(f"{other.task} {other.does} {tensor}"),
            one.at_slot(f"{one.task} {one.does} {tensor}"),
            *(
                sides_of(facts, another)[1].at_slot(f"{_pair(facts, another)} as well")
                for another in others[:3]
            ),
        ),
        trace=_steps(facts, one, other, fork, f"{what} of {tensor}"),
        tensor=tensor,
        others=sorted({race.tensor for race in races}),
        causes=[unordered(key)] if race.certain else (),
        follows=following.causes_of(key),
    )


def _steps(facts: RankFacts, one: Side, other: Side, fork: int, what: str) -> Iterator[Location]:
    """Tell the race in steps: the earlier task, its event, the fork, the later task."""
    fires = facts.events.fires[one.group.number]
    waits = facts.events.waits[other.group.number]
    yield one.at_slot(f"{one.task} {one.does} {what}")
    yield one.at(
        "trigger_event", note=f"task {one.number} triggers {event_text(facts, fires)} then"
    )
    if fork >= 0:
        note = f"event {fork} is the last that comes before both"
        yield facts.in_graph("all_events", fork, "num_triggers", note=note)
    yield other.at(
        "dependent_event",
        note=f"{other.task} waits for {event_text(facts, waits)} only, and {other.does} {what}",
    )


def _others(races: list[Race], shown: Race) -> list[Race]:
    """Give one race for each further pair of task types."""
    pairs = {(shown.earlier.first.task_type, shown.later.first.task_type)}
    others: list[Race] = []
    for race in races:
        pair = (race.earlier.first.task_type, race.later.first.task_type)
        if pair not in pairs:
            pairs.add(pair)
            others.append(race)
    return others


def _pair(facts: RankFacts, race: Race) -> str:
    return f"{kind_of(facts, race.earlier.first)} and {kind_of(facts, race.later.first)}"


def _other_kinds(facts: RankFacts, others: list[Race]) -> str:
    if not others:
        return ""
    left = len(others) - 1
    more = f" and {plural(left, 'more pair')} of types" if left else ""
    return f"; {_pair(facts, others[0])}{more} likewise"


def _hint(facts: RankFacts, one: Side, other: Side) -> str:
    same = one.group.dependent == other.group.dependent and one.kind == other.kind
    if same and one.writes and other.writes:
        return "give the tasks of the operator tiles that do not meet, or one event after another"
    depend = (
        f"in the builder, make the operator of task {other.number} depend on that of "
        f"task {one.number}"
    )
    events = facts.events
    place, before = (events.index[events.waits[side.group.number]] for side in (one, other))
    if events.before.holds(before, place):
        # What the later one waits for comes before the earlier one: that cannot be triggered.
        return f"let task {other.number} wait for what task {one.number} triggers: {depend}"
    waits = event_text(facts, events.waits[other.group.number])
    return f"let task {one.number} trigger {waits}, or an event before it: {depend}"


def _fork(facts: RankFacts, race: Race) -> int:
    """Give the last event that comes before both sides of a race; -1 for none."""
    events = facts.events
    place = events.before.last_common(race.earlier.waits, race.later.waits)
    return events.order[place] if place >= 0 else -1


def _extent(facts: RankFacts, races: list[Race], more: int) -> str:
    """Say how often it happens: ``; 10 such pairs, in layers 0-3``."""
    if len(races) == 1 and not more:
        return ""
    layers = facts.layers.of_group
    touched = {layers[w.first.number] for race in races for w in (race.earlier, race.later)}
    known = sorted(layer for layer in touched if layer is not None)
    tensors = len({race.tensor for race in races})
    count = f"{len(races):,}{'+' if more else ''} such pairs"
    if tensors > 1:
        count += f" over {tensors} tensors of that role"
    if len(known) > 1:
        return f"; {count}, in {in_layers(known)}"
    return f"; {count}"

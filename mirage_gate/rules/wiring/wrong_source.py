"""MG112: a tensor is loaded from another one's source."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import LOADED, Declaration
from mirage_gate.artifacts.names import layer_in, role_of
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._claims import filled
from mirage_gate.rules._words import storage
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG112",
    "wrong-source",
    Severity.ERROR,
    "A tensor is loaded from another one's source.",
    why="""
        The graph knows a weight by its name, and the `.cu` says which bytes stand behind the
        name. Where layer 2's weight is loaded from layer 1's, all shapes fit, all bytes are
        read, and the model computes with the wrong weight.
    """,
    example="""
        `char *layer_2_o_proj = static_cast<char*>(model_tensors.at("layer_1_o_proj"));`, or
        `all_tensors["layer_2_o_proj"] = layer_1_o_proj;`
    """,
    fix="Load each tensor from the source of its own name: attach it under that name.",
    limits="""
        Names decide. A source that is named in another way than its tensor, in every layer
        alike, is right. So is one source for two tensors, where that is so in most layers, or
        where neither belongs to a layer (a head that is tied to the embedding).
    """,
)

_APART = tuple(map(frozenset, (("cos", "sin"), ("q", "k", "v"), ("gate", "up", "down"))))
"""Words that name different things: a name has one of them, and its source no other."""


@RULE.checked_by
def wrong_source(facts: RankFacts) -> Iterator[Finding]:
    yield from _keys(facts)
    yield from _shifted(facts)
    yield from _copied(facts)


def _keys(facts: RankFacts) -> Iterator[Finding]:
    """Hold the name that each tensor's bytes are asked for by to its own."""
    keyed = {name: d for name, d in facts.declared.items() if d.key}
    by_name = {_plain(name): d for name, d in facts.declared.items()}
    foreign = [d for d in keyed.values() if _plain(d.key) != _plain(d.name)]
    if not foreign:
        return
    total = Counter(role_of(name) for name in keyed)
    odd = Counter(role_of(d.name) for d in foreign)
    usual: dict[str, Counter[tuple[str, bool]]] = {}
    for d in keyed.values():
        mapped = role_of(d.key), layer_in(d.key) == layer_in(d.name)
        usual.setdefault(role_of(d.name), Counter())[mapped] += 1
    for d in foreign:
        role = role_of(d.name)
        other = by_name.get(_plain(d.key))
        if apart := _words_apart(d.name, d.key):
            why = f"by their names they are each other's opposite ({apart[0]}, {apart[1]})"
        elif other is not None and other.key and _plain(other.key) != _plain(other.name):
            why = f"and {other.name} is loaded from {other.key}"
        elif other is not None and _lawful(facts, d, other, odd[role], total[role]):
            continue
        elif other is not None:
            why = f"which is {other.name}'s source"
        elif _outlier(d, usual[role]):
            why = "which is not how its siblings in the other layers are named"
        else:
            continue
        related = (other.location.saying(f"{other.name} is declared here"),) if other else ()
        yield RULE.finding(
            facts.rank,
            f'{d.name} is loaded from model_tensors.at("{d.key}"), {why}',
            _at(d),
            hint=f"load {d.name} from its own source",
            related=(d.location.saying("entered here"), *storage(d), *related),
            tensor=d.name,
        )


def _lawful(facts: RankFacts, d: Declaration, other: Declaration, odd: int, total: int) -> bool:
    """Whether two tensors may have one source: most of their siblings do, or they are tied."""
    if layer_in(d.name) is None and layer_in(other.name) is None:
        return _rows(facts, d.name) == _rows(facts, other.name) and not facts.is_critical(d)
    written = bool(facts.wiring.producers(d.name))
    return odd * 2 > total or (written and odd * 2 == total)


def _rows(facts: RankFacts, name: str) -> set[tuple[int, int]]:
    """The data types and lengths of rows that tasks take a tensor for."""
    tensors = facts.graph.tensors
    found = [tensors[access.tensor] for access in facts.wiring.of(name)]
    return {(t.data_type, t.strides[0]) for t in found if t.strides}


def _outlier(d: Declaration, mapped: Counter[tuple[str, bool]]) -> bool:
    """Whether most siblings are named after a source of another role, or of their own layer."""
    own = role_of(d.key), layer_in(d.key) == layer_in(d.name)
    most, times = mapped.most_common(1)[0]
    return own != most and times * 2 > sum(mapped.values()) and mapped[own] < times


def _shifted(facts: RankFacts) -> Iterator[Finding]:
    """Find the names that begin in the middle of their own source."""
    shared = Counter(d.memory for d in facts.declared.values() if d.memory)
    for d in facts.declared.values():
        own = d.pointer or (d.key and _plain(d.key) == _plain(d.name))
        if d.kind in LOADED and own and d.shift and shared[d.memory] == 1:
            yield RULE.finding(
                facts.rank,
                f"{d.name} is entered {d.shift} bytes behind the start of its source ({d.value})",
                d.location,
                hint=f"enter {d.name} as it is",
                related=storage(d),
                tensor=d.name,
            )


def _copied(facts: RankFacts) -> Iterator[Finding]:
    """Hold the sources of copies to the tensors that they fill."""
    shuffled = {name: d for name, d in facts.declared.items() if d.copies}
    first: dict[str, str] = {}
    again: dict[str, list[tuple[Declaration, str, str, Location]]] = {}
    for d in shuffled.values():
        layer = layer_in(d.name)
        for copy in d.copies:
            owner = first.setdefault(copy.source, d.name)
            elsewhere = copy.named and layer is not None and layer_in(copy.source) != layer
            foreign = elsewhere and layer_in(copy.source) is not None
            if foreign or owner != d.name:
                why = f"{owner}'s source too" if owner != d.name else "another layer's"
                again.setdefault(role_of(d.name), []).append((d, copy.source, why, copy.location))
    total = Counter(role_of(name) for name in shuffled)
    for role, found in again.items():
        if len({d.name for d, *_ in found}) * 2 > total[role] > 1:
            continue
        for d, source, why, place in _once(found):
            yield RULE.finding(
                facts.rank,
                f"{d.name} is filled from {source}, {why}",
                place,
                hint=f"fill {d.name} from its own sources",
                related=(d.location.saying("entered here"),),
                tensor=d.name,
                about=[filled(d.name, source)],
            )


def _once(
    found: Iterable[tuple[Declaration, str, str, Location]],
) -> Iterator[tuple[Declaration, str, str, Location]]:
    seen = set()
    for one in found:
        if (key := (one[0].name, one[1])) not in seen:
            seen.add(key)
            yield one


def _words_apart(name: str, key: str) -> tuple[str, str] | None:
    """Give the words by which a name and its source are different things."""
    mine, theirs = (set(_plain(text).split("_")) for text in (name, key))
    for words in _APART:
        if len(mine & words) == 1 == len(theirs & words) and mine & words != theirs & words:
            return (mine & words).pop(), (theirs & words).pop()
    return None


def _at(d: Declaration) -> Location:
    """Where the wrong source is named: in the storage statement, or where another is entered."""
    if d.storage is not None and (not d.variable or _plain(d.variable) == _plain(d.name)):
        return d.storage
    return d.location


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")

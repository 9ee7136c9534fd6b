"""``show``: who writes and who reads one tensor, layer by layer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

import click

from mirage_gate.artifacts import pairs
from mirage_gate.artifacts.cuda import SENTINEL
from mirage_gate.artifacts.names import spans
from mirage_gate.auditing import reading
from mirage_gate.commands import _common, _run, _show_values
from mirage_gate.escaping import plain
from mirage_gate.facts import Options, RankFacts

if TYPE_CHECKING:
    from mirage_gate.facts.wiring import Access

_WIDTH = 50
"""Layers in one line of the matrix."""
_ALL, _OTHER, _NONE, _NO_OPERATOR = "#", "+", ".", " "


@click.command(short_help="Show who writes and reads tensors.")
@click.argument("path", type=_common.AnyPath())
@click.argument("tensors", nargs=-1, metavar="[TENSOR]...")
@_common.ranks_option
@_common.header_option
@_common.config_option
def command(
    path: str,
    tensors: tuple[str, ...],
    ranks: frozenset[int] | None,
    runtime_header: str | None,
    config_file: str | None,
) -> int:
    """Show who writes and who reads each TENSOR, a name or a glob, by layer and task type.

    Each operator that carries it has a line with a mark per layer: # it does, with the usual
    number of tasks; + with another number; . the operator is there and does not carry it.
    Below are the values that go through it: who writes each, and who sees it.
    Without TENSOR, list them all.
    """
    types = _common.task_types_from(_common.settings_from(config_file), runtime_header)
    try:
        found = pairs.find([path], ranks or frozenset(), _run.warn)
    except pairs.NothingFound as error:
        raise _common.Refused(str(error)) from error
    text, status = show_tensors(found, tensors, Options(task_types=types))
    click.echo(text)
    return status


def show_tensors(
    found: Iterable[pairs.Pair], wanted: Sequence[str], options: Options
) -> tuple[str, int]:
    """Give (text, exit status) for some tensors over some pairs.

    The status is 2 if a rank cannot be read, or if no rank has one of those that are wanted.
    """
    lines: list[str] = []
    readable = True
    missed = set(wanted)
    for pair in found:
        try:
            cuda, graph = reading.halves(pair)
            with reading.opened(pair.rank, cuda, graph, options) as (facts, _):
                for word in wanted:
                    if names := _named(facts, word):
                        missed.discard(word)
                        lines.extend(line for name in names for line in _rank(facts, name))
                    else:
                        lines.append(_unknown(facts, word))
                if not wanted:
                    lines.extend(_list(facts))
        except reading.Refused as refused:
            lines.append(f"rank {pair.rank}: {plain(refused.failure)}")
            readable = False
    return "\n".join(lines), 0 if readable and not missed else 2


def _names(facts: RankFacts) -> list[str]:
    """Every tensor: the declared ones, in order, and those that only tasks name."""
    return list(dict.fromkeys([*facts.declared, *facts.wiring.accesses]))


def _named(facts: RankFacts, word: str) -> list[str]:
    if word in facts.declared or facts.wiring.of(word):
        return [word]
    return [name for name in _names(facts) if fnmatchcase(name, word)]


def _unknown(facts: RankFacts, word: str) -> str:
    close = get_close_matches(word, list(facts.declared), n=3)
    near = f"; near: {', '.join(map(plain, close))}" if close else ""
    return f"rank {facts.rank}: no tensor is named {plain(word)}{near}"


def _list(facts: RankFacts) -> Iterator[str]:
    """A line for each tensor: its kind, and how many task slots carry it."""
    names = _names(facts)
    yield f"rank {facts.rank}: {len(names):,} tensors"
    width = min(60, max((len(plain(name)) for name in names), default=0))
    for name in names:
        declaration = facts.declared.get(name)
        kind = declaration.kind if declaration else "declared nowhere"
        inputs, outputs = facts.wiring.input_refs(name), facts.wiring.output_refs(name)
        yield f"  {plain(name):{width}}  {kind}, input_refs={inputs} output_refs={outputs}"


def _rank(facts: RankFacts, tensor: str) -> Iterator[str]:
    declaration = facts.declared.get(tensor)
    wiring = facts.wiring
    name = plain(tensor)
    if declaration is None:
        yield f"rank {facts.rank}: {name} is declared nowhere"
    else:
        size = "" if declaration.nbytes is None else f", {declaration.nbytes} bytes"
        at = declaration.location
        yield f"rank {facts.rank}: {name} ({declaration.kind}{size}) {plain(at.path)}:{at.line}"
    yield f"  input_refs={wiring.input_refs(tensor)} output_refs={wiring.output_refs(tensor)}"
    rows = list(_rows(facts, tensor))
    label = max((len(row.label) for row in rows), default=0)
    layers = list(facts.layers.by_layer)
    if any(row.inside for row in rows):
        for start in range(0, len(layers), _WIDTH):
            yield from _matrix(facts, rows, layers[start : start + _WIDTH], label)
    for row in rows:
        if row.outside:
            yield f"  {row.label:{label}}  {_tasks(row.outside)} outside of the layers"
    if tensor != SENTINEL and wiring.real(tensor):
        yield from _show_values.lines(facts, tensor)


class _Row(NamedTuple):
    """One kind of use: tasks of a type that carry the tensor in one slot, by layer."""

    label: str
    task_type: int
    inside: dict[int, int]
    outside: int


def _rows(facts: RankFacts, tensor: str) -> Iterator[_Row]:
    inside: dict[tuple[int, int, str], Counter[int]] = defaultdict(Counter)
    outside: Counter[tuple[int, int, str]] = Counter()
    for access in facts.wiring.of(tensor):
        layer = facts.layers.of_group[access.group.number]
        for order, verb in _verbs(access):
            side = "input" if access.is_input else "output"
            kind = facts.task_type(access.group.task_type).name
            text = f"{verb:7}  {kind} ({access.group.task_type}) {side} {access.index}"
            key = (order, access.group.task_type, text)
            if layer is None:
                outside[key] += access.group.count
            else:
                inside[key][layer] += access.group.count
    for key in sorted({*inside, *outside}):
        _, task_type, label = key
        yield _Row(label, task_type, dict(inside.get(key, {})), outside[key])


def _verbs(access: Access) -> Iterator[tuple[int, str]]:
    if access.writes:
        yield 0, "writes"
    if access.reads:
        yield 1, "reads"
    if not (access.reads or access.writes):
        yield 2, "ignores"


def _matrix(facts: RankFacts, rows: Iterable[_Row], layers: list[int], label: int) -> Iterator[str]:
    tens = "".join(str(n // 10) if n % 10 == 0 else " " for n in layers)
    if len(layers) > 10 or layers[0] >= 10:
        yield f"  {'':{label}}  {tens}".rstrip()
    yield f"  {'layer':{label}}  {''.join(str(n % 10) for n in layers)}"
    for text, task_type, inside, _ in rows:
        if not inside:
            continue
        usual = Counter(inside.values()).most_common(1)[0][0]
        able = _able(facts, task_type)
        marks = "".join(_mark(inside.get(layer, 0), usual, layer in able) for layer in layers)
        holes = [n for n in layers if n in able and not inside.get(n)]
        others = [n for n in layers if inside.get(n, usual) != usual]
        notes = [f"{_tasks(usual)} each"]
        notes += [f"another number in {_in(others)}"] if others else []
        notes += [f"none in {_in(holes)}"] if holes else []
        yield f"  {text:{label}}  {marks}  {', '.join(notes)}"


def _able(facts: RankFacts, task_type: int) -> set[int]:
    """The layers that have an operator of a type at all."""
    return {
        operator.place
        for operator in facts.layers.operators
        if operator.task_type == task_type and operator.place is not None
    }


def _mark(tasks: int, usual: int, able: bool) -> str:
    if tasks:
        return _ALL if tasks == usual else _OTHER
    return _NONE if able else _NO_OPERATOR


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def _in(layers: list[int]) -> str:
    return f"layer{'s' * (len(layers) != 1)} {spans(layers)}"

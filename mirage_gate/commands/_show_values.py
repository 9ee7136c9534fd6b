"""The values that go through one tensor: who writes each, and who sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import LOADED
from mirage_gate.artifacts.names import spans
from mirage_gate.escaping import plain

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.values import Use, Value


def lines(facts: RankFacts, tensor: str) -> Iterator[str]:
    """Give a line for each value, in the order in which they are written, alike layers as one."""
    found = facts.values.of(tensor)
    if not found.values:
        return  # what only the host fills has one value
    readers: dict[int, list[Operator]] = {}
    early: list[Use] = []
    for use in found.uses:
        for value, _ in use.seen:
            readers.setdefault(id(value), []).append(use.operator)
        if use.before:
            early.append(use)
    alike: dict[tuple[str, str], list[int | None]] = {}
    for value in found.values:
        seen = _seen_by(facts, value, readers.get(id(value), []), early)
        alike.setdefault((_text(facts, value.operator), seen), []).append(value.operator.place)
    for use in early:
        left = any(value.left & use.before for value in found.values)
        source = "what was there" if not left else "the iteration before"
        key = (source, _reader(facts, use.operator, use.operator))
        alike.setdefault(key, []).append(use.operator.place)
    if not alike:
        return
    yield "  values, each with who sees it:"
    rows = [(_where(places), writer, seen) for (writer, seen), places in alike.items()]
    wide = max(len(where) for where, _, _ in rows)
    long = max(len(writer) for _, writer, _ in rows)
    for where, writer, seen in rows:
        yield plain(f"    {where:{wide}}  {writer:{long}}  -> {seen}")


def _seen_by(facts: RankFacts, value: Value, readers: list[Operator], early: list[Use]) -> str:
    texts = [_reader(facts, value.operator, reader) for reader in readers]
    if any(value.left & use.before for use in early):
        texts.append("the next iteration")
    if texts:
        return ", ".join(dict.fromkeys(texts))
    declaration = facts.declared.get(value.tensor)
    if declaration is not None and declaration.kind in LOADED:
        return "the host"
    return "nobody is known to" if value.unsure else "nobody"


def _reader(facts: RankFacts, writer: Operator, reader: Operator) -> str:
    text = _text(facts, reader)
    if writer.place is None or reader.place is None or writer.place == reader.place:
        return text
    away = reader.place - writer.place
    return f"{text} {abs(away)} layer{'s' * (abs(away) > 1)} {'on' if away > 0 else 'back'}"


def _text(facts: RankFacts, operator: Operator) -> str:
    name = facts.task_type(operator.task_type).name
    return f"{name} ({operator.weight})" if operator.weight else name


def _where(places: list[int | None]) -> str:
    layers = sorted({place for place in places if place is not None})
    if not layers:
        return "outside"
    return f"layer{'s' * (len(layers) > 1)} {spans(layers)}"

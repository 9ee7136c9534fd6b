"""What is wrong with the copies that fill a shuffled tensor, besides the bytes they leave out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import layer_in, role_of
from mirage_gate.facts.loading import Taken, in_turn, taken, turn_of

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Declaration
    from mirage_gate.facts import RankFacts

Layout = tuple[tuple[str, int, int, int, int], ...]
"""Of each copy, in order: its source's role, offset, pitch, width, height."""


class Orders:
    """How the copies of each shuffled tensor lie, as its readers and its siblings have it."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self._taken: dict[str, list[Taken]] = {}
        for one in taken(facts):
            self._taken.setdefault(one.tensor, []).append(one)
        self._layouts: dict[str, Counter[Layout]] = {}
        for name, declaration in facts.declared.items():
            layer = layer_in(name)
            if declaration.copies and layer is not None:
                layouts = self._layouts.setdefault(role_of(name), Counter())
                layouts[layout(declaration)] += facts.times_of_layer(layer)

    def readers(self, name: str) -> list[Taken]:
        """Give who takes a tensor's rows apart."""
        return self._taken.get(name, [])

    def problems(self, name: str, declaration: Declaration) -> Iterator[str]:
        """Say what is wrong with one tensor's copies."""
        sources = Counter(copy.source for copy in declaration.copies)
        repeated = [source for source, times in sources.items() if times > 1]
        yield from (f"{source} is copied {sources[source]} times" for source in repeated)
        yield from _pitches(declaration)
        told = False
        for one in self.readers(name):
            for text in _apart(self._facts, declaration, one):
                told = True
                yield text
        usual = self._usual(name, declaration)
        if usual and not (told or repeated):
            yield f"in most layers they lie otherwise ({usual})"

    def _usual(self, name: str, declaration: Declaration) -> str:
        """Say how the copies lie in most sibling layers, if not as in this one."""
        layouts = self._layouts.get(role_of(name)) if layer_in(name) is not None else None
        if layouts is None:
            return ""
        mine = layout(declaration)
        most, times = layouts.most_common(1)[0]
        alike = sorted(part[1:] for part in most) == sorted(part[1:] for part in mine)
        if mine == most or times * 2 <= sum(layouts.values()) or not alike:
            return ""  # layers of other sizes lie in other ways
        return ", ".join(role for role, *_ in sorted(most, key=lambda part: part[1]))


def layout(declaration: Declaration) -> Layout:
    """Give how a tensor's copies lie, by the roles of their sources."""
    return tuple(
        (role_of(c.source) if c.named else "", c.offset, c.pitch, c.width, c.height)
        for c in in_turn(declaration)
    )


def _pitches(declaration: Declaration) -> Iterator[str]:
    for copy in declaration.copies:
        if copy.height > 1 and copy.source_pitch < copy.width:
            yield (
                f"the copy of {copy.source} takes {copy.width} bytes of rows that are "
                f"{copy.source_pitch} bytes apart"
            )
        elif copy.height > 1 and copy.source_pitch > copy.width:
            yield (
                f"the copy of {copy.source} leaves out {copy.source_pitch - copy.width} bytes "
                f"after every {copy.width}"
            )


def _apart(facts: RankFacts, declaration: Declaration, one: Taken) -> Iterator[str]:
    """Say how the copies do not lie as a reader takes them."""
    turn, copies = turn_of(declaration), in_turn(declaration)
    reader = facts.task_type(one.reader.task_type).name
    if turn is None or len(copies) != len(one.parts):
        return
    names = [_word(copy.source, one.words) if copy.named else "" for copy in copies]
    if turn != one.turn:
        yield (
            f"its parts take turns of {turn} bytes, and a task of {reader} takes {one.turn} for "
            f"one {'KV head' if one.words[0] == 'q' else 'tile'} ({', '.join(one.words)})"
        )
    elif (widths := tuple(copy.width for copy in copies)) != one.parts:
        yield (
            f"its parts have {_list(widths)} bytes a turn, and {reader} takes "
            f"{', '.join(one.words)} of {_list(one.parts)}"
        )
    if all(names) and sorted(names) == sorted(one.words) and tuple(names) != one.words:
        yield f"they lie as {', '.join(names)}, and {reader} takes {', '.join(one.words)}"


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _word(source: str, words: tuple[str, ...]) -> str:
    """Give the word that a source's name has in it, if it is exactly one."""
    found = set(re.split(r"[^a-z0-9]+", source.lower())) & set(words)
    return found.pop() if len(found) == 1 else ""

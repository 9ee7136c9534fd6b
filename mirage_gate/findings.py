"""What the gate says: findings, and the places they point at.

A rule yields :class:`Finding`; every report is a function of findings. A place in the
graph is a JSON pointer until the engine turns all pointers wanted into lines in one scan
(:mod:`mirage_gate.artifacts.positions`): most graphs have no findings, and none pays for
positions nobody asks for.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_FAMILIES = "9145236708"
"""The rule families in the order of reports: an event that is wrong makes races look wrong."""


INPUT = "MG9"
"""The family of what could not be read: neither selected nor ignored, waived or known away."""


class Severity(str, Enum):
    """How much a finding weighs: SARIF's own three words."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def weight(self) -> int:
        """0 for a note, 1 for a warning, 2 for an error."""
        return ("note", "warning", "error").index(self.value)

    def __str__(self) -> str:
        return self.value


class Location(msgspec.Struct, frozen=True):
    """A span of one file. Lines and columns are 1-based, columns count characters.

    ``line`` 0 means: not placed yet, ``pointer`` says where. ``end_column`` is one past
    the last character, as in SARIF. ``note`` says what stands there, for a related
    location or a step of a trace.
    """

    path: str
    line: int = 0
    column: int = 1
    end_line: int = 0
    end_column: int = 0
    pointer: str = ""
    note: str = ""

    @property
    def placed(self) -> bool:
        return self.line > 0

    def saying(self, note: str) -> Location:
        """The same place with another note."""
        return msgspec.structs.replace(self, note=note)


class Finding(msgspec.Struct, frozen=True):
    """One thing a rule proved of one rank.

    ``message`` says what and why in one line, ``hint`` how to fix it. ``related`` are the
    other places a reader needs; ``trace`` is a chain of steps in order, where only a chain
    explains it. ``tensor`` is the declared name it is about, empty where there is none;
    ``others`` are further ones that it speaks of. ``hidden`` says why a report leaves it out:
    the reason of a waiver, or that a baseline knows it. ``folded`` are the findings that follow
    from it: they are said among its related places for as long as it is said itself.
    """

    rule: str
    severity: Severity
    message: str
    location: Location
    hint: str = ""
    related: tuple[Location, ...] = ()
    trace: tuple[Location, ...] = ()
    tensor: str = ""
    rank: int = 0
    others: tuple[str, ...] = ()
    hidden: str = ""
    folded: tuple[Finding, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """Every declared name that it is about."""
        return (self.tensor, *self.others) if self.tensor else self.others

    @property
    def family(self) -> int:
        """Where its rule's family stands among the others: causes before consequences."""
        return _FAMILIES.find(self.rule[2:3])

    @property
    def places(self) -> tuple[Location, ...]:
        """Every place it points at, and what follows from it."""
        own = (self.location, *self.related, *self.trace)
        return (*own, *(place for one in self.folded for place in one.places))

    def placed(self, place: Callable[[Location], Location]) -> Finding:
        """The same with each place as ``place`` gives it."""
        return msgspec.structs.replace(
            self,
            location=place(self.location),
            related=tuple(map(place, self.related)),
            trace=tuple(map(place, self.trace)),
            folded=tuple(one.placed(place) for one in self.folded),
        )

    def sort_key(self) -> tuple[int, int, str, str, int, int, str, int]:
        """Most severe first, causes before consequences, then by rule and place."""
        at = self.location
        return (
            -self.severity.weight,
            self.family,
            self.rule,
            at.path,
            at.line,
            at.column,
            self.message,
            self.rank,
        )


class Claim(Finding, frozen=True):
    """A finding that knows what it claims, so that others of one cause are known for that.

    Each of ``about`` is one thing that is wrong, in words that every rule uses for it: ``no
    attention in layer 3``. A finding all of whose claims another one makes too is that one's.
    ``causes`` are things that are so because of what it says, ``follows`` some each of which is
    all that it says: ``event 4 never fires``. It is gone when what causes one of them is mended.
    """

    about: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()

    @property
    def plain(self) -> Finding:
        """The same without its claims, as a report has it."""
        return Finding(*(getattr(self, field) for field in Finding.__struct_fields__))


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings the way every report shows them."""
    return tuple(sorted(findings, key=Finding.sort_key))

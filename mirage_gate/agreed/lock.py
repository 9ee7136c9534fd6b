"""The lock: the wiring written down, small enough to commit, and what changed since.

A graph of 250 MB is not committed; how often each tensor is read, and by which kind of task,
fits into a file with a line for each. Sorted and one line each, so that a change of one
tensor is a change of one line, and a pull request shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from sys import intern
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from mirage_gate.agreed.summary import Summary, Tasks, Wired
from mirage_gate.artifacts import files
from mirage_gate.artifacts.cuda import LOADED, SENTINEL
from mirage_gate.artifacts.names import layer_in, role_of, spans
from mirage_gate.patterns import later

if TYPE_CHECKING:
    from mirage_gate.facts.plan.comparing import Planned

VERSION = 1

What = Literal["lost", "gone", "fell", "moved", "rewritten", "grew", "new"]

LOSSES = frozenset({"lost", "gone", "fell"})
"""Changes after which a tensor is read by fewer tasks than before."""


class Held(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One tensor: the tasks that really read and write it, by type.

    ``layers`` are those that read a critical tensor. ``ranks`` has an entry for each rank
    that differs from the lowest one; its ``kind`` is empty where the tensor is not declared.
    """

    kind: str = "host"
    critical: bool = False
    read: Tasks = {}
    written: Tasks = {}
    layers: str = ""
    ranks: dict[int, Held] = {}


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The wiring of a run. ``tasks`` and ``events`` are counts by rank.

    ``plan`` are the lines of the lowest rank's; a lock of earlier versions has none.
    """

    version: int
    ranks: list[int]
    tasks: dict[int, int]
    events: dict[int, int]
    layers: dict[str, str]
    task_types: dict[int, str]
    tensors: dict[str, Held]
    plan: list[str] = []

    @classmethod
    def of(cls, summaries: Iterable[Summary]) -> Lock:
        """Write down some ranks, each once."""
        ranks = sorted(summaries, key=lambda summary: summary.rank)
        by_rank = [{wired.name: wired for wired in summary.tensors} for summary in ranks]
        names = sorted({name for tensors in by_rank for name in tensors} - {SENTINEL})
        tensors: dict[str, Held] = {}
        for name in names:
            held = [_held(wired) if (wired := t.get(name)) else Held(kind="") for t in by_rank]
            others = {
                summary.rank: other
                for summary, other in zip(ranks[1:], held[1:], strict=True)
                if other != held[0]
            }
            tensors[name] = msgspec.structs.replace(held[0], ranks=others)
        types: dict[int, str] = {}
        for summary in ranks:
            types.update(summary.task_types)
        return cls(
            version=VERSION,
            ranks=[summary.rank for summary in ranks],
            tasks={summary.rank: summary.tasks for summary in ranks},
            events={summary.rank: summary.events for summary in ranks},
            layers=_layers(ranks[0]) if ranks else {},
            task_types=dict(sorted(types.items())),
            tensors=tensors,
            plan=ranks[0].plan.splitlines() if ranks else [],
        )

    def held(self, name: str, rank: int) -> Held | None:
        """Give a tensor as one rank wires it, or None where it is not declared."""
        base = self.tensors.get(name)
        if base is None:
            return None
        held = base.ranks.get(rank, base)
        return held if held.kind else None

    def by_name(self, tasks: Tasks) -> dict[str, int]:
        """Give counts by the types' names, which outlive their codes."""
        return {self.task_types.get(code, str(code)): count for code, count in tasks.items()}

    def text(self) -> str:
        """Give the file: a line for each tensor, sorted."""
        head = msgspec.to_builtins(msgspec.structs.replace(self, tensors={}), str_keys=True)
        lines = [
            f"  {_json(key)}: {_json(head[key])}," for key in head if key not in ("tensors", "plan")
        ]
        if self.plan:
            statements = ",\n".join(f"    {_json(line)}" for line in self.plan)
            lines.append(f'  "plan": [\n{statements}\n  ],')
        encoded = msgspec.to_builtins(self.tensors, str_keys=True)
        tensors = ",\n".join(f"    {_json(name)}: {_json(encoded[name])}" for name in self.tensors)
        return "\n".join(["{", *lines, '  "tensors": {', tensors, "  }", "}"]) + "\n"


def _json(value: Any) -> str:
    from json import dumps

    return dumps(value, ensure_ascii=True)


def _held(wired: Wired) -> Held:
    return Held(
        kind=intern(wired.kind),  # a default is left out if it is the same object
        critical=wired.critical,
        read=wired.readers,
        written=wired.writers,
        layers=wired.layers,
    )


def _layers(summary: Summary) -> dict[str, str]:
    kinds: dict[str, list[int]] = {}
    for shape in summary.layers:
        if shape.layer is not None:
            kinds.setdefault(shape.kind, []).append(shape.layer)
    return {kind: spans(layers) for kind, layers in kinds.items()}


class NotALock(Exception):
    """A file that is no lock; the message says why."""


class Locked(msgspec.Struct, frozen=True):
    """A lock that was read from a file, and the line of each tensor in it."""

    lock: Lock
    path: str
    lines: dict[str, int]
    plan_at: int = 0

    def planned(self) -> Planned | None:
        """Give the plan that is in it. Raises :class:`mirage_gate.agreed.plans.NotAPlan`."""
        if not self.lock.plan:
            return None
        from mirage_gate.agreed import plans

        text = "\n".join(self.lock.plan)
        return plans.planned(self.path, text, before=self.plan_at)[1]


_PLAN_LINE = later(r'^  "plan": \[$', re.MULTILINE)
_TENSOR_LINE = later(r'^    ("(?:[^"\\]|\\.)*"):', re.MULTILINE)


def read(path: str) -> Locked:
    """Read one file. Raises :class:`NotALock` and :class:`OSError`."""
    return decode(files.read_bytes(path), path)


def decode(data: bytes, path: str) -> Locked:
    """Read a file's bytes. Raises :class:`NotALock`."""
    try:
        version = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).get("version")
        if version is not None and bytes(version) != b"%d" % VERSION:
            raise NotALock(f"is version {bytes(version).decode()}, and {VERSION} is known here")
        lock = msgspec.json.decode(data, type=Lock)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotALock(f"is no lock: {error}") from error
    lines: dict[str, int] = {}
    text = data.decode()
    line, at = 1, 0
    for match in _TENSOR_LINE.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        lines[msgspec.json.decode(match[1], type=str)] = line
    plan = _PLAN_LINE.search(text)
    return Locked(lock, path, lines, text.count("\n", 0, plan.start()) + 1 if plan else 0)


# --- What changed ----------------------------------------------------------------------


class Change(msgspec.Struct, frozen=True):
    """How one tensor is wired otherwise than before, on one rank.

    ``lost``: nobody reads it any more; ``gone``: it is not declared any more; ``fell`` and
    ``grew``: fewer or more tasks read it; ``moved``: as many do, of other types or in other
    layers; ``rewritten``: other tasks write it; ``new``: it was not declared.
    """

    tensor: str
    rank: int
    what: What
    kind: str
    critical: bool
    old: dict[str, int]
    new: dict[str, int]
    old_layers: str = ""
    new_layers: str = ""

    @property
    def before(self) -> int:
        """How many tasks it was."""
        return sum(self.old.values())

    @property
    def after(self) -> int:
        """How many tasks it is."""
        return sum(self.new.values())


def changes(old: Lock, new: Lock, rank: int) -> Iterator[Change]:
    """Compare one rank, tensor by tensor, by name."""
    for name in sorted({*old.tensors, *new.tensors}):
        change = _change(name, rank, old, new)
        if change is not None:
            yield change


def _change(name: str, rank: int, old: Lock, new: Lock) -> Change | None:
    before, after = old.held(name, rank), new.held(name, rank)
    known = after or before
    if known is None:
        return None

    def change(what: What, was: Mapping[str, int], now: Mapping[str, int]) -> Change:
        return Change(
            tensor=name,
            rank=rank,
            what=what,
            kind=known.kind,
            critical=known.critical or (before is not None and before.critical),
            old=dict(was),
            new=dict(now),
            old_layers=before.layers if before else "",
            new_layers=after.layers if after else "",
        )

    was = old.by_name(before.read) if before else {}
    now = new.by_name(after.read) if after else {}
    if before is None:
        return change("new", was, now)
    if after is None:
        return change("gone", was, now)
    total, left = sum(was.values()), sum(now.values())
    if left != total:
        return change("grew" if left > total else "fell" if left else "lost", was, now)
    if was != now or (before.layers != after.layers and before.critical and after.critical):
        return change("moved", was, now)
    was, now = old.by_name(before.written), new.by_name(after.written)
    return change("rewritten", was, now) if was != now else None


def folded(changes: Iterable[Change]) -> list[list[Change]]:
    """Put together what happened alike to one role in several layers."""
    groups: dict[tuple[object, ...], list[Change]] = {}
    for one in changes:
        role = one.tensor if one.critical else role_of(one.tensor)
        kinds = (tuple(sorted(one.old.items())), tuple(sorted(one.new.items())))
        key = (one.rank, role, one.what, one.kind, kinds, one.old_layers, one.new_layers)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def subject(alike: list[Change]) -> str:
    """Name the tensors of some changes: ``layer_N_q_norm in layers 0-35``."""
    if len(alike) == 1:
        return alike[0].tensor
    layers = sorted({n for one in alike if (n := layer_in(one.tensor)) is not None})
    return f"{role_of(alike[0].tensor)} in layers {spans(layers)}"


def say(change: Change) -> str:
    """Say what happened to a tensor, with both counts."""
    count = f"{change.before} → {change.after}"
    if change.what == "new":
        return f"is new, read by {_tasks(change.new)}"
    if change.what == "gone":
        return f"is not declared any more: readers {count} (was {_tasks(change.old)})"
    if change.what == "rewritten":
        return f"is written by {_tasks(change.new)}, before by {_tasks(change.old)}"
    if change.what == "moved" and change.old == change.new:
        return f"is read in layers {change.new_layers}, before in {change.old_layers}"
    text = f"readers {count} ({_tasks(change.new)}, before {_tasks(change.old)})"
    if change.old_layers != change.new_layers:
        text += f", in layers {change.new_layers or 'none'}, before {change.old_layers or 'none'}"
    return text


def _tasks(tasks: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in tasks.items()) or "none"


def counts(old: Lock, new: Lock, rank: int) -> list[str]:
    """Say which of a rank's counts changed."""
    found = []
    for noun, was, now in (
        ("tasks", old.tasks.get(rank), new.tasks.get(rank)),
        ("events", old.events.get(rank), new.events.get(rank)),
    ):
        if was is not None and now is not None and was != now:
            found.append(f"{noun} {was} → {now}")
    for kind in {**old.layers, **new.layers}:
        was_in, now_in = old.layers.get(kind, "none"), new.layers.get(kind, "none")
        if was_in != now_in:
            found.append(f"{kind} layers {was_in} → {now_in}")
    return found


def is_loaded(change: Change) -> bool:
    """Whether the host fills the tensor: then its loss is the loss of a weight."""
    return change.critical or change.kind in LOADED

"""Finding the pairs of files on disk, whatever name family wrote them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec


class Family(msgspec.Struct, frozen=True):
    """One way to name a pair; ``{}`` stands for the rank, where the names carry one."""

    cuda: str
    graph: str

    def match(self, name: str) -> tuple[str, int] | None:
        """Give (half, rank) if ``name`` belongs to this family; half is "cuda" or "graph"."""
        for half, template in (("cuda", self.cuda), ("graph", self.graph)):
            pattern = re.escape(template).replace(r"\{\}", r"(0|[1-9]\d{0,5})")
            if found := re.fullmatch(pattern, name):
                return half, int(found[1]) if found.groups() else 0
        return None

    def names(self, rank: int) -> tuple[str, str]:
        """Give the CUDA file's and the graph's name for ``rank``."""
        return self.cuda.format(rank), self.graph.format(rank)


FAMILIES = (
    Family("kernel_{}.cu", "task_graph_{}.json"),
    Family("test_rank{}.cu", "task_graph_rank{}.json"),
    Family("test.cu", "task_graph.json"),
)
"""The demos' names, those of ``compile(output_dir=…)``, and those of the online modes."""


class Pair(msgspec.Struct, frozen=True):
    """One rank's two files in one folder. ``cuda`` or ``graph`` is empty where it is missing.

    ``expected`` is the path at which a missing half was looked for.
    """

    rank: int
    cuda: str
    graph: str
    expected: str = ""

    @property
    def whole(self) -> bool:
        """Whether both halves are there."""
        return bool(self.cuda and self.graph)


class NothingFound(Exception):
    """No artifact at all; the message says what was looked for and where."""


def match(name: str) -> tuple[Family, str, int] | None:
    """Give (family, half, rank) of a file name, or None if it is no artifact's."""
    for family in FAMILIES:
        if found := family.match(name):
            return family, *found
    return None


def find(
    paths: Iterable[str],
    ranks: Collection[int] = (),
    say: Callable[[str], None] = lambda _: None,
) -> list[Pair]:
    """Find every pair that ``paths`` name: folders, halves of pairs, or globs.

    A folder stands for the artifacts directly in it. Given one half, the other is looked up
    beside it; a pair named twice is found once, and where that is by two paths of one folder
    (a link, an absolute path), ``say`` is told so. ``ranks``, if any, keeps only those, and a
    rank asked for that has no file is given as a pair with both halves missing. Sorted by
    folder, family and rank. Raises :class:`NothingFound` if any of the paths stands for no
    artifact: a mistyped folder must not pass because another one is clean.
    """
    paths = tuple(paths)
    keys: dict[tuple[str, int, int], Pair] = {}
    empty: list[str] = []
    folders: dict[str, str] = {}
    again: dict[str, str] = {}
    for path in paths:
        try:
            named = {key for half in _halves(path) if (key := _key(half))}
        except OSError as error:
            raise NothingFound(f"{error.filename} cannot be listed: {error.strerror}") from error
        if not named:
            empty.append(path)
        for folder in sorted({folder for folder, _, _ in named}):
            real = os.path.realpath(folder)
            if (first := folders.setdefault(real, folder)) != folder:
                again[folder] = first
        named = {(again.get(folder, folder), family, rank) for folder, family, rank in named}
        for folder, family, rank in named:
            if not ranks or rank in ranks:
                pair = _pair(folder, FAMILIES[family], rank)
                keys.setdefault((folder, family, rank), pair)
    if empty or not keys:
        raise NothingFound(_nothing(empty or list(paths), ranks if not empty else ()))
    for folder, first in again.items():
        say(f"{folder} and {first or '.'} are one folder: its pairs are audited once")
    pairs = [keys[key] for key in sorted(keys)]
    present = {pair.rank for pair in pairs}
    folder, family_index, _ = min(keys)
    pairs.extend(
        _pair(folder, FAMILIES[family_index], rank) for rank in sorted(set(ranks) - present)
    )
    return pairs


def _key(path: str) -> tuple[str, int, int] | None:
    """Give (folder, family's number, rank) of a half's path, or None for any other file."""
    folder, name = os.path.split(path)
    found = match(name)
    return (folder, FAMILIES.index(found[0]), found[2]) if found else None


def _pair(folder: str, family: Family, rank: int) -> Pair:
    cuda, graph = (os.path.join(folder, name) for name in family.names(rank))  # noqa: PTH118
    has_cuda, has_graph = os.path.lexists(cuda), os.path.lexists(graph)
    return Pair(
        rank=rank,
        cuda=cuda if has_cuda else "",
        graph=graph if has_graph else "",
        expected="" if has_cuda and has_graph else graph if has_cuda else cuda,
    )


def _halves(path: str) -> Iterator[str]:
    """Give the files that one argument stands for."""
    if os.path.isdir(path) and not match(os.path.basename(path)):  # noqa: PTH112, PTH119
        with os.scandir(path) as entries:
            yield from sorted(os.path.normpath(entry.path) for entry in entries)
    elif os.path.lexists(path):
        yield os.path.normpath(path)
    else:
        import glob

        if glob.has_magic(path):
            for found in sorted(glob.glob(path, recursive=True)):  # noqa: PTH207 - a user's string
                yield from _halves(found)
        elif match(os.path.basename(path)):  # noqa: PTH119
            yield os.path.normpath(path)  # its partner may be there


def _nothing(paths: list[str], ranks: Collection[int]) -> str:
    import glob

    names = ", ".join(f"{f.cuda} with {f.graph}".replace("{}", "N") for f in FAMILIES)
    where = ", ".join(path if glob.has_magic(path) else f"{path}{_absent(path)}" for path in paths)
    of = f" of rank {', '.join(map(str, sorted(ranks)))}" if ranks else ""
    below = sorted(
        {os.path.dirname(half) for path in paths for half in _one_level_down(path)}  # noqa: PTH120
    )
    hint = f"; there are some in {', '.join(below[:3])}: name the folder" if below else ""
    return f"no artifacts{of} found in {where}: looked for {names}{hint}"


def _absent(path: str) -> str:
    """Say of a path that is not there, or cannot be looked at, why."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return " (which does not exist)"
    except OSError as error:
        return f" ({error.strerror})"
    except ValueError:
        return " (which holds a zero byte)"
    return ""


def _one_level_down(path: str) -> Iterator[str]:
    import glob

    pattern = os.path.join(glob.escape(path), "*", "*")  # noqa: PTH118
    return (half for half in glob.iglob(pattern) if match(os.path.basename(half)))  # noqa: PTH119,PTH207

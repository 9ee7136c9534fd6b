"""Moving findings from the artifact to the Python that built it.

Artifacts are build products, mostly not committed, and a pull request shows only what is
in it. The line that attached the tensor is, and there the mistake is mended.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Sequence

import msgspec

from mirage_gate.artifacts.builder import Builder, candidates
from mirage_gate.artifacts.builder.names import Naming
from mirage_gate.config import Locate
from mirage_gate.findings import Finding, in_order
from mirage_gate.report import Report
from mirage_gate.reports._paths import git_root

_MOST_OTHERS = 4
_OF_ANOTHER_REPOSITORY = {
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
}
"""What git gives to a hook, which may run in another repository than the artifacts are in."""

_GIT_SECONDS = 20


def locate(report: Report, builders: Sequence[Builder], where: Locate = "auto") -> Report:
    """Point findings at the builders' lines, or relate those lines to them.

    ``builder`` moves every finding whose tensor a builder names; ``artifact`` moves none and
    relates the line; ``auto`` moves those whose artifact git does not track.
    """
    if not builders:
        return report
    kinds = {tensor.tensor: tensor.kind for rank in report.ranks for tensor in rank.coverage}
    found: dict[str, list[Naming]] = {}
    for finding in report.findings:
        name = finding.tensor
        if name and name not in found:
            found[name] = candidates(builders, name, kinds.get(name, ""))
    moves = _moves(report.findings, where)
    findings = [
        _pointed(finding, named, moves(finding.location.path))
        if (named := found.get(finding.tensor))
        else finding
        for finding in report.findings
    ]
    return msgspec.structs.replace(report, findings=in_order(findings))


def _moves(findings: Iterable[Finding], where: Locate) -> Callable[[str], bool]:
    if where != "auto":
        return lambda _: where == "builder"
    tracked = tracked_by_git({finding.location.path for finding in findings})
    return lambda path: not tracked[path]


def _pointed(finding: Finding, named: Sequence[Naming], moves: bool) -> Finding:
    best = named[0]
    inner = [place.saying("by way of this call") for place in best.via]
    others = dict.fromkeys(
        naming.location.saying(f"or named here, by {naming.call}")
        for naming in named[1:]
        if naming.location != best.location
    )
    more = (*inner, *list(others)[:_MOST_OTHERS])
    if moves:
        artifact = finding.location.saying("the artifact says it here")
        return msgspec.structs.replace(
            finding, location=best.location, related=(artifact, *finding.related, *more)
        )
    builder = best.location.saying(f"{finding.tensor} is named here, by {best.call}")
    return msgspec.structs.replace(finding, related=(*finding.related, builder, *more))


def tracked_by_git(paths: Iterable[str]) -> dict[str, bool]:
    """Which files git tracks. Where git cannot tell, a file counts as tracked: it stays.

    A file outside of any repository is not tracked, and needs no git to say so.
    """
    folders: dict[str, list[str]] = {}
    tracked: dict[str, bool] = {}
    for path in paths:
        folder, _ = os.path.split(os.path.abspath(path))  # noqa: PTH100 - links stay links
        if git_root(folder) is None:
            tracked[path] = False
        else:
            folders.setdefault(folder, []).append(path)
    for folder, inside in folders.items():
        names = {path: os.path.basename(path) for path in inside}  # noqa: PTH119
        listed = _listed_by_git(folder, sorted(set(names.values())))
        tracked.update({path: listed is None or name in listed for path, name in names.items()})
    return tracked


def _listed_by_git(folder: str, names: Sequence[str]) -> set[str] | None:
    """Which of a folder's files are in git's index; None if git does not say.

    Nothing of the repository is run: no hook, no file system monitor, no pager.
    """
    environment = {
        name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY
    }
    command = ["git", "-c", "core.fsmonitor=false", "-C", folder, "ls-files", "-z", "--", *names]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            env={**environment, "GIT_LITERAL_PATHSPECS": "1", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=_GIT_SECONDS,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    if done.returncode:
        return None
    return {os.fsdecode(name) for name in done.stdout.split(b"\0")}

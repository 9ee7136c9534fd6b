"""Moving findings from the artifact to the Python that built it.

Artifacts are build products, mostly not committed, and a pull request shows only what is
in it. The line that attached the tensor is, and there the mistake is mended.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mirage_gate import repository
from mirage_gate.artifacts.builder import Builder, candidates
from mirage_gate.artifacts.builder.names import Naming
from mirage_gate.config import Locate
from mirage_gate.findings import Finding, Location, in_order
from mirage_gate.ignores import Ignores
from mirage_gate.report import Report
from mirage_gate.reports._paths import git_root, relative, report_root

if TYPE_CHECKING:
    from mirage_gate.artifacts.provenance import Provenance

_MOST_OTHERS = 4
_TASK = re.compile(r"/all_tasks/(\d{1,9})(?:/|$)")


class Known(msgspec.Struct, frozen=True):
    """A rank's provenance, and the folder below which its files are."""

    made: Provenance
    root: str


def locate(
    report: Report,
    builders: Sequence[Builder],
    where: Locate = "auto",
    provenance: Mapping[str, Known] | None = None,
    say: Callable[[str], None] = lambda _: None,
    wants: Callable[[str], bool] | None = None,
) -> Report:
    """Point findings at the builders' lines, or relate those lines to them.

    ``builder`` moves every finding whose tensor a builder names; ``artifact`` moves none and
    relates the line; ``auto`` moves those whose artifact git does not track. ``provenance``,
    by the path of either file of a pair, knows what the builders' text only suggests. ``say``
    is told where git does not answer, and findings stay where they are.

    A comment ``# mirage-gate: ignore[RULE] reason`` on the line that made it hides a finding.
    ``wants`` tells which rules were asked; then comments that nothing needs are findings.
    """
    if not builders and not provenance:
        return report
    ignores = Ignores()
    ignores.look_at(builder.path for builder in builders)
    provenance = provenance or {}
    kinds = {tensor.tensor: tensor.kind for rank in report.ranks for tensor in rank.coverage}
    found: dict[str, list[Naming]] = {}
    every = [one for finding in report.findings for one in (finding, *finding.folded)]
    for finding in every:
        name = finding.tensor
        if name and name not in found:
            found[name] = candidates(builders, name, kinds.get(name, ""))
    moves = _moves(every, where, say)

    def moved(finding: Finding) -> tuple[Finding, Finding | None]:
        """Give a finding at the builder's line, and as hidden if a comment there says so."""
        path = finding.location.path
        made = _made(finding, provenance[path]) if path in provenance else None
        here: Sequence[Location] = ()
        one = finding
        if made is not None:
            one = _placed(finding, made, moves(path))
            here = (*made.calls, *([made.named] if made.named else []))
        elif named := found.get(finding.tensor):
            one = _pointed(finding, named, moves(path))
            here = (named[0].location,)
        return one, ignores.hide(one, here)

    findings: list[Finding] = []
    hidden: list[Finding] = []
    for finding in report.findings:
        one, ignored = moved(finding)
        following = [moved(follower) for follower in finding.folded]
        if ignored is None:
            findings.append(one)
            continue
        hidden.append(msgspec.structs.replace(ignored, folded=()))
        findings += [follower for follower, why in following if why is None]
        hidden += [why for _, why in following if why is not None]
    if wants is not None and not report.failed_ranks:
        findings += ignores.stale(wants)
    return msgspec.structs.replace(
        report,
        findings=in_order(findings),
        hidden=in_order([*report.hidden, *hidden]),
        waived=report.waived + len(hidden),
    )


class _Made(msgspec.Struct, frozen=True):
    """Who made what a finding is about: the calls, the innermost first, and in words what."""

    calls: tuple[Location, ...]
    what: str
    named: Location | None = None


def _made(finding: Finding, known: Known) -> _Made | None:
    """Find the call that made the operator that a finding points at, else its tensor."""
    made, root = known.made, known.root
    tensor = made.tensor(finding.tensor) if finding.tensor else None
    named = made.places(tensor.stack, root)[0] if tensor else None
    at = _TASK.match(finding.location.pointer)
    operator = made.operator(int(at[1])) if at else None
    if operator is not None:
        calls = tuple(made.places(operator.stack, root))
        if named is not None and tensor is not None:
            named = named.saying(f"{tensor.name} is named here, by {tensor.call}")
        return _Made(calls, _called(operator.call, operator.layer), named)
    if tensor is not None:
        return _Made(tuple(made.places(tensor.stack, root)), _called(tensor.call, tensor.layer))
    return None


def _called(call: str, layer: int | None) -> str:
    return call if layer is None else f"{call} of layer {layer}"


def _placed(finding: Finding, made: _Made, moves: bool) -> Finding:
    callers = [place.saying("called from here") for place in made.calls[1 : 1 + _MOST_OTHERS]]
    more = [*([made.named] if made.named else []), *callers]
    if moves:
        artifact = finding.location.saying(f"the artifact says it here, made by {made.what}")
        return msgspec.structs.replace(
            finding, location=made.calls[0], related=(artifact, *finding.related, *more)
        )
    builder = made.calls[0].saying(f"made here, by {made.what}")
    return msgspec.structs.replace(finding, related=(*finding.related, builder, *more))


def provenance_of(report: Report, told: Callable[[str], None]) -> dict[str, Known]:
    """Read what lies beside the pairs of a report, by the paths of both files.

    ``told`` is called with a sentence about each file that is there and cannot be used.
    """
    from mirage_gate.artifacts import provenance

    known: dict[str, Known] = {}
    for rank in report.ranks:
        path = provenance.beside(rank.cuda_path) if rank.cuda_path else ""
        if not path or not rank.graph_path or not os.path.lexists(path):
            continue
        try:
            made = provenance.read(path)
        except provenance.NotAProvenance as error:
            told(f"provenance not used: {path} {error}")
            continue
        if not provenance.belongs(made, rank.cuda_path, rank.graph_path):
            told(f"provenance not used: {path} was written beside another pair than this one")
            continue
        known |= known_at(made, rank.cuda_path, rank.graph_path)
    return known


def known_at(made: Provenance, cuda_path: str, graph_path: str) -> dict[str, Known]:
    """Give a provenance for both files of a pair."""
    from mirage_gate.artifacts.provenance import root_of

    here = os.getcwd()  # noqa: PTH109
    folder = os.path.dirname(os.path.abspath(cuda_path))  # noqa: PTH100, PTH120
    starts = [start for start in (git_root(folder), git_root(here), here) if start]
    one = Known(made, root_of(made, starts))
    return {cuda_path: one, graph_path: one}


def _moves(
    findings: Iterable[Finding], where: Locate, say: Callable[[str], None]
) -> Callable[[str], bool]:
    if where != "auto":
        return lambda _: where == "builder"
    tracked = tracked_by_git({finding.location.path for finding in findings}, say)
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


def tracked_by_git(
    paths: Iterable[str], say: Callable[[str], None] = lambda _: None
) -> dict[str, bool]:
    """Which files git tracks. Where git cannot tell, a file counts as tracked: it stays.

    A file outside of any repository is not tracked, and needs no git to say so; nor is one in
    a submodule, whose files are in no pull request of the repository that is shown.
    """
    folders: dict[str, list[str]] = {}
    tracked: dict[str, bool] = {}
    shown = report_root(os.getcwd())  # noqa: PTH109
    for path in paths:
        folder, _ = os.path.split(os.path.abspath(path))  # noqa: PTH100 - links stay links
        root = git_root(folder)
        if root is None or (root != shown and relative(root, shown) is not None):
            tracked[path] = False
        else:
            folders.setdefault(folder, []).append(path)
    silent: dict[str, str] = {}
    for folder, inside in folders.items():
        names = {path: os.path.basename(path) for path in inside}  # noqa: PTH119
        try:
            listed = repository.listed(folder, sorted(set(names.values())))
            tracked.update({path: name in listed for path, name in names.items()})
        except repository.Silent as error:
            silent.setdefault(str(error), folder)
            tracked.update(dict.fromkeys(inside, True))
    for reason, folder in silent.items():
        say(
            f"git does not say which files of {folder} it tracks ({reason}): findings stay on "
            "the artifacts; --locate builder would move them"
        )
    return tracked

"""The wiring of whatever a user names: artifacts, a summary of them, or a lock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from mirage_gate.commands import _common
from mirage_gate.commands._progress import progress
from mirage_gate.findings import Severity

if TYPE_CHECKING:
    from mirage_gate.agreed.lock import Lock
    from mirage_gate.agreed.summary import Summary
    from mirage_gate.config import Config


def wiring_of(
    path: str,
    settings: Config,
    critical: str | None = None,
    ranks: frozenset[int] | None = None,
    runtime_header: str | None = None,
    *,
    passing: bool = False,
) -> Lock:
    """Give the wiring of one path. What cannot be read whole is a usage error.

    ``passing``: so is a graph that the gate finds errors in.
    """
    from mirage_gate.agreed.lock import Lock, NotALock, decode
    from mirage_gate.agreed.summary import NotASummary
    from mirage_gate.agreed.summary import decode as decode_summary
    from mirage_gate.artifacts import files, pairs

    file = Path(path)
    if file.is_file() and pairs.match(file.name) is None:
        try:
            data = files.read_bytes(path)
        except OSError as error:
            raise click.UsageError(f"{path}: {error.strerror or error}") from error
        try:
            return decode(data, path).lock
        except NotALock as no_lock:
            try:
                summaries = decode_summary(data)
            except NotASummary as error:
                reason = no_lock if b'"tensors"' in data and b'"ranks"' not in data else error
                raise click.UsageError(f"{path} {reason}, and no lock") from error
    else:
        summaries = _audited(path, settings, critical, ranks, runtime_header, passing)
    failed = [summary for summary in summaries if not summary.audited]
    if failed:
        raise click.UsageError(f"{path}: rank {failed[0].rank}: {failed[0].failure}")
    errors = [f for s in summaries for f in s.findings if f.severity is Severity.ERROR]
    if passing and errors:
        more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
        raise _common.Refused(
            f"{path} fails ({errors[0].rule}: {errors[0].message}{more}): "
            "mend it first, or write it down as it is with --force"
        )
    numbers = [summary.rank for summary in summaries]
    if len(set(numbers)) < len(numbers):
        raise click.UsageError(f"{path}: a rank is there more than once: name one run")
    return Lock.of(summaries)


def _audited(
    path: str,
    settings: Config,
    critical: str | None,
    ranks: frozenset[int] | None,
    runtime_header: str | None,
    judged: bool,
) -> tuple[Summary, ...]:
    from mirage_gate.artifacts import pairs
    from mirage_gate.auditing import ranks as all_ranks
    from mirage_gate.auditing.selection import Selection
    from mirage_gate.facts import Options
    from mirage_gate.facts.critical import Critical
    from mirage_gate.findings import INPUT

    wanted = ranks if ranks is not None else frozenset(settings.ranks or ())
    try:
        found = pairs.find([path], wanted)
    except pairs.NothingFound as error:
        raise _common.Refused(str(error)) from error
    options = Options(
        critical=Critical.of(_common.listed(critical, settings.critical)),
        task_types=_common.task_types_from(settings, runtime_header),
    )
    # Where nothing is judged, what could not be read is reported all the same.
    selection = Selection() if judged else Selection(select=(INPUT,))
    with progress(found) as watch:
        report = all_ranks.check(
            found,
            options,
            selection,
            watch,
            jobs=settings.jobs or all_ranks.default_jobs(found),
            summarize=True,
        )
    if not judged:
        return report.summaries
    # What the ranks show together counts as the first one's.
    first, *others = report.summaries
    return (msgspec.structs.replace(first, findings=report.findings), *others)

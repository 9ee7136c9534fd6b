"""``diff``: what coverage was gained and lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mirage_gate.commands import _common
from mirage_gate.escaping import markdown, plain

if TYPE_CHECKING:
    from mirage_gate.agreed.lock import Change, Lock

_SECTIONS = (
    ("coverage lost", ("lost", "gone", "fell")),
    ("coverage gained", ("grew", "new")),
    ("wired otherwise", ("moved", "rewritten")),
)


@click.command(short_help="Say what coverage was gained and lost.")
@click.argument("old", type=_common.AnyPath())
@click.argument("new", type=_common.AnyPath())
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    help="The form to print in.  [default: text]",
)
@click.option(
    "--critical",
    metavar="NAMES",
    help="Critical tensors, comma-separated; +NAME adds to the built-in list.",
)
@click.option("--exit-code", is_flag=True, help="Exit 1 if coverage was lost.")
@_common.ranks_option
@_common.header_option
@_common.config_option
@_common.progress_option
def command(
    old: str,
    new: str,
    form: str,
    critical: str | None,
    exit_code: bool,
    ranks: frozenset[int] | None,
    runtime_header: str | None,
    config_file: str | None,
) -> int:
    """Say what coverage NEW gained and lost against OLD: folders, summaries or locks."""
    from mirage_gate.agreed.lock import LOSSES, changes, folded
    from mirage_gate.commands._sides import wiring_of

    settings = _common.settings_from(config_file)
    before = wiring_of(old, settings, critical, ranks, runtime_header)
    after = wiring_of(new, settings, critical, ranks, runtime_header)
    common = [rank for rank in after.ranks if rank in before.ranks]
    numbers = [rank for rank in common if not ranks or rank in ranks]
    if not numbers:
        raise click.UsageError("the two have no rank in common")
    found = [change for rank in numbers for change in changes(before, after, rank)]
    write = {"text": _text, "markdown": _markdown, "json": _json}[form]
    groups = _over_ranks(folded(found))
    click.echo("\n".join(write(groups, before, after, numbers)))
    return int(exit_code and any(change.what in LOSSES for change in found))


def _over_ranks(groups: list[list[Change]]) -> list[tuple[list[int], list[Change]]]:
    """Put together what changed alike on several ranks: (ranks, the changes on the first)."""
    from mirage_gate.agreed.lock import say

    alike: dict[tuple[str, ...], tuple[list[int], list[Change]]] = {}
    for group in groups:
        first = group[0]
        key = (first.what, first.kind, say(first), *(change.tensor for change in group))
        alike.setdefault(key, ([], group))[0].append(first.rank)
    return list(alike.values())


def _counts(before: Lock, after: Lock, ranks: list[int]) -> list[str]:
    from mirage_gate.agreed.lock import counts

    found: dict[str, list[int]] = {}
    for rank in ranks:
        for text in counts(before, after, rank):
            found.setdefault(text, []).append(rank)
    return [
        text if len(ranks) == 1 else f"{_of(numbers, ranks)}: {text}"
        for text, numbers in found.items()
    ]


def _of(numbers: list[int], ranks: list[int]) -> str:
    from mirage_gate.artifacts.names import spans

    return f"rank{'s' * (len(numbers) != 1)} {spans(numbers)}" if len(ranks) > 1 else ""


def _sections(
    groups: list[tuple[list[int], list[Change]]], before: Lock, after: Lock, ranks: list[int]
) -> Iterator[tuple[str, list[str]]]:
    from mirage_gate.agreed.lock import say, subject

    for title, kinds in _SECTIONS:
        lines = []
        for numbers, alike in groups:
            if alike[0].what in kinds:
                where = f" ({_of(numbers, ranks)})" if len(ranks) > 1 else ""
                critical = " (critical)" if alike[0].critical else ""
                lines.append(f"{subject(alike)}{critical}: {say(alike[0])}{where}")
        if lines:
            yield title, lines
    if changed := _counts(before, after, ranks):
        yield "counts", changed


def _text(
    groups: list[tuple[list[int], list[Change]]], before: Lock, after: Lock, ranks: list[int]
) -> Iterator[str]:
    empty = True
    for title, lines in _sections(groups, before, after, ranks):
        empty = False
        yield title
        yield from (f"  {plain(line)}" for line in lines)
    if empty:
        yield "the wiring is the same"


def _markdown(
    groups: list[tuple[list[int], list[Change]]], before: Lock, after: Lock, ranks: list[int]
) -> Iterator[str]:
    empty = True
    for title, lines in _sections(groups, before, after, ranks):
        empty = False
        yield f"### {title.capitalize()}\n"
        yield from (f"- {markdown(line)}" for line in lines)
        yield ""
    if empty:
        yield "The wiring is the same."


def _json(
    groups: list[tuple[list[int], list[Change]]], before: Lock, after: Lock, ranks: list[int]
) -> Iterator[str]:
    entries: list[dict[str, Any]] = [
        {
            "tensor": change.tensor,
            "what": change.what,
            "kind": change.kind,
            "critical": change.critical,
            "ranks": numbers,
            "before": change.old,
            "after": change.new,
            "layers_before": change.old_layers or None,
            "layers_after": change.new_layers or None,
        }
        for numbers, alike in groups
        for change in alike
    ]
    document = {"version": 1, "changes": entries, "counts": _counts(before, after, ranks)}
    yield json.dumps(document, ensure_ascii=True, indent=2)

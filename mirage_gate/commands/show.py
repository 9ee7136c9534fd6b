"""``show``: who writes and who reads one tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches

import click

from mirage_gate.artifacts import pairs
from mirage_gate.audit import open_pair
from mirage_gate.commands import _common
from mirage_gate.facts import Options, RankFacts
from mirage_gate.reports._escape import plain


@click.command()
@click.argument("path")
@click.argument("tensor")
@_common.ranks_option
@_common.header_option
@_common.config_option
def command(
    path: str,
    tensor: str,
    ranks: frozenset[int] | None,
    runtime_header: str | None,
    config_file: str | None,
) -> int:
    """Show who writes and who reads TENSOR, by layer and task type."""
    types = _common.task_types_from(_common.settings_from(config_file), runtime_header)
    try:
        found = pairs.find([path], ranks or frozenset())
    except pairs.NothingFound as error:
        raise click.UsageError(str(error)) from error
    text, status = show_tensor(found, tensor, Options(task_types=types))
    click.echo(text)
    return status


def show_tensor(found: Iterable[pairs.Pair], tensor: str, options: Options) -> tuple[str, int]:
    """Give (text, exit status) for one tensor over some pairs; 2 if no rank declares it."""
    lines: list[str] = []
    status = 2
    for pair in found:
        facts = open_pair(pair, options)
        if isinstance(facts, str):
            lines.append(f"rank {pair.rank}: {plain(facts)}")
        elif tensor in facts.declared or facts.wiring.of(tensor):
            lines.extend(_rank(facts, tensor))
            status = 0
        else:
            close = get_close_matches(tensor, list(facts.declared), n=3)
            near = f"; near: {', '.join(map(plain, close))}" if close else ""
            lines.append(f"rank {pair.rank}: no tensor is named {plain(tensor)}{near}")
    return "\n".join(lines), status


def _rank(facts: RankFacts, tensor: str) -> Iterable[str]:
    declaration = facts.declared.get(tensor)
    wiring = facts.wiring
    name = plain(tensor)
    if declaration is None:
        yield f"rank {facts.rank}: {name} is declared nowhere"
    else:
        size = "" if declaration.nbytes is None else f", {declaration.nbytes} bytes"
        at = declaration.location
        yield f"rank {facts.rank}: {name} ({declaration.kind}{size}) {plain(at.path)}:{at.line}"
    yield (f"  input_refs={wiring.input_refs(tensor)} output_refs={wiring.output_refs(tensor)}")
    for word, wanted in (("writes", "writes"), ("reads", "reads"), ("ignores", "")):
        rows: Counter[tuple[int, int, str]] = Counter()
        for access in wiring.of(tensor):
            if getattr(access, wanted) if wanted else not (access.reads or access.writes):
                layer = facts.layers.of_group[access.group.number]
                slot = f"{access.side[:-1]} {access.index}"
                key = (-1 if layer is None else layer, access.group.task_type, slot)
                rows[key] += access.group.count
        for (layer, code, slot), count in sorted(rows.items()):
            where = "no layer" if layer < 0 else f"layer {layer}"
            kind = f"{facts.task_type(code).name} ({code})"
            yield f"  {where:9}  {word:7}  {kind}  {slot}  {count} task{'s' * (count != 1)}"

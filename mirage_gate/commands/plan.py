"""``plan``: the model that the artifacts compute, or what differs between two."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirage_gate.commands import _common, _plan_forms, _run
from mirage_gate.commands._plan_forms import FORMS, Side

if TYPE_CHECKING:
    from mirage_gate.artifacts.pairs import Pair
    from mirage_gate.facts import Options
    from mirage_gate.facts.plan import Program


@click.command(short_help="Print the model that artifacts compute, or what differs.")
@click.argument("path", type=_common.AnyPath())
@click.argument("other", metavar="[PATH]", required=False, type=_common.AnyPath())
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(list(FORMS)),
    default="text",
    help="The form to print in.  [default: text]",
)
@click.option("--layer", type=click.IntRange(min=0), metavar="N", help="This layer alone.")
@click.option("--tasks", is_flag=True, help="Say of each statement which tasks it is.")
@_common.ranks_option
@_common.header_option
@_common.config_option
def command(
    path: str,
    other: str | None,
    form: str,
    layer: int | None,
    tasks: bool,
    ranks: frozenset[int] | None,
    runtime_header: str | None,
    config_file: str | None,
) -> int:
    """Read the artifacts in PATH back as a program: operators by what they do, weights by name.

    It is the same whatever the batch, the tiles, the number of ranks, the GPU and the buffers,
    and layers that are alike stand there once. With two paths, artifacts or plans that were
    written down, it prints what differs, and exits 1 if anything does.
    """
    if other is not None and (form != "text" or tasks):
        raise click.UsageError("two plans are compared as text, without --tasks")
    settings = _common.settings_from(config_file)
    from mirage_gate.facts import Options

    options = Options(task_types=_common.task_types_from(settings, runtime_header))
    if other is None:
        sides = [side.only(layer) for side in _sides(path, ranks, options)]
        if layer is not None and not any(side.plan.blocks for side in sides):
            raise _common.Refused(f"{path} has no layer {layer}")
        click.echo(FORMS[form](sides, tasks or layer is not None), nl=False)
        return 0
    one, two = _sides(path, ranks, options)[0], _sides(other, ranks, options)[0]
    return _compare(one.only(layer), two.only(layer), one.program, two.program, layer)


def _sides(path: str, ranks: frozenset[int] | None, options: Options) -> list[Side]:
    """Give the plans of one path: of its ranks, those that are the same once."""
    from mirage_gate.artifacts import pairs
    from mirage_gate.facts.plan.comparing import difference

    if Path(path).is_file() and pairs.match(Path(path).name) is None:
        return [_written(path)]
    found: list[Side] = []
    try:
        artifacts = pairs.find([path], ranks or frozenset(), _run.warn)
    except pairs.NothingFound as error:
        raise _common.Refused(str(error)) from error
    for pair in artifacts:
        side = _plan_of(pair, path, options)
        for at, known in enumerate(found):
            if difference(known.program, side.program, partial=True) is None:
                found[at] = known.with_rank(pair.rank)
                break
        else:
            found.append(side)
    return found


def _plan_of(pair: Pair, path: str, options: Options) -> Side:
    from mirage_gate.auditing import reading

    try:
        with reading.opened(pair.rank, *reading.halves(pair), options) as (facts, _):
            if not facts.program.steps:
                raise _common.Refused(f"{path}: rank {pair.rank} has no operator")
            return Side(path, (pair.rank,), facts.plan, facts.program)
    except reading.Refused as refused:
        raise _common.Refused(f"{path}: rank {pair.rank}: {refused.failure}") from refused


def _written(path: str) -> Side:
    """Read a plan that somebody wrote down."""
    from mirage_gate.agreed import plans

    try:
        plan, held = plans.read(path)
    except plans.NotAPlan as error:
        raise _common.Refused(str(error)) from error
    except OSError as error:
        raise _common.Refused(f"{path}: {error.strerror or error}") from error
    return Side(path, (), plan, held.program)


def _compare(one: Side, two: Side, old: Program, new: Program, layer: int | None) -> int:
    from mirage_gate.facts.plan.comparing import difference

    lines = list(
        unified_diff(
            list(one.plan.lines()),
            list(two.plan.lines()),
            one.title,
            two.title,
            n=2,
            lineterm="",
        )
    )
    same = not lines if layer is not None else difference(old, new) is None
    if same:
        _run.warn("the plans are the same")
        return 0
    if not lines:  # names that stand for something else
        lines = [f"--- {one.title}", f"+++ {two.title}", *_plan_forms.first_difference(old, new)]
    click.echo("\n".join(lines))
    return 1

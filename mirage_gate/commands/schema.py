"""``schema``: print a published JSON Schema."""

from __future__ import annotations

import click


def _names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from mirage_gate import schema_files

    return [name for name in schema_files.names() if name.startswith(incomplete)]


@click.command(short_help="Print a JSON Schema.")
@click.argument("name", shell_complete=_names)
def command(name: str) -> int:
    """Print the JSON Schema NAME, such as task-graph."""
    from mirage_gate import schema_files

    try:
        click.echo(schema_files.text(name), nl=False)
    except LookupError as error:
        raise click.UsageError(str(error.args[0])) from error
    return 0

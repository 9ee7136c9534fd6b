"""``schema``: print a published JSON Schema."""

from __future__ import annotations

import click


def _names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from mirage_gate import schema_files

    return [name for name in schema_files.names() if name.startswith(incomplete)]


@click.command(short_help="Print a JSON Schema, or list them.")
@click.argument("name", required=False, shell_complete=_names)
def command(name: str | None) -> int:
    """Print the JSON Schema NAME, such as task-graph. Without NAME, list them."""
    from mirage_gate import schema_files

    if name is None:
        names = schema_files.names()
        width = max(map(len, names))
        click.echo("\n".join(f"{name:{width}}  {schema_files.title(name)}" for name in names))
        return 0
    try:
        click.echo(schema_files.text(name), nl=False)
    except LookupError as error:
        raise click.UsageError(str(error.args[0])) from error
    return 0

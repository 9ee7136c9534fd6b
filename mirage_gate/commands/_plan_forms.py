"""The forms that ``plan`` prints in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mirage_gate.escaping import plain
from mirage_gate.facts.plan.flow import edges_of

if TYPE_CHECKING:
    from mirage_gate.facts.plan import Block, Plan, Program, Statement

VERSION = 1


class Side(msgspec.Struct, frozen=True):
    """The plan of one path: of some ranks of artifacts, or one that was written down."""

    path: str
    ranks: tuple[int, ...]
    plan: Plan
    program: Program

    def with_rank(self, rank: int) -> Side:
        """The same plan, of one rank more."""
        return msgspec.structs.replace(self, ranks=(*self.ranks, rank))

    def only(self, layer: int | None) -> Side:
        """The same with one layer alone; all of it for None."""
        if layer is None:
            return self
        blocks = []
        for block in self.plan.blocks:
            if layer in block.layers:
                at = block.layers.index(layer)
                statements = tuple(
                    msgspec.structs.replace(s, where=s.where[at : at + 1]) for s in block.statements
                )
                blocks.append(
                    msgspec.structs.replace(block, layers=(layer,), statements=statements)
                )
        return msgspec.structs.replace(
            self, plan=msgspec.structs.replace(self.plan, blocks=tuple(blocks))
        )

    @property
    def title(self) -> str:
        """What it is called: its path, and the ranks where there are several."""
        ranks = ", ".join(map(str, self.ranks))
        return f"{self.path}{f' (rank {ranks})' if len(self.ranks) == 1 else ''}"


def first_difference(old: Program, new: Program) -> Iterator[str]:
    """Say in which statement two programs differ whose texts are the same."""
    from mirage_gate.facts.plan.comparing import difference
    from mirage_gate.facts.plan.folding import line_of

    found = difference(old, new)
    if found is not None:
        if found.meant is not None:
            yield f"-{line_of(old, found.meant)}"
        if found.found is not None:
            yield f"+{line_of(new, found.found)}"


def text(sides: Sequence[Side], tasks: bool) -> str:
    """Give the plan's own notation; what is no statement is a comment in it."""
    out = []
    for side in sides:
        if len(sides) > 1:
            word = "rank" if len(side.ranks) == 1 else "ranks"
            out.append(f"# {word} {', '.join(map(str, side.ranks))}")
        lines = [(line, statement) for line, statement in _lines(side.plan)]
        width = max((len(line) for line, s in lines if s and len(line) <= 90), default=0)
        for line, statement in lines:
            note = _note(statement) if tasks and statement else ""
            out.append(f"{line:{width}}  # {note}" if note else line)
    return "".join(f"{plain(line)}\n" for line in out)


def _lines(plan: Plan) -> Iterator[tuple[str, Statement | None]]:
    for block in plan.blocks:
        if block.layers:
            yield f"{block.title}:", None
        for statement in block.statements:
            yield f"{'  ' if block.layers else ''}{statement}", statement


def _note(statement: Statement) -> str:
    if not statement.types:
        return ""
    first = f" from {statement.where[0]}" if len(statement.where) == 1 else ""
    return (
        f"{statement.tasks} task{'s' * (statement.tasks != 1)}{first}, {', '.join(statement.types)}"
    )


def as_json(sides: Sequence[Side], tasks: bool) -> str:  # noqa: ARG001 - all of it is there
    """Give what `mirage-gate schema plan` describes."""
    document = {
        "version": VERSION,
        "plans": [
            {"ranks": list(side.ranks), "blocks": [_block(block) for block in side.plan.blocks]}
            for side in sides
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _block(block: Block) -> dict[str, Any]:
    return {
        "layers": list(block.layers),
        "statements": [
            {
                "text": str(statement),
                "results": list(statement.results),
                "operator": statement.operator,
                "operands": list(statement.operands),
                "added": list(statement.added),
                "tasks": statement.tasks,
                "task_types": list(statement.types),
                "first_tasks": list(statement.where),
            }
            for statement in block.statements
        ],
    }


def mermaid(sides: Sequence[Side], tasks: bool) -> str:
    """Draw the dataflow as a Mermaid flow chart: a box for each block."""
    out = ["flowchart TD"]
    for n, side in enumerate(sides):
        for b, block in enumerate(side.plan.blocks):
            title = block.title or "outside of the layers"
            out.append(f'  subgraph p{n}b{b} ["{title}"]')
            for s, statement in enumerate(block.statements):
                out.append(f'    p{n}b{b}s{s}["{_entities(_label(statement, tasks))}"]')
            out.append("  end")
        for edge in edges_of(side.plan):
            (b, s), (c, t) = edge.start, edge.end
            arrow = "-->" if edge.forward else "-.->"
            out.append(f'  p{n}b{b}s{s} {arrow}|"{_entities(edge.name)}"| p{n}b{c}s{t}')
    return "\n".join(out) + "\n"


def dot(sides: Sequence[Side], tasks: bool) -> str:
    """Draw the dataflow for Graphviz."""
    out = ["digraph plan {", "  node [shape=box, fontname=monospace];"]
    for n, side in enumerate(sides):
        for b, block in enumerate(side.plan.blocks):
            out.append(f"  subgraph cluster_{n}_{b} {{")
            out.append(f"    label={_quoted(block.title)};")
            for s, statement in enumerate(block.statements):
                out.append(f"    p{n}b{b}s{s} [label={_quoted(_label(statement, tasks))}];")
            out.append("  }")
        for edge in edges_of(side.plan):
            (b, s), (c, t) = edge.start, edge.end
            style = "" if edge.forward else ", style=dashed"
            out.append(f"  p{n}b{b}s{s} -> p{n}b{c}s{t} [label={_quoted(edge.name)}{style}];")
    return "\n".join([*out, "}"]) + "\n"


def _label(statement: Statement, tasks: bool) -> str:
    note = _note(statement) if tasks else ""
    return plain(f"{statement} # {note}" if note else str(statement))


def _entities(text: str) -> str:
    for mark, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(mark, entity)
    return text


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


FORMS: dict[str, Callable[[Sequence[Side], bool], str]] = {
    "text": text,
    "json": as_json,
    "mermaid": mermaid,
    "dot": dot,
}

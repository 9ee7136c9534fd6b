"""One rank's pair of files, open to surgery."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TextIO

from .cuda import Branch, Declaration, Dialect, cuda_text
from .graph import Program, TaskGraph, dump

__all__ = ["FileNames", "Pair", "file_names"]

FileNames = Literal["kernel", "rank", "plain"]
_SMALL = 5_000
"""Tasks. The text of so many is made at once and kept; more go through in pieces."""
_FIELDS = ("trigger_event", "dependent_event", "inputs", "outputs")


def file_names(names: FileNames, rank: int) -> tuple[str, str]:
    """The `.cu` and `.json` names of a rank: of the demos, of `output_dir=`, of temp folders."""
    if names == "kernel":
        return f"kernel_{rank}.cu", f"task_graph_{rank}.json"
    if names == "rank":
        return f"test_rank{rank}.cu", f"task_graph_rank{rank}.json"
    return "test.cu", "task_graph.json"


@dataclass
class Pair:
    """`kernel_N.cu` and `task_graph_N.json` of one rank.

    Edit `graph` (plain dicts), `declarations`, `branches`, `fields` (what the loader insists on)
    or `dialect`, then ask for the texts: they follow. `graph` is made when first asked for; until
    then the JSON is written straight from the model, in pieces.
    """

    rank: int
    num_gpus: int
    source: TaskGraph
    declarations: list[Declaration]
    branches: list[Branch]
    dialect: Dialect
    fields: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, program: Program, dialect: Dialect, graph: TaskGraph | None = None) -> Pair:
        tensors = enumerate(program.tensors.values())
        arms = sorted(program.branches.items(), key=lambda item: (item[0][0].code, item[0][1]))
        return cls(
            program.rank,
            program.ranks,
            graph or TaskGraph.of(program, dialect.metadata),
            [Declaration.of(tensor, index) for index, tensor in tensors],
            [Branch(kind.enumerator, number, *body) for (kind, number), body in arms],
            dialect,
            [*dialect.metadata, *_FIELDS],
        )

    @cached_property
    def graph(self) -> dict[str, Any]:
        """The graph as dicts and lists; an edit is seen by everything written afterwards."""
        return self.source.as_dict()

    def tasks(
        self, task_type: int | None = None, tensor: str | None = None
    ) -> list[dict[str, Any]]:
        """The tasks, in order, of a type and / or that carry a tensor in any slot."""
        return [
            task
            for task in self.graph["all_tasks"]
            if (task_type is None or task["task_type"] == task_type)
            and (tensor is None or any(t["base_ptr"] == tensor for t in _tensors(task)))
        ]

    def declaration(self, name: str) -> Declaration:
        return next(d for d in self.declarations if d.name == name)

    def branch(self, task: str, variant: int = 0) -> Branch:
        return next(b for b in self.branches if (b.task, b.variant) == (task, variant))

    def json_text(self) -> str:
        if "graph" not in self.__dict__ and self.source.task_count < _SMALL:
            return self.source.text
        return "".join(self._json_chunks())

    def write_json(self, file: TextIO) -> None:
        """Write the graph without ever holding its text whole."""
        for chunk in self._json_chunks():
            file.write(chunk)

    def _json_chunks(self) -> Iterator[str]:
        if "graph" in self.__dict__:
            yield dump(self.graph)
        else:
            yield from self.source.chunks()

    def cuda_text(self) -> str:
        graph = self.graph if self.dialect.embedded else None
        return cuda_text(
            self.dialect, self.num_gpus, self.fields, self.declarations, self.branches, graph
        )

    def write(self, folder: Path | str, names: FileNames = "kernel") -> tuple[Path, Path]:
        """Write both files and return their paths; an embedded dialect has no JSON to write."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        cuda, graph = (folder / name for name in file_names(names, self.rank))
        # Bytes: no platform may translate the line ends a dialect chose.
        cuda.write_bytes(self.cuda_text().encode())
        if not self.dialect.embedded:
            with graph.open("w", encoding="ascii", newline="") as file:
                self.write_json(file)
        if names == "rank":
            metadata = {"rank": self.rank, "world_size": self.num_gpus}
            (folder / f"kernel_metadata_rank{self.rank}.json").write_text(json.dumps(metadata))
        return cuda, graph


def _tensors(task: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(task["inputs"] or []), *(task["outputs"] or [])]

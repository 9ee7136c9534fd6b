"""Deriving: what follows from the two files of a rank, judging nothing.

:class:`RankFacts` is what a rule reads. Each analysis is a module of this package and a
cached property here, so a run pays for those facts only that an enabled rule asks for.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.critical import Critical
from mirage_gate.facts.task_types import TaskType, built_in
from mirage_gate.findings import Location

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import CudaSource, Declaration
    from mirage_gate.artifacts.graph import Graph
    from mirage_gate.artifacts.model import ModelConfig
    from mirage_gate.artifacts.weights import Checkpoint
    from mirage_gate.facts.events import EventGraph
    from mirage_gate.facts.layers import Layers
    from mirage_gate.facts.model.dataflow import Dataflow
    from mirage_gate.facts.model.extents import Extents
    from mirage_gate.facts.model.features import Features
    from mirage_gate.facts.model.matching import Matching
    from mirage_gate.facts.model.shapes import Shapes
    from mirage_gate.facts.order import Order
    from mirage_gate.facts.partials import Partials
    from mirage_gate.facts.plan import Plan, Program
    from mirage_gate.facts.plan.comparing import Planned
    from mirage_gate.facts.regions import Regions
    from mirage_gate.facts.repetition import Repetition
    from mirage_gate.facts.roles import Roles
    from mirage_gate.facts.shortened import Shortened
    from mirage_gate.facts.siblings import Siblings
    from mirage_gate.facts.signatures import Signatures
    from mirage_gate.facts.signatures.notation import Kernel
    from mirage_gate.facts.values import Values
    from mirage_gate.facts.wiring import Group, Wiring


class Options(msgspec.Struct, frozen=True):
    """What a user may set that changes facts rather than verdicts.

    ``task_types`` are all known types by code: the built-in ones and the user's. ``kernels`` are
    the user's own device functions. ``model`` is
    the model's own description, ``checkpoint`` its weights, where there is one; ``layers`` are
    those of the model that the graph is meant to have, None for all. ``weight_names`` are the
    user's own pairs of a graph's name and the checkpoint's, ``weights_absent`` the checkpoint's
    names that are not loaded on purpose. ``plan`` is what the model is to compute.
    """

    critical: Critical = msgspec.field(default_factory=Critical)
    task_types: dict[int, TaskType] = msgspec.field(default_factory=built_in)
    kernels: dict[str, Kernel] = msgspec.field(default_factory=dict)
    workers: int = 0
    model: ModelConfig | None = None
    checkpoint: Checkpoint | None = None
    layers: frozenset[int] | None = None
    plan: Planned | None = None
    weight_names: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    weights_absent: tuple[str, ...] = ()


class RankFacts:
    """The facts of one rank.

    ``repetition`` is what was left out of a graph that was made short; None of a whole one.
    """

    repetition: Repetition | None = None

    def __init__(
        self,
        rank: int,
        cuda: CudaSource,
        graph: Graph,
        graph_path: str,
        options: Options,
        absent_fields: dict[str, tuple[int, int]] | None = None,
    ) -> None:
        """``absent_fields``: loader field to (first task that lacks it, how many do)."""
        self.absent_fields = absent_fields or {}
        self.rank = rank
        self.cuda = cuda
        self.graph = graph
        self.graph_path = graph_path
        self.options = options

    @cached_property
    def declared(self) -> dict[str, Declaration]:
        """Every declared name's first declaration, in the order of the text."""
        declared: dict[str, Declaration] = {}
        for declaration in self.cuda.declarations:
            declared.setdefault(declaration.name, declaration)
        return declared

    @cached_property
    def wiring(self) -> Wiring:
        """Who references which tensor, and how."""
        from mirage_gate.facts.wiring import Wiring

        return Wiring(self)

    @cached_property
    def regions(self) -> Regions:
        """Which bytes each reference covers."""
        from mirage_gate.facts.regions import Regions

        return Regions(self)

    @cached_property
    def layers(self) -> Layers:
        """Which layer each group of tasks belongs to, and which operators a layer has."""
        from mirage_gate.facts.layers import Layers

        return Layers(self)

    @cached_property
    def features(self) -> Features:
        """Which layers attend, rotate, normalise queries and keys, and mix experts."""
        from mirage_gate.facts.model.features import Features

        return Features(self)

    @cached_property
    def signatures(self) -> Signatures:
        """What the slots of each task are to each other."""
        from mirage_gate.facts.signatures import Signatures

        return Signatures(self)

    @cached_property
    def shapes(self) -> Shapes:
        """The shape of each tensor, from the tiles that tasks read of it."""
        from mirage_gate.facts.model.shapes import Shapes

        return Shapes(self)

    @cached_property
    def matching(self) -> Matching:
        """The checkpoint's weights and what the host gives, matched by their names."""
        from mirage_gate.facts.model.matching import Matching

        return Matching(self)

    @cached_property
    def extents(self) -> Extents:
        """The weights whose shapes are not the model's."""
        from mirage_gate.facts.model.extents import Extents

        return Extents(self)

    @cached_property
    def dataflow(self) -> Dataflow:
        """The program, compared with the architecture of the model that is meant."""
        from mirage_gate.facts.model.dataflow import Dataflow

        return Dataflow(self)

    @cached_property
    def stacks(self) -> tuple[Siblings, ...]:
        """Which layers are alike, for each of the models that the graph holds."""
        from mirage_gate.facts.siblings import Siblings

        return tuple(Siblings(self, stack.number) for stack in self.layers.stacks)

    @cached_property
    def roles(self) -> Roles:
        """What each input slot of the operators stands for."""
        from mirage_gate.facts.roles import Roles

        return Roles(self)

    @cached_property
    def events(self) -> EventGraph:
        """Which event waits for which, and whether the counts let the graph run to its end."""
        from mirage_gate.facts.events import EventGraph

        return EventGraph(self)

    @cached_property
    def order(self) -> Order:
        """Which accesses to the same bytes no event orders."""
        from mirage_gate.facts.order import Order

        return Order(self)

    @cached_property
    def values(self) -> Values:
        """Which write each read sees, and which reads each write serves."""
        from mirage_gate.facts.values import Values

        return Values(self)

    @cached_property
    def partials(self) -> Partials:
        """Which values are the same on every rank, and which are parts of a sum."""
        from mirage_gate.facts.partials import Partials

        return Partials(self)

    @cached_property
    def program(self) -> Program:
        """The model that the graph computes, statement by statement."""
        from mirage_gate.facts.plan.program import program_of

        return program_of(self)

    @cached_property
    def plan(self) -> Plan:
        """The program with its values named and its layers folded."""
        from mirage_gate.facts.plan.folding import fold

        return fold(self.program)

    @cached_property
    def shortened(self) -> Shortened | None:
        """The same graph without the layers that repeat others; None where none do."""
        from mirage_gate.facts.shortened import shortened

        return shortened(self)

    def times_of_layer(self, layer: int | None) -> int:
        """Give how many layers one stands for: more than itself if others are left out."""
        return self.repetition.times_of_layer(layer) if self.repetition else 1

    def times_of_group(self, group: Group) -> int:
        """Give how many groups one stands for."""
        return self.repetition.times_of_group(group.number) if self.repetition else 1

    def times_of_event(self, event: int) -> int:
        """Give how many events one stands for, by its place in ``all_events``."""
        return self.repetition.times_of_event(event) if self.repetition else 1

    def release(self) -> None:
        """Let go of everything.

        Facts refer to each other in circles. The garbage collector would have to find them.
        """
        short = vars(self).get("shortened")
        if short is not None:
            short.facts.release()
        vars(self).clear()

    @cached_property
    def task_types(self) -> dict[int, TaskType]:
        """The task types by code, as this pair means them."""
        from mirage_gate.facts.vintages import types_of

        return types_of(self)

    def task_type(self, code: int) -> TaskType:
        """Give the facts of a type; an unknown one reads of its inputs and writes of its outputs.

        Which part of them, nobody knows.
        """
        kind = self.task_types.get(code)
        return TaskType(code, f"task type {code}", known=False) if kind is None else kind

    def knows(self, code: int) -> bool:
        """Whether it is known what the type does with its slots."""
        return self.task_type(code).known

    def is_critical(self, declaration: Declaration) -> bool:
        """Whether losing this tensor means a feature the model cannot do without."""
        return self.options.critical.matches(declaration.name, declaration.kind)

    def in_graph(self, *parts: str | int, note: str = "") -> Location:
        """Point into the graph; the line is found later, and only if it is needed."""
        from mirage_gate.artifacts.positions import pointer_text

        return Location(self.graph_path, pointer=pointer_text(parts), note=note)

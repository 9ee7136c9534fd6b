"""Putting the stand-ins in the place of what they stand for: one importer, asked first."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mirage_gate.building.no_gpu import libraries
from mirage_gate.building.no_gpu.machine import Machine
from mirage_gate.building.no_gpu.torch import module as torch
from mirage_gate.building.no_gpu.unknown import UnknownModule

ALWAYS = ("torch", "transformers", "safetensors", "mpi4py", "cuda", "triton")
"""What asks for a GPU, for weights or for other processes, installed or not."""

IF_ABSENT = (
    "numpy",
    "tqdm",
    "z3",
    "graphviz",
    "huggingface_hub",
    "tg4perfetto",
    "flashinfer",
    "accelerate",
    "ml_dtypes",
    "nvshmem",
    "modal",
    "requests",
)
"""What MPK and its demos import on the way, and no graph depends on."""


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The importer. ``more`` names other modules, each with the file that stands in, or none."""

    def __init__(self, machine: Machine, more: Mapping[str, str] = {}) -> None:
        self._made: dict[str, types.ModuleType] = torch.modules(machine) | libraries.modules(
            machine
        )
        self._files = {name: file for name, file in more.items() if file}
        absent = [name for name in IF_ABSENT if not libraries.installed(name)]
        for name, make in libraries.small().items():
            if name in absent:
                self._made |= make()
        self._names = {*ALWAYS, *absent, *more}

    def install(self) -> None:
        """Be asked first from now on."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if name in self._files:
            return importlib.util.spec_from_file_location(name, self._files[name])
        if name.split(".")[0] not in self._names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        made = self._made.get(spec.name)
        if made is None:
            if spec.name.startswith("transformers."):
                made = libraries.model_module(spec.name, self._made["transformers"])
            else:
                made = UnknownModule(spec.name)
            self._made[spec.name] = made
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is left to do: it was made whole."""


class Mirage(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The importer of MPK: its own Python from the checkout, around the generator built here.

    Its ``__init__`` also loads native libraries that a task graph needs nothing of. It is run
    statement by statement, and those that fail for want of these are passed over.
    """

    def __init__(self, package: Path, core: Path) -> None:
        self._package, self._core = package, core

    def install(self) -> None:
        """Be asked first from now on."""
        # What the generator was not linked with is looked for when it is called: never.
        sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if name == "mirage":
            spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
            spec.origin = str(self._package / "__init__.py")
            spec.has_location = True
            spec.submodule_search_locations = [str(self._package)]
            return spec
        if name == "mirage.core":
            loader = importlib.machinery.ExtensionFileLoader(name, str(self._core))
            return importlib.util.spec_from_file_location(name, str(self._core), loader=loader)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """A plain module will do."""

    def exec_module(self, module: types.ModuleType) -> None:
        file = self._package / "__init__.py"
        names: dict[str, Any] = module.__dict__
        for statement in ast.parse(file.read_bytes(), str(file)).body:
            code = compile(ast.Module([statement], []), str(file), "exec")
            own = isinstance(statement, ast.ImportFrom) and statement.level
            try:
                exec(code, names)  # noqa: S102 - the user's own
            except Exception:
                if own:
                    raise
        names.setdefault("__getattr__", self._moved)

    def _moved(self, name: str) -> types.ModuleType:
        """Give a module that has moved into ``mirage.mpk``, which some demos have not followed."""
        if (self._package / "mpk" / f"{name}.py").is_file():
            told = f"mirage.{name} is not there; mirage.mpk.{name} is taken for it"
            print(f"mirage-gate: note: {told}, as no GPU machine would", file=sys.stderr)
            return importlib.import_module(f"mirage.mpk.{name}")
        raise AttributeError(f"module 'mirage' has no attribute {name!r}")

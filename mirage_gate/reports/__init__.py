"""The report formats: one module each, every one a function of a :class:`Report`.

A module here defines ``NAME`` (what ``--output`` calls it), ``DESCRIPTION`` (one line for
the help text) and ``render(report, context) -> str``; and ``BY_LAYER = True`` if it shows
``Coverage.layers``, which costs time on big graphs. To add a format, add a module: it is
found by itself.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from typing import Protocol

import msgspec

from mirage_gate.report import FailOn, Report


class Context(msgspec.Struct, frozen=True):
    """What a report may know besides the findings.

    ``root`` is the folder that paths are shown relative to (the git root, else the working
    directory); ``color`` allows terminal colours; ``verbosity`` is -1 quiet, 0, 1 verbose;
    ``commit`` is the one that is checked out, empty where there is none;
    ``statistics`` has the text count the findings instead of listing them. ``hidden`` has
    a report show what waivers and a baseline hide, each with its reason.
    """

    root: str
    fail_on: FailOn = "error"
    color: bool = False
    verbosity: int = 0
    command_line: tuple[str, ...] = ()
    statistics: bool = False
    hidden: bool = False
    commit: str = ""


class Format(Protocol):
    """The shape of a report module."""

    NAME: str
    DESCRIPTION: str

    def render(self, report: Report, context: Context) -> str:
        """Give the whole report as text."""


def format_names() -> tuple[str, ...]:
    """Every format's name: the modules beside this one, without importing any."""
    return tuple(
        sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    )


def shows_layers(name: str) -> bool:
    """Whether a format shows what each layer does with each tensor."""
    return bool(getattr(load(name), "BY_LAYER", False))


def load(name: str) -> Format:
    """Import one format's module, and only that one: SARIF's object model is slow to load."""
    module: Format = importlib.import_module(f"mirage_gate.reports.{name}")
    return module


def render(
    report: Report,
    format: str = "text",
    *,
    root: str | None = None,
    fail_on: FailOn = "error",
    color: bool = False,
    verbosity: int = 0,
) -> str:
    """Give a report as text in one format: for a builder to call.

    ``root`` is the folder that paths are shown relative to: by default the repository of
    the working directory, else that directory. Raises :class:`ValueError` for no format.
    """
    from mirage_gate.reports._paths import report_root

    if format not in format_names():
        raise ValueError(f"{format!r} is no format: {', '.join(format_names())}")
    here = os.getcwd()  # noqa: PTH109
    context = Context(root or report_root(here), fail_on, color, verbosity)
    return load(format).render(report, context)

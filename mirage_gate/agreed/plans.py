"""A plan that was agreed: read from a file, to hold a model to."""

from __future__ import annotations

from mirage_gate.artifacts import files
from mirage_gate.facts.plan.comparing import Planned
from mirage_gate.facts.plan.notation import Plan, PlanError, parse_plan
from mirage_gate.facts.plan.running import TooLong, program_in


class NotAPlan(Exception):
    """A file that is no plan; the message says where and why."""


def read(path: str) -> tuple[Plan, Planned]:
    """Read one file. Raises :class:`NotAPlan` and :class:`OSError`."""
    try:
        text = files.read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise NotAPlan(f"{path} is no plan: byte {error.start} is no UTF-8") from error
    return planned(path, text)


def planned(path: str, text: str, before: int = 0) -> tuple[Plan, Planned]:
    """Take in the text of a plan that so many lines stand before. Raises :class:`NotAPlan`."""
    try:
        plan = parse_plan(text)
        return plan, Planned(path, program_in(plan), tuple(text.split("\n")), before)
    except PlanError as error:
        raise NotAPlan(f"{path}:{error.line + before}:{error.column}: {error.message}") from error
    except TooLong as error:
        raise NotAPlan(f"{path} is no plan: {error}") from error

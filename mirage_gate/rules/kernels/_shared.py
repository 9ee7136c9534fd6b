"""The dispatch branches, and the groups of tasks that select them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Branch
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group


def dispatched_kernels(facts: RankFacts) -> dict[tuple[int, int], list[Group]]:
    """Give the groups of each (type, variant) that needs a dispatch branch."""
    return {
        kernel: groups
        for kernel, groups in facts.wiring.kernels.items()
        if not facts.task_type(kernel[0]).frame
    }


def selected_branches(facts: RankFacts) -> Iterator[tuple[Branch, list[Group]]]:
    """Give every dispatch branch that tasks select, with their groups."""
    for (task_type, variant), groups in dispatched_kernels(facts).items():
        branch = facts.wiring.branch(task_type, variant)
        if branch is not None:
            yield branch, groups

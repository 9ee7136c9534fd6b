"""MG507 unknown-task-type."""

from __future__ import annotations

from mirage_gate.config import Config, TaskTypeConfig, task_types
from mirage_gate.facts import Options
from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3
from tests.rules import fires, silent
from tests.rules.kernels._shared import in_task


@fires("MG507", Severity.NOTE, graph=in_task(296, "task_type"), says=("296",))
def test_a_forks_own_type() -> Pair:
    return deepseek_v3(1).emit()


_FORK = Config(task_types=[TaskTypeConfig("TASK_MLA_ROPE_Q_SM100", 296, "r r r", "w")])


@silent("MG507", options=Options(task_types=task_types(_FORK)))
def test_a_forks_own_type_in_the_configuration() -> Pair:
    return deepseek_v3(1).emit()

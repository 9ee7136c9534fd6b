"""What cases of several rules of kernels build on."""

from __future__ import annotations

from collections.abc import Callable

from tests.emitter import Pair
from tests.rules import Path, where


def in_task(task_type: int, *path: str | int, nth: int = 0) -> Callable[[Pair], Path]:
    return lambda pair: where(pair, task_type, *path, nth=nth)

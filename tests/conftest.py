"""What several test modules share."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from tests.scratch import SourceTree

pytest.register_assert_rewrite("tests.rules.cases")


def pytest_collection_finish() -> None:
    """Let the garbage collector pass by what is there for good, four thousand tests among it."""
    gc.collect()
    gc.freeze()


def _shared(variable: str, what: str) -> Path:
    """The folder that a variable names.

    In CI it must be there, or nothing would tell that these tests never run; ``none`` says
    on purpose that it is not.
    """
    value = os.environ.get(variable, "")
    if value == "none":
        pytest.skip(f"{variable}=none: no {what} here")
    folder = Path(value)
    if value and folder.is_dir():
        return folder.resolve()
    reason = f"{variable} names no folder of {what} ({value!r})"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """The folder of real artifact pairs, which are not published."""
    return _shared("MIRAGE_GATE_ARTIFACTS", "real artifacts")


@pytest.fixture(scope="session")
def whole_pairs() -> Path:
    """The folder of whole pairs, by the configurations that they were emitted with."""
    return _shared("MIRAGE_GATE_PAIRS", "whole pairs")


@pytest.fixture(scope="session")
def mpk_sources() -> Path:
    """The folder that holds MPK's public sources, and configurations to emit with."""
    return _shared("MIRAGE_GATE_MPK", "MPK's sources")


@pytest.fixture(scope="session")
def source_tree(tmp_path_factory: pytest.TempPathFactory) -> SourceTree:
    """The package's sources as a repository of their own, all committed."""
    return SourceTree.copy_to(tmp_path_factory.mktemp("source") / "mirage gate")

"""What several test modules share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scratch import SourceTree

pytest.register_assert_rewrite("tests.rules.cases")


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """The folder of real artifact pairs, which are not published.

    In CI they must be there, or nothing would tell that these tests never run;
    ``MIRAGE_GATE_ARTIFACTS=none`` says on purpose that they are not.
    """
    value = os.environ.get("MIRAGE_GATE_ARTIFACTS", "")
    if value == "none":
        pytest.skip("MIRAGE_GATE_ARTIFACTS=none: no real artifacts here")
    folder = Path(value)
    if value and folder.is_dir():
        return folder.resolve()
    reason = f"MIRAGE_GATE_ARTIFACTS names no folder of real artifacts ({value!r})"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def source_tree(tmp_path_factory: pytest.TempPathFactory) -> SourceTree:
    """The package's sources as a repository of their own, all committed."""
    return SourceTree.copy_to(tmp_path_factory.mktemp("source") / "mirage gate")

"""The reference validator for SARIF, Microsoft's SARIF Multitool, as a pytest fixture.

It comes from npm (``package.json``), or from where ``MIRAGE_GATE_SARIF_MULTITOOL`` says. A
test module that wants it sets ``pytest_plugins = ("tests.sarif_validator",)`` and imports nothing
from here, so that pytest is the first to do so.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

_INSTALLED = Path("node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool")


class Complaint(msgspec.Struct, frozen=True):
    """One thing the validator says of a log; ``level`` is error, warning or note."""

    level: str
    rule: str
    message: str


Validate = Callable[[str], list[Complaint]]


@pytest.fixture(scope="session")
def sarif_complaints(tmp_path_factory: pytest.TempPathFactory) -> Validate:
    """Give a function that runs the validator over a log and returns all it has to say."""
    tool = _tool()
    folder = tmp_path_factory.mktemp("sarif")

    def validate(log: str) -> list[Complaint]:
        path = folder / "log.sarif"
        path.write_text(log, encoding="utf-8")
        return run_validator(tool, path)

    return validate


@pytest.fixture(scope="session")
def valid_sarif(sarif_complaints: Validate) -> Callable[[str], None]:
    """Give a function that fails the test if the validator finds an error or a warning."""

    def check(log: str) -> None:
        bad = [complaint for complaint in sarif_complaints(log) if complaint.level != "note"]
        assert not bad

    return check


def _tool() -> Path:
    named = os.environ.get("MIRAGE_GATE_SARIF_MULTITOOL")
    tool = Path(named) if named else Path(__file__).resolve().parent.parent / _INSTALLED
    if tool.is_file():
        return tool
    reason = f"the SARIF validator is not installed: no {tool}; npm ci would install it"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def run_validator(tool: Path, log: Path) -> list[Complaint]:
    """Validate one file by the rules of the standard and those of GitHub."""
    if not os.access(tool, os.X_OK):
        # npm may have been told to run no install scripts, and the package needs its own.
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    verdict = log.with_suffix(".verdict")
    verdict.unlink(missing_ok=True)
    done = subprocess.run(
        [
            *(str(tool), "validate", str(log)),
            *("--rule-kind", "Sarif;Ghas"),
            *("--level", "Error;Warning;Note"),
            *("--output", str(verdict)),
            *("--log", "ForceOverwrite"),
        ],
        env={
            **os.environ,
            "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",
            # It would try every address in the log. A test asks nobody.
            "ALL_PROXY": "http://127.0.0.1:9",
            "HTTP_PROXY": "http://127.0.0.1:9",
            "HTTPS_PROXY": "http://127.0.0.1:9",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    # The exit status tells nothing of the log, only of the tool.
    assert verdict.is_file(), done.stdout
    run = json.loads(verdict.read_text(encoding="utf-8-sig"))["runs"][0]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"], done.stdout
    strings = {
        rule["id"]: rule.get("messageStrings", {}) for rule in run["tool"]["driver"]["rules"]
    }
    return [
        Complaint(
            level=result.get("level", "warning"),
            rule=result["ruleId"],
            message=_words(result["message"], strings[result["ruleId"]]),
        )
        for result in run["results"]
    ]


def _words(message: dict[str, object], strings: dict[str, dict[str, str]]) -> str:
    arguments = message.get("arguments", [])
    assert isinstance(arguments, list)
    text = strings.get(str(message.get("id")), {}).get("text") or str(message.get("text", ""))
    for number, argument in enumerate(arguments):
        text = text.replace(f"{{{number}}}", str(argument))
    return text

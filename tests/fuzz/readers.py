"""Each reader, and what it may do with bytes that nobody vouches for.

A reader either takes them, or raises the one exception that it documents. Where there is an
independent reader of the same language, the two must agree on what is well-formed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from mirage_gate import audit, config
from mirage_gate.artifacts import cuda, graph
from mirage_gate.artifacts.loader import load
from tests.emitter import qwen3

__all__ = ["READERS", "Broken"]


class Broken(AssertionError):
    """A reader did what it may not do."""


@cache
def _good() -> tuple[str, str]:
    pair = qwen3(1).emit()
    return pair.cuda_text(), pair.json_text()


def _cuda(data: bytes) -> None:
    """The `.cu` reader takes anything; every place it names is in the text."""
    source = cuda.parse("kernel_0.cu", data)
    lines = data.count(b"\n") + 1
    for declaration in source.declarations:
        places = [declaration.location, *(copy.location for copy in declaration.copies)]
        if not all(1 <= place.line <= place.end_line <= lines for place in places):
            raise Broken(f"a place outside the text: {places}")


def _cuda_audit(data: bytes) -> None:
    """The whole audit of a damaged `.cu` with a good graph."""
    _settled(audit(data, _good()[1]))


def _graph_audit(data: bytes) -> None:
    """The whole audit of a damaged graph with a good `.cu`; what is no JSON is not audited."""
    report = audit(_good()[0], data)
    _settled(report)
    if report.ranks[0].audited and not _is_json(data):
        raise Broken("audited what is no JSON")


def _settled(report: Any) -> None:
    for rank in report.ranks:
        if "internal error" in rank.failure:
            raise Broken(rank.failure)
    if any(not finding.location.placed for finding in report.findings):
        raise Broken("a finding without a line")
    if report.failed_ranks and report.exit_status() == 0:
        raise Broken("a rank was not audited, and the gate passes")


def _graph(data: bytes) -> None:
    """The graph reader agrees with Python's own JSON reader and with the schema's authority."""
    try:
        loaded = load(data)
    except graph.Malformed as error:
        if not 0 <= error.offset <= len(data):
            raise Broken(f"malformed at {error.offset} of {len(data)}") from error
        if _is_json(data) and not _is_odd(data):
            raise Broken(f"refused JSON: {error}") from error
        return
    if not _is_json(data):
        raise Broken("took what is no JSON")
    accepted = isinstance(loaded, graph.Graph)
    if accepted != _schema_accepts(data):
        raise Broken(f"the schema says otherwise (accepted here: {accepted})")
    if isinstance(loaded, graph.Graph):
        value = _plain(data)
        if len(value["all_tasks"]) != len(loaded.tasks):
            raise Broken("another number of tasks")
        for task, own in zip(value["all_tasks"], loaded.tasks, strict=True):
            named = [t["base_ptr"] for t in task["inputs"] or ()]
            if named != [loaded.tensors[number].base_ptr for number in own.inputs]:
                raise Broken("other inputs")
            if task["trigger_event"] != own.trigger_event:
                raise Broken("another event")


def _plain(data: bytes) -> Any:
    text = data.decode("utf-8").removeprefix("\ufeff")
    # Python reads no integer of more than 4,300 digits; one of 41 is too large as well.
    return json.loads(text, parse_int=lambda digits: int(digits[:41]), parse_constant=_refuse)


def _refuse(text: str) -> None:
    raise ValueError(text)


def _is_json(data: bytes) -> bool:
    try:
        _plain(data)
    except (ValueError, RecursionError):
        return False
    return True


_ODD = re.compile(rb"\\ud[89a-f]|\d[.\d]*e\+?\d{3}|[\[{]{50}|\d{300}|\xef\xbb\xbf", re.IGNORECASE)


def _is_odd(data: bytes) -> bool:
    """JSON that a strict reader may refuse: lone surrogates, numbers beyond any double, depth."""
    return bool(_ODD.search(re.sub(rb"\s", b"", data)))


@cache
def _schema_validator() -> Any:
    from jsonschema import Draft202012Validator

    from mirage_gate.schema_files import text

    return Draft202012Validator(json.loads(text("task-graph")))


def _schema_accepts(data: bytes) -> bool:
    return bool(_schema_validator().is_valid(_plain(data)))


def _in_a_file(read: Callable[[str], object], name: str, allowed: type[Exception]) -> Any:
    def reader(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(data)
            with contextlib.suppress(allowed):
                read(str(path))

    return reader


def _settings(path: str) -> None:
    settings = config.load(Path(path))
    config.task_types(settings, None)


def _header(path: str) -> None:
    config.header_codes(Path(path))


READERS: dict[str, tuple[str, Callable[[bytes], None]]] = {
    "cuda": ("cuda", _cuda),
    "cuda-audit": ("cuda", _cuda_audit),
    "graph": ("graph", _graph),
    "graph-audit": ("graph", _graph_audit),
    "config": ("config", _in_a_file(_settings, "mirage-gate.toml", config.ConfigError)),
    "pyproject": ("config", _in_a_file(_settings, "pyproject.toml", config.ConfigError)),
    "header": ("header", _in_a_file(_header, "header.h", config.ConfigError)),
}
"""Name to (kind of input, reader)."""


def _later() -> None:
    """The readers of what builders and earlier runs left, as far as this version has them."""
    for name, kind, module, function, error in (
        ("builder", "builder", "artifacts.builder", "read", "BuilderError"),
        ("lock", "lock", "lock", "read", "NotALock"),
        ("summary", "summary", "summary", "read", "NotASummary"),
        ("baseline", "report", "baseline", "read", "NotAReport"),
        ("baseline-sarif", "sarif", "baseline", "read", "NotAReport"),
    ):
        try:
            owner = importlib.import_module(f"mirage_gate.{module}")
        except ModuleNotFoundError:
            continue
        READERS[name] = (
            kind,
            _in_a_file(getattr(owner, function), "file", getattr(owner, error)),
        )


_later()

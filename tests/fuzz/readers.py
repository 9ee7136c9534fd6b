"""Each reader, and what it may do with bytes that nobody vouches for.

A reader either takes them, or raises the one exception that it documents. Where there is an
independent reader of the same language, the two must agree on what is well-formed.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mirage_gate import Options, Report, Selection, audit, config, render
from mirage_gate.agreed import baseline, lock, plans, summary
from mirage_gate.agreed.memory import Memory
from mirage_gate.artifacts import builder, cuda, graph, model, provenance, weights
from mirage_gate.artifacts.builder import ignores
from mirage_gate.artifacts.loader import load
from mirage_gate.auditing.counting import of_summary
from mirage_gate.auditing.ranks import conclude
from tests.emitter import qwen3
from tests.fuzz.inputs import seeds

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


@dataclass(frozen=True)
class InAFile:
    """A reader of a file, and the exceptions by which it refuses one."""

    read: Callable[[str], object]
    name: str
    refuses: type[Exception]

    def __call__(self, data: bytes) -> None:
        """Read it, or refuse it."""
        with contextlib.suppress(self.refuses):
            self.take(data)

    def take(self, data: bytes) -> None:
        """Read what must not be refused."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, self.name)
            path.write_bytes(data)
            self.read(str(path))


def _settings(path: str) -> None:
    """All that a command makes of a configuration, the rules of its waivers among it."""
    settings = config.load(Path(path))
    config.task_types(settings, None)
    config.kernels(settings)
    config.severities(settings)
    config.waivers(settings, path, [waiver.rule for waiver in settings.waivers])


def _header(path: str) -> None:
    config.task_types(config.Config(), config.header_codes(Path(path)))


@cache
def _summaries() -> tuple[summary.Summary, ...]:
    return summary.decode(seeds("summary")[0])


def _held(ranks: tuple[summary.Summary, ...], memory: Memory) -> Report:
    """Hold ranks to what is remembered, as `merge` does; any report of it can be printed."""
    report = conclude(list(map(of_summary, ranks)), ranks, Selection(), memory, one_run=True)
    for rank in report.ranks:
        if "internal error" in rank.failure:
            raise Broken(rank.failure)
    for name in ("text", "sarif"):
        render(report, name)
    return report


def _lock(path: str) -> None:
    """A lock that is taken is one that ranks can be held to, and that can be written again."""
    locked = lock.read(path)
    _held(_summaries(), Memory(lock=locked))
    again = lock.decode(locked.lock.text().encode(), path)
    if again.lock != locked.lock:
        raise Broken("a lock that was written again is another one")
    with contextlib.suppress(plans.NotAPlan):
        locked.planned()


def _baseline(path: str) -> None:
    _held(_summaries(), Memory(baseline=baseline.read(path)))


def _summary(path: str) -> None:
    """A summary that is taken can be joined, alone and with others."""
    ranks = summary.read(path)
    _held(ranks, Memory())
    _held((*ranks, *_summaries()), Memory())
    if summary.decode(summary.encode(ranks).encode()) != ranks:
        raise Broken("a summary that was written again is another one")


def _plan(path: str) -> None:
    """A plan that is taken is one that a graph can be held to."""
    _, planned = plans.read(path)
    _settled(audit(*_good(), options=Options(plan=planned), selection=_ONLY_MG8))


def _model_config(path: str) -> None:
    options = Options(model=model.read(path))
    _settled(audit(*_good(), options=options, selection=_ONLY_MG0))


def _weights(path: str) -> None:
    options = Options(checkpoint=weights.read(path))
    _settled(audit(*_good(), options=options, selection=_ONLY_MG0))


def _builder(path: str) -> None:
    """A builder's names and its comments; what is no Python has no comments."""
    ignores.read(path)
    builder.read(path)


_ONLY_MG8, _ONLY_MG0 = Selection(select=("MG8",)), Selection(select=("MG0",))

READERS: dict[str, tuple[str, Callable[[bytes], None]]] = {
    "cuda": ("cuda", _cuda),
    "cuda-audit": ("cuda", _cuda_audit),
    "graph": ("graph", _graph),
    "graph-audit": ("graph", _graph_audit),
    "config": ("config", InAFile(_settings, "mirage-gate.toml", config.ConfigError)),
    "pyproject": ("config", InAFile(_settings, "pyproject.toml", config.ConfigError)),
    "header": ("header", InAFile(_header, "header.h", config.ConfigError)),
    "builder": ("builder", InAFile(_builder, "builder.py", builder.BuilderError)),
    "lock": ("lock", InAFile(_lock, "wiring.lock.json", lock.NotALock)),
    "summary": ("summary", InAFile(_summary, "rank.json", summary.NotASummary)),
    "baseline": ("report", InAFile(_baseline, "report.json", baseline.NotAReport)),
    "baseline-sarif": ("sarif", InAFile(_baseline, "report.sarif", baseline.NotAReport)),
    "plan": ("plan", InAFile(_plan, "model.plan", plans.NotAPlan)),
    "model-config": (
        "model-config",
        InAFile(_model_config, "config.json", model.ModelConfigError),
    ),
    "weights-index": (
        "weights-index",
        InAFile(_weights, "model.safetensors.index.json", weights.WeightsError),
    ),
    "weights": ("weights", InAFile(_weights, "model.safetensors", weights.WeightsError)),
    "provenance": (
        "provenance",
        InAFile(provenance.read, "provenance_0.json", provenance.NotAProvenance),
    ),
}
"""Name to (kind of input, reader)."""

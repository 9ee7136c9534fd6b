"""Findings and reports built by hand, hostile ones included."""

from __future__ import annotations

from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.report import Coverage, RankReport, Report

HOSTILE_NAMES = (
    "a\"b'c",
    "<script>alert(1)</script>",
    "\n::error file=x,line=1::forged",
    "%0A::warning::forged",
    "`code` **bold** | cell |",
    "\x1b[2J\x1b]0;title\x07\x9b31m",
    "\u202egnp.cu\u2066\u200b\ufeff",
    "[click me](https://example.invalid/) [and](1)",
    "\\[x](1) [y\\](2) [z",
    "{0} {{1}} }{ %s",
    "line\r\nline\u2028line\x85",
    "\ud800 \udfff lone",
    "😀 é \U000e0041",
    "x" * 10_000,
    "y " * 10_000,
)


def at(
    path: str = "kernel_0.cu", line: int = 41, column: int = 3, note: str = "", width: int = 10
) -> Location:
    return Location(path, line, column, line, column + width if line else 0, note=note)


def finding(
    message: str = "rope_cos is declared and no task reads it",
    rule: str = "MG101",
    severity: Severity = Severity.ERROR,
    location: Location | None = None,
    **rest: object,
) -> Finding:
    place = at() if location is None else location
    return Finding(rule, severity, message, place, **rest)  # type: ignore[arg-type]


def hostile(path: str = "kernel_0.cu") -> tuple[Finding, ...]:
    """One finding per hostile name, with the name everywhere a name can stand."""
    return tuple(
        finding(
            f"{name} is declared and no task reads it",
            location=at(path, line),
            hint=f"pass {name} on",
            related=(at(path, line + 1, note=f"storage of {name}"),),
            trace=(at(path, line, note=f"{name} written"), at(path, line + 2, note=f"{name} read")),
            tensor=name,
        )
        for line, name in enumerate(HOSTILE_NAMES, 1)
    )


def coverage(
    tensor: str,
    consumers: int = 0,
    producers: int = 0,
    *,
    inputs: int | None = None,
    outputs: int | None = None,
    critical: bool = False,
    kind: str = "host",
    path: str = "kernel_0.cu",
) -> Coverage:
    return Coverage(
        tensor=tensor,
        kind=kind,
        nbytes=None,
        location=at(path),
        critical=critical,
        input_refs=consumers if inputs is None else inputs,
        output_refs=producers if outputs is None else outputs,
        consumers=consumers,
        producers=producers,
        consumer_task_types=(278, 296) if consumers else (),
        producer_task_types=(105,) if producers else (),
    )


def rank(number: int = 0, *coverages: Coverage, folder: str = "") -> RankReport:
    return RankReport(
        rank=number,
        cuda_path=f"{folder}kernel_{number}.cu",
        graph_path=f"{folder}task_graph_{number}.json",
        audited=True,
        tasks=13_646,
        events=1_204,
        tensors=126,
        coverage=coverages,
    )


def not_audited(number: int, reason: str) -> RankReport:
    return RankReport(
        rank=number,
        cuda_path=f"kernel_{number}.cu",
        graph_path="",
        audited=False,
        failure=reason,
    )


def report(*findings: Finding, ranks: tuple[RankReport, ...] = ()) -> Report:
    return Report(ranks=ranks or (rank(),), findings=findings, seconds=0.4142)

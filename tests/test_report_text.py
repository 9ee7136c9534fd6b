"""The text report."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mirage_gate.escaping import plain, shorten, visible
from mirage_gate.findings import Severity
from mirage_gate.report import Report
from mirage_gate.reports import Context, text
from tests.findings import (
    HOSTILE_NAMES,
    at,
    coverage,
    finding,
    hostile,
    not_audited,
    rank,
    report,
)


def rendered(of: Report, **settings: Any) -> list[str]:
    return text.render(of, Context(root=os.getcwd(), **settings)).splitlines()  # noqa: PTH109


def test_the_words_users_know() -> None:
    lines = rendered(
        report(
            ranks=(
                rank(
                    0,
                    coverage("rope_cos", 156, critical=True),
                    coverage("rope_sin", critical=True),
                    coverage("cos", inputs=4, critical=True),
                    coverage("output_token", producers=1),
                    coverage("lse", kind="scratch"),
                    coverage("nullptr", kind="sentinel"),
                    coverage("weights", 8),
                ),
            )
        )
    )
    assert lines[:6] == [
        "rank 0: 13,646 tasks, 1,204 events, 126 tensors",
        "[OK] rope_cos: input_refs=156 consumer_task_types=[278, 296]",
        "[MISSING-WIRING] rope_sin: input_refs=0",
        "[MISSING-WIRING] cos: input_refs=4, but no task that carries it reads it",
        "INFO write-only: output_token",
        "INFO dead: lse",
    ]


def test_a_finding_with_all_its_parts() -> None:
    related = (at(line=40, note="storage of rope_cos"), at("task_graph_0.json", 7))
    trace = (at("task_graph_0.json", 10, 5, "written"), at(line=0, note="read"))
    places = ["  kernel_0.cu:40:3: storage of rope_cos", "  task_graph_0.json:7:3"]
    steps = ["  1. task_graph_0.json:10:5: written", "  2. kernel_0.cu: read"]
    first = (
        "kernel_0.cu:41:3: MG101 unwired-critical-tensor error: "
        "rope_cos is declared and no task reads it"
    )
    hint = "  hint: pass it to attention"
    for steps_of_it, verbosity, shown in (
        ((), 0, [first, hint, *places]),
        (trace, 0, [first, hint, *steps]),  # the trace goes through the same places
        (trace, 1, [first, hint, *places, *steps]),
    ):
        said = finding(hint=hint[8:], related=related, trace=steps_of_it)
        lines = rendered(report(said), verbosity=verbosity)
        start = lines.index(first)
        assert lines[start : start + len(shown) + 1] == [*shown, ""]


@pytest.mark.parametrize(
    ("of", "settings", "verdict"),
    [
        (
            report(finding(), finding("other"), finding("w", "MG104", Severity.WARNING)),
            {},
            "FAILED, 2 errors, 1 warning in 1 rank (13,646 tasks, 126 tensors)",
        ),
        (report(), {}, "PASSED, no findings in 1 rank (13,646 tasks, 126 tensors)"),
        (
            report(finding(severity=Severity.NOTE), ranks=(rank(0), rank(1))),
            {},
            "PASSED, 1 note in 2 ranks (27,292 tasks, 252 tensors)",
        ),
        (
            report(finding(severity=Severity.NOTE)),
            {"fail_on": "note"},
            "FAILED, 1 note in 1 rank (13,646 tasks, 126 tensors)",
        ),
        (
            report(finding()),
            {"fail_on": "never"},
            "PASSED, 1 error in 1 rank (13,646 tasks, 126 tensors)",
        ),
        (
            report(ranks=(rank(0), not_audited(1, "no graph"))),
            {},
            "FAILED, no findings in 1 rank (13,646 tasks, 126 tensors), 1 rank not audited",
        ),
        (
            report(ranks=(not_audited(1, "no graph"),)),
            {},
            "NOTHING AUDITED, no findings in 0 ranks, 1 rank not audited",
        ),
    ],
)
def test_the_verdict(of: Report, settings: dict[str, Any], verdict: str) -> None:
    assert rendered(of, **settings)[-1] == f"mirage-gate: {verdict}"
    assert rendered(of, verbosity=-1, **settings)[-1] == f"mirage-gate: {verdict}"


def test_a_pass_says_what_it_rests_on() -> None:
    tensors = (coverage("rope_cos", 4, critical=True), coverage("w", 1), coverage("x", inputs=1))
    lines = rendered(report(ranks=(rank(0, *tensors),)))
    assert "checked: 1 of 1 critical tensor read by a task" in lines
    assert "checked: 2 of 3 loaded tensors read or written by a task" in lines
    assert lines[-3].startswith("not checked: ")
    assert lines[-2].startswith("model: not given, ")
    lines = rendered(report(ranks=(rank(0, coverage("w", 1)),)))
    assert any(line.startswith("checked: no tensor is critical here") for line in lines)


def test_ranks_that_say_the_same_are_said_once() -> None:
    def of(number: int) -> Any:
        return rank(number, coverage("rope_cos", critical=True, path=f"kernel_{number}.cu"))

    findings = [
        finding(location=at(f"kernel_{number}.cu", 41 + number), rank=number)
        for number in (0, 1, 2, 5)
    ]
    lines = rendered(
        report(
            *findings,
            finding("only here", location=at("kernel_2.cu"), rank=2),
            ranks=(of(0), of(1), of(2), of(5), not_audited(3, "no graph")),
        )
    )
    assert lines[0] == "ranks 0-2, 5: 13,646 tasks, 1,204 events, 126 tensors each"
    assert sum("[MISSING-WIRING]" in line for line in lines) == 1
    assert "rank 3 (kernel_3.cu): NOT AUDITED: no graph" in lines
    told = [line for line in lines if ": MG101 " in line]
    assert told == [
        "kernel_0.cu:41:3: MG101 unwired-critical-tensor error: "
        "rope_cos is declared and no task reads it (ranks 0-2, 5)",
        "kernel_2.cu:41:3: MG101 unwired-critical-tensor error: only here (rank 2)",
    ]
    assert "  also: kernel_1.cu:42:3, kernel_2.cu:43:3, kernel_5.cu:46:3" in lines


def test_a_rank_that_says_it_twice_is_not_folded_into_one() -> None:
    same = [finding(location=at(line=line)) for line in (1, 2)]
    other = [finding(location=at("kernel_1.cu", line), rank=1) for line in (1, 2)]
    graph = finding(location=at("task_graph_0.json", 3))
    lines = rendered(report(*same, *other, graph, ranks=(rank(0), rank(1))))
    assert [line.split(":")[1] for line in lines if ": MG101 " in line] == ["1", "2", "3"]


def test_two_folders_with_the_same_ranks_are_told_apart() -> None:
    ranks = (rank(0, folder="a/"), rank(0, coverage("x"), folder="b/"))
    lines = rendered(report(ranks=ranks))
    assert [line.split(":")[0] for line in lines if line.startswith("rank")] == [
        "rank 0 (a/kernel_0.cu)",
        "rank 0 (b/kernel_0.cu)",
    ]


def test_lists_are_cut_unless_all_is_asked_for() -> None:
    dead = tuple(coverage(f"t{number}", kind="scratch") for number in range(20))
    related = tuple(at(line=line) for line in range(1, 21))
    of = report(finding(related=related), ranks=(rank(0, *dead),))
    lines = rendered(of)
    assert "INFO dead: t0, t1, t2, t3, t4, t5, t6, t7 and 12 more" in lines
    assert "  ... and 12 more places" in lines
    lines = rendered(of, verbosity=1)
    assert f"INFO dead: {', '.join(f't{number}' for number in range(20))}" in lines
    assert "  kernel_0.cu:20:3" in lines


def test_a_clean_graph_reads_as_a_handful_of_lines() -> None:
    """Notes about dead buffers repeat the line above them, and are not listed again."""
    dead = tuple(coverage(f"buf{n}", kind="scratch") for n in range(5))
    notes = [
        finding(f"scratch buf{n} is unused", "MG103", Severity.NOTE, tensor=f"buf{n}", hint="h")
        for n in range(5)
    ]
    of = report(*notes, ranks=(rank(0, coverage("rope_cos", 4, critical=True), *dead),))
    lines = rendered(of)
    assert "INFO dead: buf0, buf1, buf2, buf3, buf4" in lines
    assert "5 notes (MG103 unused-buffer): -v lists them" in lines
    assert len(lines) == 11
    every = rendered(of, verbosity=1)
    assert sum("MG103 unused-buffer note:" in line for line in every) == 5
    assert every.count("  hint: h") == 5
    assert sum("MG103 unused-buffer note:" in line for line in rendered(of, fail_on="note")) == 5


def test_notes_are_a_line_each_and_stand_together() -> None:
    notes = [
        finding(f"{n}", "MG506", Severity.NOTE, at(line=n), hint="h", related=(at(line=9),))
        for n in range(1, 6)
    ]
    other = finding("x", "MG503", Severity.NOTE)
    lines = rendered(report(finding(hint="mend it"), *notes, other))
    start = lines.index("kernel_0.cu:41:3: MG503 unused-kernel note: x")
    assert lines[start - 2 : start + 6] == [
        "  hint: mend it",
        "",
        "kernel_0.cu:41:3: MG503 unused-kernel note: x",
        "kernel_0.cu:1:3: MG506 disconnected-slot note: 1",
        "kernel_0.cu:2:3: MG506 disconnected-slot note: 2",
        "kernel_0.cu:3:3: MG506 disconnected-slot note: 3",
        "2 more notes (MG506 disconnected-slot): -v lists them",
        "",
    ]


def test_quiet_says_what_fails_and_the_verdict() -> None:
    of = report(
        finding(hint="hint", related=(at(line=1),)),
        finding("w", "MG104", Severity.WARNING),
        ranks=(rank(0), not_audited(1, "no graph")),
    )
    lines = rendered(of, verbosity=-1)
    assert lines[:-1] == [
        "rank 1 (kernel_1.cu): NOT AUDITED: no graph",
        "",
        "kernel_0.cu:41:3: MG101 unwired-critical-tensor error: "
        "rope_cos is declared and no task reads it (rank 0)",
        "",
    ]
    assert len(rendered(of, verbosity=-1, fail_on="warning")) == 6
    assert len(rendered(of, verbosity=-1, fail_on="never")) == 3


def test_the_order_does_not_depend_on_the_findings_order() -> None:
    findings = (*hostile(), finding("w", "MG104", Severity.WARNING), finding())
    assert rendered(report(*findings)) == rendered(report(*reversed(findings)))


def test_colors_only_if_allowed() -> None:
    of = report(finding(), ranks=(rank(0, coverage("a", 1, critical=True)),))
    colored = text.render(of, Context(root="/", color=True))
    bare = text.render(of, Context(root="/"))
    assert "\x1b[" not in bare
    assert re.sub(r"\x1b\[\d+m", "", colored) == bare != colored


def test_hostile_names_are_shown_harmlessly() -> None:
    tensors = tuple(coverage(name, critical=True) for name in HOSTILE_NAMES)
    dead = tuple(coverage(name, kind="scratch") for name in HOSTILE_NAMES)
    paths = tuple(
        finding(f"in file {number}", location=at(f"{name}.cu"))
        for number, name in enumerate(HOSTILE_NAMES)
    )
    of = report(
        *hostile(), *paths, ranks=(rank(0, *tensors, *dead), not_audited(1, HOSTILE_NAMES[2]))
    )
    lines = rendered(of, verbosity=1)
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) < 200_000
    assert not any(line.lstrip().startswith("::") for line in lines)
    # One line per critical tensor, five per finding with a name: no name adds a line.
    assert sum(line.startswith("[MISSING-WIRING]") for line in lines) == len(HOSTILE_NAMES)
    assert sum("MG101 unwired-critical-tensor error:" in line for line in lines) == 2 * len(
        HOSTILE_NAMES
    )
    told = "\n".join(lines)
    for shown in (r"\x1b[2J\x1b]0;title\x07\x9b31m", r"\u202egnp.cu\u2066", r"\ud800", "<script>"):
        assert shown in told
    assert "x" * 300 not in told
    told.encode()


def test_shortening_keeps_both_ends() -> None:
    assert shorten("abcdefghij" * 3, 12) == "abcdefgh...(18 characters)...ghij"
    assert shorten("short", 12) == "short"
    assert len(plain("x" * 10_000)) < 300
    assert plain("see " + "x" * 10_000 + " there").endswith(" there")


def test_visible_leaves_what_prints_alone() -> None:
    assert visible("naïve 😀 \\ [x]") == "naïve 😀 \\ [x]"
    assert visible("a\nb\tc\rd") == r"a\nb\tc\rd"
    assert visible("\x00\x85\u2029\U000e0041") == r"\x00\x85\u2029\U000e0041"


def test_paths_are_shown_from_the_root(tmp_path: Path) -> None:
    inside, outside = str(tmp_path / "a" / "kernel_0.cu"), "../elsewhere/kernel_0.cu"
    of = report(finding(location=at(inside)), finding("b", location=at(outside)))
    lines = text.render(of, Context(root=str(tmp_path))).splitlines()
    assert [line.split(":")[0] for line in lines if ": MG101 " in line] == [
        outside,
        "a/kernel_0.cu",
    ]


def test_costs_no_slow_import() -> None:
    program = (
        "import sys; from mirage_gate.reports import load; load('text'); "
        "slow = ('mirage_gate.reports._sarif_log', 'jsonschema', 'click'); "
        "print([name for name in slow if name in sys.modules])"
    )
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "[]"

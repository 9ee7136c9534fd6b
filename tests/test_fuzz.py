"""A short slice of the fuzzing, and what longer runs found.

The long runs are `python -m tests.fuzz`; see tests/fuzz.
"""

from __future__ import annotations

import random

import pytest

from mirage_gate import audit
from tests.emitter import qwen3
from tests.fuzz.inputs import damaged, seeds
from tests.fuzz.readers import READERS, InAFile


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_damaged_inputs(name: str) -> None:
    kind, read = READERS[name]
    rng = random.Random(f"slice {name}")  # noqa: S311 - to be repeated
    for _ in range(60):
        read(damaged(kind, rng))


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_good_inputs(name: str) -> None:
    """Or the damaged ones would be refused for what is wrong with all of them."""
    kind, read = READERS[name]
    (read.take if isinstance(read, InAFile) else read)(seeds(kind)[0])


FOUND = {
    "blanks between a condition's brackets": (
        "cuda",
        b"  if (task_desc->task_type == TASK_A" + b" " * 200_000 + b"x",
    ),
    "blanks before a copy's place": ("cuda", b"cudaMemcpy2DAsync(" + b" " * 200_000 + b"x"),
    "blanks after a copy's offset": (
        "cuda",
        b"char *a; cudaMemcpy2DAsync(a + 1" + b" " * 200_000 + b"x",
    ),
    "a loader's field that is no name": (
        "cuda-audit",
        b'void *a; all_tensors["a"] = a; json task; task.at("request\x00\\"id");',
    ),
    "no layer in any name": ("cuda-audit", b'void *a; all_tensors["a"] = a;'),
    "a codec that is none of text": ("builder", b"# coding: rot13\n"),
    "a codec that is not there": ("builder", b"# coding: nothing-of-the-kind\n"),
    "a report of brackets": ("baseline", b"[" * 100_000),
    "a lock of brackets": ("lock", b'{"version": ' + b"[" * 100_000),
    "a summary of brackets": ("summary", b'{"ranks": ' + b"[" * 100_000),
    "a graph of brackets": ("graph-audit", b"[" * 1_000_000),
    "a graph of objects": ("graph-audit", b'{"a":' * 1_000_000),
    "a graph of one long line": ("graph-audit", b'{"all_tasks": "' + b"x" * 2_000_000 + b'"}'),
    "a graph of blanks": ("graph-audit", b" " * 20_000_000),
    "a long integer": (
        "graph-audit",
        b'{"all_events": [], "first_tasks": [' + b"9" * 200_000 + b"]}",
    ),
    "an integer of many digits in the settings": ("config", b"workers = " + b"9" * 5_000),
    "settings of brackets": ("config", b"paths = " + b"[" * 5_000),
    "a lone surrogate": (
        "graph-audit",
        b'{"all_events": "\\ud800", "all_tasks": [], "first_tasks": []}',
    ),
}


@pytest.mark.parametrize("what", FOUND)
def test_what_was_found_stays_mended(what: str) -> None:
    name, data = FOUND[what]
    READERS[name][1](data)


_LOOP = b'for i in x:\n    m.attach_input(w, name=f"l_{i}_q")\n'
_HELPER = b"def f(x):\n    m.attach_input(w, name=x)\n"


@pytest.mark.parametrize(
    "text",
    [
        b"x = [" + b'"a",' * 2000 + b"]\n" + _LOOP * 2000,
        _LOOP * 4000 + b'x = "a"\n' * 4000,
        _HELPER * 2000 + b'f("a")\n' * 2000,
        b"x.a = x.a + x.a\n" * 2000 + b"m.attach_input(w, name=x.a)\n" * 2000,
    ],
    ids=["loops over a long list", "many values", "many helpers of one name", "attributes"],
)
def test_the_builder_reader_comes_to_an_end(text: bytes) -> None:
    """Names times values, and helpers times callers, would be at it for minutes."""
    READERS["builder"][1](text)


def test_tiles_that_have_nothing_in_common_are_given_up_on() -> None:
    """They took minutes and gigabytes once: as many cells as the tiles' cuts multiply to."""
    pair = qwen3(1).sized(silu_tiles=300, gateup_tiles=600, intermediate=2400).emit()
    rng = random.Random("tiles")  # noqa: S311 - to be repeated
    for task in pair.tasks(118):
        row, column, rows, columns = (rng.randrange(1, 1000) for _ in range(4))
        task["inputs"][0] |= {
            "offset": 2 * (4096 * row + column),
            "dims": [rows, columns],
            "strides": [4096, 1],
        }
    report = audit(pair.cuda_text(), pair.json_text())
    assert {"MG202", "MG208"} <= {finding.rule for finding in report.findings}

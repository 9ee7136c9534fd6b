"""Graphs of any size, as MPK would write them, from the tests' own emitter.

Run without arguments it lists them. A name and a folder write that graph into the folder:
``python benchmarks/graphs.py deepseek-tp8 /tmp/graph``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.shapes import SHAPES  # noqa: E402
from tests.emitter import DEEPSEEK_V3, QWEN3, Model, deepseek_v3, qwen3  # noqa: E402

SCHEMA_ERRORS = 1000
_GATHERS = re.compile(rb'("task_type": 278,\n      "trigger_event": )\d+')


def tp8(layers: int = 61) -> Model:
    """DeepSeek-V3 on eight ranks."""
    return deepseek_v3(layers, ranks=8).sized(**DEEPSEEK_V3["TP8"])


def small(folder: Path) -> None:
    """Qwen3-0.6B, 4 layers: 1.4 MB."""
    qwen3(4).sized(**QWEN3["0.6B"]).write(folder)


def big(folder: Path) -> None:
    """DeepSeek-V3, 61 layers, one rank of eight: 164 thousand tasks, 243 MB."""
    tp8().write(folder, ranks=[0])


def huge(folder: Path) -> None:
    """The same as big as with chunked prefill: 757 thousand tasks, 859 MB."""
    tp8().sized(reduce_requests=42).write(folder, ranks=[0])


def findings(folder: Path) -> None:
    """Two ranks of the same, 490 MB, where no KV gather makes anybody wait: in every layer."""
    tp8().write(folder, ranks=[0, 1])
    for rank, path in enumerate(sorted(folder.glob("task_graph_*.json"))):
        text = path.read_bytes()
        end = rank << 32 | text.count(b'"event_type"') - 1
        path.write_bytes(_GATHERS.sub(rb"\g<1>%d" % end, text))


def middle(folder: Path) -> None:
    """Qwen3-8B, 36 layers: 14 thousand tasks, 16 MB."""
    qwen3(36).sized(**QWEN3["8B"]).write(folder)


def ranks(folder: Path) -> None:
    """DeepSeek-V3, all eight ranks: 2 GB."""
    tp8().write(folder)


def broken(folder: Path) -> None:
    """Qwen3-8B, 36 layers, 16 MB, with a thousand schema errors."""
    middle(folder)
    graph = folder / "task_graph_0.json"
    text = graph.read_text(encoding="ascii")
    graph.write_text(re.sub(r'"variant_id": 0\b', '"variant_id": -1', text, count=SCHEMA_ERRORS))


GRAPHS: dict[str, Callable[[Path], None]] = {
    "qwen3-4-layers": small,
    "qwen3-36-layers": middle,
    "deepseek-tp8": big,
    "deepseek-findings": findings,
    "chunked-prefill": huge,
    "eight-ranks": ranks,
    "schema-errors": broken,
}


def write(name: str, folder: Path) -> None:
    """Write the graph of that name, unless the folder is there already."""
    if folder.exists():
        return
    part = folder.with_name(folder.name + ".part")
    part.mkdir(parents=True, exist_ok=True)
    shape, _, size = name.rpartition("-")
    if shape == "layers" and size.isdecimal():
        tp8(int(size)).write(part, ranks=[0])
    elif shape in SHAPES:
        SHAPES[shape](int(size)).write(part)
    else:
        GRAPHS[name](part)
    part.rename(folder)


def main(arguments: list[str]) -> int:
    """Write one graph, or list them."""
    if len(arguments) == 2:
        write(arguments[0], Path(arguments[1]))
        return 0
    for name, make in GRAPHS.items():
        print(f"{name:<18}{make.__doc__}")
    print(f"{'layers-N':<18}DeepSeek-V3 with N layers, one rank of eight.")
    for name, shape in SHAPES.items():
        print(f"{f'{name}-N':<18}{shape.__doc__}")
    return 0 if not arguments else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

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

from tests.emitter import DEEPSEEK_V3, QWEN3, Model, deepseek_v3, qwen3  # noqa: E402

SCHEMA_ERRORS = 1000


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


def ranks(folder: Path) -> None:
    """DeepSeek-V3, all eight ranks: 2 GB."""
    tp8().write(folder)


def broken(folder: Path) -> None:
    """Qwen3-8B, 36 layers, 16 MB, with a thousand schema errors."""
    _, graph = qwen3(36).sized(**QWEN3["8B"]).write(folder)[:2]
    text = graph.read_text(encoding="ascii")
    graph.write_text(re.sub(r'"variant_id": 0\b', '"variant_id": -1', text, count=SCHEMA_ERRORS))


GRAPHS: dict[str, Callable[[Path], None]] = {
    "qwen3-4-layers": small,
    "deepseek-tp8": big,
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
    if layers := re.fullmatch(r"layers-(\d+)", name):
        tp8(int(layers[1])).write(part, ranks=[0])
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
    return 0 if not arguments else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

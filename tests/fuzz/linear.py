"""Time against size: twice as much of anything may take about twice as long, never four times."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from .inputs import CUDA_PIECES, JSON_PIECES, PYTHON_PIECES
from .readers import READERS

__all__ = ["cases", "measure", "worst"]

_MORE_CUDA = (
    b"(",
    b"[",
    b"([{}",
    b"{(}\n",
    b"#define X (\n",
    b"#if A\n(\n#else\n[\n#endif\n",
    b'all_tensors["a"] = a;\n',
    b"void *a;\ncudaMalloc(&a, 1);\n",
    b"/* ",
    b"// \\\n",
    b'"\\\n',
    b"#if 0\n#endif\n",
    b"#if 0\n#if 1\n",
    b'R"(',
    b'R"aaaaaaaaaaaaaaaa',
    b"cudaMemcpy2DAsync( ",
    b"cudaMemcpy2DAsync(reinterpret_cast < void * > ( a + 1 ) , 1 , ",
    b"task_desc -> ",
    b"task_desc->task_type == A && task_desc->variant_id == 0 ",
    b"all_tensors [ ",
    b" ",
    b"\n",
    b"\t",
    b"char * ",
    b"char * a ;",
    b"a",
    b"1",
    b"'",
    b"/",
    b"*",
    b"\\",
    b"void * a = nvshmem_malloc ( 1 )",
    b"cudaMalloc ( & ",
    b"cudaMalloc((void**)&a, 1",
    b"task_desc->input_ptrs[0];",
    b"#",
    b"# if 0 \n",
    b'all_tensors["\x01"] = ',
    b"num_gpus = ",
    b'task.at("a")',
    b"\xff",
    b"\xe2\x80\xa8",
    b"}\n",
    b"char *a; cudaMemcpy2DAsync(reinterpret_cast<void *>(a + 0), 1, b, 1, 1, 1);",
    b'char *a; all_tensors["a"] = a;',
    b"TaskDesc(static_cast<TaskType>(1",
    b"_execute_task ",
)


def cases() -> Iterator[tuple[str, str, bytes]]:
    """(reader, what, piece) to repeat."""
    for piece in dict.fromkeys((*CUDA_PIECES, *_MORE_CUDA)):
        yield "cuda", repr(piece), piece
        yield "header", repr(piece), piece
    for piece in JSON_PIECES:
        yield "graph-audit", repr(piece), piece
    for piece in PYTHON_PIECES:
        if "builder" in READERS:
            yield "builder", repr(piece), piece


def measure(reader: Callable[[bytes], None], piece: bytes, times: int) -> float:
    """Seconds for so many repetitions; the better of two."""
    data = piece * times
    best = float("inf")
    for _ in range(2):
        started = time.process_time()
        with contextlib.suppress(Exception):  # what it may raise is for `readers` to say
            reader(data)
        best = min(best, time.process_time() - started)
    return best


def worst(size: int) -> list[tuple[float, float, str, str]]:
    """(ratio, seconds, reader, piece) for about `size` bytes of each piece, the worst first."""
    found = []
    for name, what, piece in cases():
        reader = READERS[name][1]
        times = max(size // len(piece), 2)
        one, two = measure(reader, piece, times // 2), measure(reader, piece, times)
        found.append((two / max(one, 1e-3), two, name, what))
    return sorted(found, reverse=True)

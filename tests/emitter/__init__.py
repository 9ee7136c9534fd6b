"""A readable model of what Mirage Persistent Kernel emits: pairs of `.cu` and task graph, made up.

    from tests.emitter import qwen3

    pair = qwen3(layers=4).without_rope(layer=2).emit()
    pair.write(tmp_path)                       # kernel_0.cu, task_graph_0.json
    pair.graph["all_tasks"][7]["inputs"] = []  # plain dicts: break what you like, then
    pair.json_text(), pair.cuda_text()

`tasks` knows the kinds of task, `graph` how operators become tasks and events, `cuda` the text of
a `.cu`, `pair` the two files of a rank, `model` the fluent value, `operators`, `qwen` and
`deepseek` the families. `invariants` checks a pair by brute force and shares no code with the rest.
"""

from .cuda import (
    CURRENT,
    EMBEDDED,
    LITERAL,
    OLD,
    Branch,
    Declaration,
    Dialect,
    runtime_header,
)
from .deepseek import DEEPSEEK_V3, deepseek_v3
from .model import Model
from .pair import FileNames, Pair
from .qwen import QWEN3, qwen3, qwen3_ampere, qwen3_moe
from .steps import reordered, shared, together, with_step, without_block

__all__ = [
    "CURRENT",
    "DEEPSEEK_V3",
    "EMBEDDED",
    "LITERAL",
    "OLD",
    "QWEN3",
    "Branch",
    "Declaration",
    "Dialect",
    "FileNames",
    "Model",
    "Pair",
    "deepseek_v3",
    "qwen3",
    "qwen3_ampere",
    "qwen3_moe",
    "reordered",
    "runtime_header",
    "shared",
    "together",
    "with_step",
    "without_block",
]

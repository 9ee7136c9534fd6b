"""MG106 undeclared-tensor."""

from __future__ import annotations

from tests.emitter import Pair, qwen3
from tests.rules import Path, fires, silent


def _first_use_of_mlp_out(pair: Pair) -> Path:
    for i, task in enumerate(pair.graph["all_tasks"]):
        for side in ("inputs", "outputs"):
            for j, tensor in enumerate(task[side] or []):
                if tensor["base_ptr"] == "mlp_out":
                    return ("all_tasks", i, side, j, "base_ptr")
    raise AssertionError("mlp_out is not used")


@fires("MG106", graph=_first_use_of_mlp_out, says=("mlp_out", "declared nowhere"))
def test_a_declaration_is_gone() -> Pair:
    pair = qwen3(2).emit()
    pair.declarations = [d for d in pair.declarations if d.name != "mlp_out"]
    return pair


@fires("MG106", graph=("all_tasks", 2, "inputs", 1, "base_ptr"), says=("not of one build",))
def test_most_declarations_are_of_another_build() -> Pair:
    pair = qwen3(4).emit()
    pair.declarations = pair.declarations[:6]
    return pair


@silent("MG106")
def test_every_name_is_declared() -> Pair:
    return qwen3(2).without_rope(layer=1).emit()

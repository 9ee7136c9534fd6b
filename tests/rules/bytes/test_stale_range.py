"""MG210 stale-range."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Declaration, Pair, qwen3
from tests.rules import fires, silent
from tests.rules.bytes._shared import tiles_of

NORM = 154
PROJECTION = 155
RESIDUAL = 156


def _second_projection(pair: Pair) -> list[int]:
    """The tasks that fill `attn_in` in layer 1."""
    return [
        i
        for i, task in enumerate(pair.graph["all_tasks"])
        if task["task_type"] == PROJECTION
        and task["inputs"][1]["base_ptr"].startswith("layer_1")
        and task["outputs"][0]["base_ptr"] == "attn_in"
    ]


@fires(
    "MG210",
    Severity.WARNING,
    graph=lambda pair: ("all_tasks", _second_projection(pair)[0], "outputs", 0, "offset"),
    says=("of attn_in", "as they were read before"),
)
def test_a_tile_of_the_second_projection_goes_elsewhere() -> Pair:
    pair = qwen3(2).emit()
    last = pair.graph["all_tasks"][_second_projection(pair)[-1]]
    last["outputs"][0]["base_ptr"] = "spare"
    pair.declarations.insert(0, Declaration("spare"))
    return pair


@fires(
    "MG210",
    Severity.WARNING,
    graph=lambda pair: ("all_tasks", _second_projection(pair)[0], "outputs", 0, "offset"),
    says=("of attn_in",),
)
def test_two_of_its_tiles_go_elsewhere() -> Pair:
    pair = qwen3(2).emit()
    for number in _second_projection(pair)[1:3]:
        pair.graph["all_tasks"][number]["outputs"][0]["base_ptr"] = "spare"
    pair.declarations.insert(0, Declaration("spare"))
    return pair


@silent("MG210")
def test_a_tile_of_the_second_projection_is_another_kernels() -> Pair:
    pair = qwen3(2).emit()
    pair.graph["all_tasks"][_second_projection(pair)[-1]]["variant_id"] = 9
    return pair


@silent("MG210")
def test_a_tile_that_is_left_out_in_every_layer() -> Pair:
    pair = qwen3(2).emit()
    offset = tiles_of(pair, PROJECTION, "outputs", 0, "attn_in")[-1]["offset"]
    for tile in tiles_of(pair, PROJECTION, "outputs", 0, "attn_in"):
        if tile["offset"] == offset:
            tile["base_ptr"] = "spare"
    pair.declarations.insert(0, Declaration("spare"))
    return pair


@silent("MG210")
def test_a_kernel_that_fills_one_half_before_it_is_read_and_the_other_after() -> Pair:
    """What was read is not what the second run leaves out: no run of the kernel fills both."""
    pair = qwen3(2).emit()
    projections = tiles_of(pair, RESIDUAL, "outputs", 0, "attn_proj_out")
    for tile in projections[len(projections) // 2 :]:
        tile["offset"] += 2 * 4 * 128
    readers = tiles_of(pair, NORM, "inputs", 0, "attn_proj_out")
    assert readers
    for tile in readers[len(readers) // 2 :]:
        tile |= {"offset": 0, "dims": [8, 128]}
    return pair

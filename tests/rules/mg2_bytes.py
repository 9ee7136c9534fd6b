"""MG2: bytes and tiles."""

from __future__ import annotations

from typing import Any

from mirage_gate.findings import Severity
from tests.emitter import Declaration, Pair, deepseek_v3, qwen3, qwen3_ampere, qwen3_moe
from tests.rules import Path, fires, silent

NORM, PROJECTION, ATTENTION, RESIDUAL, SILU = 154, 155, 153, 156, 118


def _operator(pair: Pair, task_type: int, side: str, slot: int, tensor: str) -> list[Any]:
    """The tensors that the tasks of a type carry in one slot, those named ``tensor``."""
    return [
        task[side][slot]
        for task in pair.tasks(task_type)
        if len(task[side] or []) > slot and task[side][slot]["base_ptr"] == tensor
    ]


def _first(task_type: int, side: str, slot: int, tensor: str, field: str, last: bool = False):  # type: ignore[no-untyped-def]
    """Where a field of the first (or last) such slot stands."""

    def path(pair: Pair) -> Path:
        tasks = [
            i
            for i, task in enumerate(pair.graph["all_tasks"])
            if task["task_type"] == task_type
            and len(task[side] or []) > slot
            and task[side][slot]["base_ptr"] == tensor
        ]
        return ("all_tasks", tasks[-1 if last else 0], side, slot, field)

    return path


@fires(
    "MG201",
    graph=_first(ATTENTION, "inputs", 0, "attn_in", "offset"),
    says=("of attn_in", "written by none"),
)
def one_tile_of_a_projection_is_written_over_its_sibling() -> Pair:
    pair = qwen3(1).emit()
    tiles = _operator(pair, PROJECTION, "outputs", 0, "attn_in")
    tiles[0]["offset"] = tiles[1]["offset"]
    return pair


@silent("MG201")
def every_tile_of_a_projection_is_written() -> Pair:
    return qwen3(2).emit()


@silent("MG201")
def a_cache_nobody_fills_before_it_is_read() -> Pair:
    return deepseek_v3(2).emit()


@fires(
    "MG202",
    graph=_first(SILU, "outputs", 0, "silu_mul_out", "offset", last=True),
    says=("past the end of silu_mul_out",),
)
def a_tile_moved_past_its_allocation() -> Pair:
    pair = qwen3(1).emit()
    last = _operator(pair, SILU, "outputs", 0, "silu_mul_out")[-1]
    last["offset"] += 2
    return pair


@silent("MG202")
def a_tile_up_to_the_last_byte() -> Pair:
    return qwen3_moe(3).emit()


@silent("MG202")
def a_remote_write_past_the_local_buffer() -> Pair:
    return qwen3(2, ranks=4, collective="allgather").emit(rank=3)


@fires("MG203", cuda='all_tensors["layer_0_qkv_proj"]', says=("read by no task",))
def rows_of_a_shuffled_weight_are_read_twice_and_their_neighbours_never() -> Pair:
    pair = qwen3(1).emit()
    tiles = _operator(pair, PROJECTION, "inputs", 1, "layer_0_qkv_proj")
    tiles[-1]["offset"] = tiles[0]["offset"]
    return pair


@fires("MG203", cuda='all_tensors["layer_1_o_proj"]', says=("in the other layers",))
def the_last_rows_of_a_host_weight_are_read_by_none_in_one_layer() -> Pair:
    pair = qwen3(4).emit()
    tiles = _operator(pair, RESIDUAL, "inputs", 1, "layer_1_o_proj")
    tiles[-1]["offset"] = tiles[0]["offset"]
    return pair


@fires("MG203", cuda='all_tensors["layer_0_o_proj"]')
def rows_in_the_middle_of_a_host_weight_are_read_by_none() -> Pair:
    pair = qwen3(1).emit()
    tiles = _operator(pair, RESIDUAL, "inputs", 1, "layer_0_o_proj")
    tiles[1]["offset"] = tiles[0]["offset"]
    return pair


@silent("MG203")
def a_layer_with_a_smaller_weight_and_fewer_tasks() -> Pair:
    pair = qwen3(4).emit()
    tasks = [t for t in pair.tasks(RESIDUAL) if t["inputs"][1]["base_ptr"] == "layer_1_o_proj"]
    tasks[-1]["inputs"][1]["base_ptr"] = "layer_1_o_proj_rest"
    pair.declarations.insert(0, Declaration("layer_1_o_proj_rest"))
    return pair


@silent("MG203")
def a_weight_in_column_major_order() -> Pair:
    return deepseek_v3(2).emit()


@silent("MG203")
def a_buffer_that_split_kv_only_partly_touches() -> Pair:
    return qwen3(2, split_kv=True).emit()


def _shuffled(change: str) -> Pair:
    pair = qwen3_ampere(2, shuffled=(1,)).emit()
    copies = pair.declaration("layer_1_gatedup_proj").copies
    changed = copies[1]
    for field, value in _COPY[change](changed).items():
        object.__setattr__(changed, field, value)
    return pair


_COPY: dict[str, Any] = {
    "short": lambda copy: {"width": copy.width - 256},
    "moved": lambda copy: {"offset": copy.offset - 256},
}


@fires("MG204", cuda='all_tensors["layer_1_gatedup_proj"]', says=("filled by no copy",))
def a_copy_that_is_too_short() -> Pair:
    return _shuffled("short")


@fires("MG204", cuda='all_tensors["layer_1_gatedup_proj"]', says=("filled twice",))
def a_copy_over_the_one_before() -> Pair:
    return _shuffled("moved")


@silent("MG204")
def copies_that_interleave_rows() -> Pair:
    return qwen3(2).emit()


@fires("MG205", graph=_first(SILU, "inputs", 0, "mlp_mid", "offset"), says=("2 bytes",))
def an_offset_of_half_an_element() -> Pair:
    pair = qwen3(1).emit()
    _operator(pair, SILU, "inputs", 0, "mlp_mid")[0]["offset"] += 1
    return pair


@fires(
    "MG205",
    Severity.WARNING,
    graph=_first(PROJECTION, "inputs", 1, "layer_0_qkv_proj", "offset"),
    says=("TMA", "16 bytes"),
)
def a_tma_tile_that_is_aligned_to_its_element_only() -> Pair:
    pair = qwen3(1).emit()
    _operator(pair, PROJECTION, "inputs", 1, "layer_0_qkv_proj")[0]["offset"] += 2
    return pair


@silent("MG205")
def a_tile_read_by_pointer_needs_no_sixteen_bytes() -> Pair:
    return qwen3(1).emit()


@fires(
    "MG206",
    Severity.WARNING,
    graph=_first(SILU, "inputs", 0, "mlp_mid", "data_type"),
    says=("float32",),
)
def a_reader_that_takes_bfloat16_for_float32() -> Pair:
    pair = qwen3(1).emit()
    tile = _operator(pair, SILU, "inputs", 0, "mlp_mid")[0]
    tile["data_type"] = 950
    tile["dims"][-1] //= 2
    return pair


@silent("MG206")
def float16_and_bfloat16_are_of_one_size() -> Pair:
    pair = qwen3(1).emit()
    _operator(pair, SILU, "inputs", 0, "mlp_mid")[0]["data_type"] = 940
    return pair


@fires(
    "MG207",
    Severity.ERROR,
    graph=_first(PROJECTION, "inputs", 1, "lm_head", "offset", last=True),
    says=("lm_head", "read more than once", "write different tiles"),
)
def the_last_tile_of_the_head_is_read_from_the_one_before() -> Pair:
    pair = qwen3(2).sized(lm_tiles=8).emit()
    tiles = _operator(pair, PROJECTION, "inputs", 1, "lm_head")
    tiles[-1]["offset"] = tiles[-2]["offset"]
    return pair


SUM = 261


@fires(
    "MG207",
    Severity.WARNING,
    graph=_first(SUM, "inputs", 2, "attn_proj_out", "offset", last=True),
    says=("attn_proj_out", "read more than once", "2 tiles in all"),
)
def both_tasks_of_the_last_layer_read_one_half_of_the_residual() -> Pair:
    """In the layer alone it might be meant; in the other layers each task has a half."""
    pair = qwen3_moe(3).emit()
    tiles = _operator(pair, SUM, "inputs", 2, "attn_proj_out")
    tiles[-1]["offset"] = tiles[-2]["offset"]
    return pair


@silent("MG207")
def a_residual_that_every_layer_reads_one_half_of() -> Pair:
    pair = qwen3_moe(3).emit()
    for tile in _operator(pair, SUM, "inputs", 2, "attn_proj_out"):
        tile["offset"] = 0
    return pair


@silent("MG207")
def an_operator_whose_tasks_all_read_the_same() -> Pair:
    return qwen3(3).emit()


@silent("MG207")
def split_k_style_tiles_over_two_axes() -> Pair:
    return qwen3_moe(3).emit()


@fires("MG208", Severity.WARNING, graph=_first(SILU, "inputs", 0, "mlp_mid", "strides"))
def dims_that_no_memory_could_hold() -> Pair:
    pair = qwen3(1).emit()
    for i, tile in enumerate(_operator(pair, SILU, "inputs", 0, "mlp_mid")):
        tile["dims"], tile["strides"] = [2**31 - 1, 2**31 - 1], [3 + 2 * i, 5]
    return pair


def _of_a_new_type(pair: Pair) -> Pair:
    """Every bfloat16 has a code that the gate does not know."""
    for task in pair.graph["all_tasks"]:
        for tensor in (*(task["inputs"] or ()), *(task["outputs"] or ())):
            if tensor["data_type"] == 941:
                tensor["data_type"] = 942
    return pair


@fires(
    "MG208",
    Severity.WARNING,
    graph=("all_tasks", 2, "inputs", 1, "data_type"),
    says=("data type 942 has no known size", "more tensors"),
)
def a_data_type_that_no_table_knows() -> Pair:
    return _of_a_new_type(qwen3(2).emit())


@silent("MG203")
def shuffled_weights_of_a_data_type_that_no_table_knows() -> Pair:
    return _of_a_new_type(qwen3(2).emit())


@silent("MG208")
def three_thousand_rows() -> Pair:
    pair = qwen3(1).emit()
    for tile in _operator(pair, SILU, "inputs", 0, "mlp_mid"):
        tile["dims"], tile["strides"] = [3000, 2], [6, 1]
    return pair


@fires(
    "MG209", Severity.WARNING, graph=_first(SILU, "inputs", 0, "mlp_mid", "strides"), says=("768",)
)
def one_task_that_walks_rows_of_half_the_length() -> Pair:
    pair = qwen3(1).emit()
    tile = _operator(pair, SILU, "inputs", 0, "mlp_mid")[0]
    tile["strides"][0] //= 2
    return pair


@silent("MG209")
def a_kernel_that_views_a_buffer_under_another_shape() -> Pair:
    pair = qwen3(4).emit()
    for tile in _operator(pair, RESIDUAL, "inputs", 0, "attn_out"):
        rows, width = tile["dims"]
        tile["dims"], tile["strides"] = [2 * rows, width // 2], [width // 2, 1]
    return pair


@silent("MG209")
def rows_of_one_element_whose_stride_says_nothing() -> Pair:
    pair = qwen3(1).emit()
    _operator(pair, NORM, "inputs", 0, "embed_out")[0]["strides"][0] = 8
    return pair


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
def a_tile_of_the_second_projection_goes_elsewhere() -> Pair:
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
def two_of_its_tiles_go_elsewhere() -> Pair:
    pair = qwen3(2).emit()
    for number in _second_projection(pair)[1:3]:
        pair.graph["all_tasks"][number]["outputs"][0]["base_ptr"] = "spare"
    pair.declarations.insert(0, Declaration("spare"))
    return pair


@silent("MG210")
def a_tile_of_the_second_projection_is_another_kernels() -> Pair:
    pair = qwen3(2).emit()
    pair.graph["all_tasks"][_second_projection(pair)[-1]]["variant_id"] = 9
    return pair


@silent("MG210")
def a_tile_that_is_left_out_in_every_layer() -> Pair:
    pair = qwen3(2).emit()
    offset = _operator(pair, PROJECTION, "outputs", 0, "attn_in")[-1]["offset"]
    for tile in _operator(pair, PROJECTION, "outputs", 0, "attn_in"):
        if tile["offset"] == offset:
            tile["base_ptr"] = "spare"
    pair.declarations.insert(0, Declaration("spare"))
    return pair


@silent("MG210")
def a_kernel_that_fills_one_half_before_it_is_read_and_the_other_after() -> Pair:
    """What was read is not what the second run leaves out: no run of the kernel fills both."""
    pair = qwen3(2).emit()
    projections = _operator(pair, RESIDUAL, "outputs", 0, "attn_proj_out")
    for tile in projections[len(projections) // 2 :]:
        tile["offset"] += 2 * 4 * 128
    readers = _operator(pair, NORM, "inputs", 0, "attn_proj_out")
    assert readers
    for tile in readers[len(readers) // 2 :]:
        tile |= {"offset": 0, "dims": [8, 128]}
    return pair

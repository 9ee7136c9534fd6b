"""The call in a dispatch body: a device function, the constants it is compiled with, its arguments.

`tasks.py` says which slots a body hands on, in order; here is what stands around them. A form is
the call as MPK's task register writes it, with a `$` for each of those words. Sizes and strides are
those of the operator's tiles. A kind that has no form gets a call that is made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Compiled", "Tile", "statement"]

Ints = tuple[int, ...]
_TOKENS = "$[MPK_MAX_NUM_BATCHED_REQUESTS]"


@dataclass(frozen=True)
class Tile:
    """What one block sees of a tensor."""

    dims: Ints
    strides: Ints


@dataclass(frozen=True)
class Compiled:
    """What a variant is generated from: its tiles, and the operator's grid."""

    inputs: tuple[Tile | None, ...]
    outputs: tuple[Tile | None, ...]
    rank: int = 0
    ranks: int = 1
    grid: tuple[int, int, int] = (1, 1, 1)

    def input(self, slot: int) -> Tile:
        tile = self.inputs[slot]
        assert tile is not None
        return tile

    @property
    def output(self) -> Tile:
        tile = self.outputs[0]
        assert tile is not None
        return tile

    def has(self, slot: int) -> str:
        return "true" if slot < len(self.inputs) and self.inputs[slot] is not None else "false"


@dataclass(frozen=True)
class Form:
    """`before`: statements; `call`: the function with its template, then its arguments."""

    call: str
    arguments: str
    before: tuple[str, ...] = ()


def _sizes(c: Compiled) -> str:
    b, n = c.output.dims[-2:]
    k = c.input(0).dims[-1]
    return f"{b}, {n}, {k}"


def _tma(name: str, tile: Tile, rows: int = 64) -> str:
    height, width = tile.dims[-2:]
    stride = tile.strides[-2]
    return (
        f"using {name.upper()} = kernel::tma::tma_2d<bfloat16, 3, 3, 3, {height}, {width}, {rows}, "
        f"64, {stride}, 1, 1, 2, {rows * 64}, true>;"
    )


def _descriptor(name: str) -> str:
    return f"{name.upper()} {name}($);"


def _tensor(
    name: str, tile: Tile, element: str = "cute::bfloat16_t", null: bool = False
) -> tuple[str, str]:
    shape = ", ".join(map(str, tile.dims))
    strides = ", ".join("cute::Int<1>{}" if s == 1 else str(s) for s in tile.strides)
    pointer = "nullptr" if null else "$"
    return (
        f"cute::Layout layout_{name} = cute::make_layout(cute::make_shape({shape}), "
        f"cute::make_stride({strides}));",
        f"cute::Tensor m{name} = cute::make_tensor(cute::make_gmem_ptr("
        f"static_cast<{element}*>({pointer})), layout_{name});",
    )


def _embedding(c: Compiled, words: int) -> Form:
    b, d = c.output.dims
    first = "$ + $[0]" if words == 4 else "$"
    call = f"embedding_kernel<bfloat16, {b}, {d}, {c.output.strides[0]}>"
    return Form(call, f"{first}, $, $")


def _norm(name: str) -> Callable[[Compiled, int], Form]:
    def form(c: Compiled, words: int) -> Form:
        b, d = c.output.dims
        return Form(f"{name}<bfloat16, {b}, {d}>", "$, $, $, 1e-6f")

    return form


def _norm_linear(c: Compiled, words: int) -> Form:
    call = f"norm_linear_task_impl<bfloat16, {_sizes(c)}, {c.output.strides[0]}>"
    return Form(call, f"$, $, $, {_TOKENS}, 1e-6f, $")


def _linear(c: Compiled, words: int) -> Form:
    call = f"linear_kernel<bfloat16, {_sizes(c)}, {c.output.strides[0]}>"
    if words == 6:
        return Form(call, f"$, $, $, $, {_TOKENS}, $ == 0")
    return Form(call, f"$, $, nullptr, $, {_TOKENS}, false/*residual*/")


def _silu(c: Compiled, words: int) -> Form:
    x, y = c.input(0), c.output
    call = (
        f"silu_mul_task_impl<bfloat16, {y.dims[0]}, {y.dims[-1]}, {x.strides[-2]}, {y.strides[-2]}>"
    )
    return Form(call, f"$, $, {_TOKENS}" if words == 3 else "$, $, 1")


def _silu_linear(c: Compiled, words: int) -> Form:
    b, n = c.output.dims
    k = c.input(0).dims[1] // 2
    call = f"silu_mul_linear_task_impl<bfloat16, {b}, {n}, {k}, {c.output.strides[0]}>"
    return Form(call, "$, $, $, $, $ == 0" if words == 5 else "$, $, nullptr, $, false")


def _heads(c: Compiled) -> tuple[int, int, int, str]:
    """Query heads of a task, the cache's row, a head's length, and the two flags."""
    cache = c.input(1)
    length = cache.dims[-1]
    return c.output.dims[1] // length, cache.strides[1], length, f"{c.has(3)}, {c.has(5)}"


_NORMS = "$, $, $, $, 1e-6f, 1e-6f"


def _decoding(c: Compiled, words: int) -> Form:
    heads, row, length, flags = _heads(c)
    call = f"single_batch_decoding_kernel<bfloat16, {heads}, 1, {length}, {row}>"
    return Form(call, f"$, $, $, $, $[0] + 1, {flags}, {_NORMS}")


def _paged(name: str, tokens: bool) -> Callable[[Compiled, int], Form]:
    def form(c: Compiled, words: int) -> Form:
        heads, row, length, flags = _heads(c)
        qkv, out, page = c.input(0), c.output, c.input(1).dims[1]
        last = f", {qkv.dims[0]}" if tokens else ""
        call = (
            f"{name}<bfloat16, {heads}, 1, {row}, {qkv.strides[0]}, {out.strides[0]}, {length}, "
            f"512, {page}{last}>"
        )
        return Form(call, f"$, $, $, $, $, $, $, $, $, {flags}, {_NORMS}")

    return form


def _hopper_attention(c: Compiled, words: int) -> Form:
    cache, qkv = c.input(1), c.input(0)
    length, row = cache.dims[-1], cache.strides[1]
    split = len(c.outputs) == 2
    heads = qkv.dims[1] // length - 2
    out = f"{c.output.strides[0]}"
    partition = f"true, {c.grid[2]}" if split else "false, 1"
    call = (
        f"multitoken_paged_attention_hopper_impl<bfloat16, {heads}, 1, {row // length}, {row}, "
        f"{qkv.strides[0]}, {out}, {length}, -1, 512, {cache.dims[1]}, {qkv.dims[0]}, {partition}>"
    )
    flags = f"{c.has(3)}, {c.has(5)}"
    last = "$, $, $, $" if split else "$, $, nullptr, 0"
    return Form(call, f"$, $, $, $, $, $, $, {flags}, {_NORMS}, {last}")


def _merge(c: Compiled, words: int) -> Form:
    heads = c.output.dims[1]
    call = f"merge_splitkv<bfloat16, {heads}, 1, 8, 1, {c.output.dims[0]}, true, 16, 256, 4096>"
    return Form(call, "$, $, $, $, $, $, $, $")


def _swap_ab(c: Compiled, words: int) -> Form:
    b, n = c.output.dims
    k = c.input(0).dims[1]
    residual = words == 5
    before = [
        _tma("tma_b", c.input(0), 8),
        _tma("tma_a", c.input(1)),
        *([_tma("tma_residual", c.input(2), 8)] if residual else []),
        _tma("tma_out", c.output, 8),
        _descriptor("tma_a"),
        _descriptor("tma_b"),
        *([_descriptor("tma_residual")] if residual else []),
        _descriptor("tma_out"),
    ]
    kind = "TMA_RESIDUAL" if residual else "void"
    call = (
        f"linear_swapAB_kernel_hopper<bfloat16, {b}, {n}, {k}, 5, TMA_A, TMA_B, TMA_OUT, {kind}, "
        f"{c.output.strides[0]}, false>"
    )
    last = "&tma_residual, $ == 0" if residual else "nullptr, false/*residual*/"
    return Form(call, f"tma_a, tma_b, tma_out, {last}", tuple(before))


def _sm100(c: Compiled, words: int) -> Form:
    b, n = c.output.dims
    k = c.input(0).dims[1]
    residual = words == 4
    before = (
        _tma("tma_a", c.input(1), 128),
        _tma("tma_b", c.input(0), 16),
        _tma("tma_out", c.output, 16),
        *map(_descriptor, ("tma_a", "tma_b", "tma_out")),
        *_tensor("Bias", c.input(2) if residual else c.output, null=not residual),
    )
    call = (
        "linear_sm100_mpk_task_impl<cute::bfloat16_t, TMA_A, TMA_B, decltype(mBias), TMA_OUT, 128, "
        f"16, {b}, {n}, {k}, {'false' if residual else 'true'}, false, 8, 2, 4>"
    )
    return Form(call, "tma_a, tma_b, mBias, tma_out", before)


def _experts(c: Compiled, words: int) -> Form:
    x, w, routing = c.input(0), c.input(1), c.input(2)
    experts, n, k = w.dims
    b, top = c.output.dims[:2]
    first = "true" if len(x.dims) == 2 else "false"
    before = (
        _tma("tma_a", w, 128),
        _descriptor("tma_a"),
        *_tensor("Bias", Tile((b, n, experts), (n, 1, n)), null=True),
        *_tensor("RoutingIndices", routing, "cute::int32_t"),
        *_tensor("Mask", c.input(3), "cute::int32_t"),
        *_tensor("Output", c.output),
        *_tensor("Input", x),
    )
    types = ["mInput", "mBias", "mRoutingIndices", "mMask", "mOutput"]
    call = (
        "moe_linear_sm100_task_impl<cute::bfloat16_t, TMA_A, "
        f"{', '.join(f'decltype({name})' for name in types)}, 128, 16, {b}, {n}, "
        f"{c.output.strides[1]}, {k}, {experts}, {top}, {c.grid[0]}, {first}, true, 8, 2, 4>"
    )
    arguments = "tma_a, mInput, mBias, mRoutingIndices, mMask, mOutput, $"
    return Form(call, arguments, before)


def _fp8_experts(c: Compiled, words: int) -> Form:
    experts, n, k = c.input(2).dims
    b, top = c.output.dims[:2]
    first = "true" if len(c.input(0).dims) == 2 else "false"
    before = (
        _tma("tma_weight", c.input(2), 128),
        _descriptor("tma_weight"),
        *_tensor("Input", c.input(0), "uint8_t"),
        *_tensor("InputScale", c.input(1), "float"),
        *_tensor("WeightScale", c.input(3), "float"),
        *_tensor("RoutingIndices", c.input(4), "cute::int32_t"),
        *_tensor("Mask", c.input(5), "cute::int32_t"),
        *_tensor("Output", c.output),
    )
    names = ["mInput", "mInputScale", "mWeightScale", "mRoutingIndices", "mMask", "mOutput"]
    call = (
        "fp8_moe_group_gemm_sm100_task_impl<TMA_WEIGHT, "
        f"{', '.join(f'decltype({name})' for name in names)}, 128, 16, {b}, {n}, "
        f"{c.output.strides[1]}, {k}, {experts}, {top}, {c.grid[0]}, {first}, 8, 2, 4>"
    )
    return Form(call, f"tma_weight, {', '.join(names)}, $", before)


def _fp8_linear(c: Compiled, words: int) -> Form:
    b, n = c.output.dims
    k = c.input(0).dims[1]
    residual = "true" if len(c.inputs) == 5 and words == 6 else "false"
    call = (
        "linear_fp8_sm100_task_impl<cute::UMMA::Major::K, cute::UMMA::Major::K, 128, 128, "
        f"{b}, {n}, {k}, 32, 16, 128, 1, 128, 128, 32, 25, 128, 128, 1, false, 1, {residual}, "
        "mirage::blackwell::linear_fp8_sm100::GemmType::Normal, false, cutlass::float_e4m3_t, "
        "cutlass::float_e4m3_t, cutlass::bfloat16_t, "
        "mirage::blackwell::linear_fp8_sm100::EpilogueIdentity>"
    )
    maps = ["*reinterpret_cast<cute::TmaDescriptor const*>($)"] * words
    if words == 5:  # the residual is compiled out: the output's descriptor stands in its place
        maps.append("*reinterpret_cast<cute::TmaDescriptor const*>($again)")
    return Form(call, f"nullptr, {b}, {n}, {k}, {', '.join(maps)}")


def _argmax_partial(name: str) -> Callable[[Compiled, int], Form]:
    def form(c: Compiled, words: int) -> Form:
        b, chunk = c.input(0).dims
        call = f"{name}<bfloat16, {b}, {chunk}, {c.output.strides[0]}>"
        return Form(call, f"$, $, $, {_TOKENS}")

    return form


def _argmax_reduce(name: str) -> Callable[[Compiled, int], Form]:
    def form(c: Compiled, words: int) -> Form:
        b, parts = c.input(0).dims
        return Form(f"{name}<bfloat16, {b}, 1200, {parts}>", f"$, $, $, {_TOKENS}")

    return form


def _reduce(c: Compiled, words: int) -> Form:
    b, n = c.output.dims
    call = f"reduction_kernel<bfloat16, {c.ranks}, {c.rank}, {b}, {n}, {c.output.strides[0]}>"
    return Form(call, f"$, $, $, {_TOKENS}")


def _put(c: Compiled, words: int) -> Form:
    b, n = c.input(0).dims
    before = (
        "size_t event_index = get_event_position_index(task_desc->trigger_event);",
        "int target_gpu_id = static_cast<int>(get_event_gpu_id(task_desc->trigger_event));",
    )
    call = f"nvshmem_allgather_strided_put<bfloat16, {b}, {n}, {c.output.strides[-2]}>"
    arguments = f"$, $, &$[event_index], event_index, target_gpu_id, {_TOKENS}"
    return Form(call, arguments, before)


def _tile_allreduce(c: Compiled, words: int) -> Form:
    b, n = c.output.dims
    call = f"nvshmem_tile_allreduce<__nv_bfloat16, {b}, {n}, {c.output.strides[0]}>"
    return Form(call, f"$, $, $, $, {_TOKENS}")


def _softmax(c: Compiled, words: int) -> Form:
    b, experts = c.input(0).dims
    call = f"topk_softmax_task_impl<cute::bfloat16_t, 8, {experts}, 8, 16>"
    top = c.output.dims[1]
    return Form(call, f"$, nullptr, $, {b}, {top}, $, $, 0, {experts}, true")


def _sigmoid(c: Compiled, words: int) -> Form:
    b, experts = c.input(0).dims
    top = c.output.dims[1]
    call = f"topk_sigmoid_task_impl<cute::bfloat16_t, 8, {experts}, 8, 16, 8, 4, 32, {top}>"
    return Form(call, f"$, $, nullptr, $, {b}, $, $, 0, {experts}, 2.500000f")


def _mul_sum_add(c: Compiled, words: int) -> Form:
    b, n = c.output.dims
    top = c.input(0).dims[1]
    call = f"mul_sum_add_sm100_task_impl<cute::bfloat16_t, {b}, {n}, {top}, {c.output.strides[0]}>"
    return Form(call, "$, $, $, $")


def _add(c: Compiled, words: int) -> Form:
    b, n = c.output.dims
    call = f"elementwise_add_task_impl<cute::bfloat16_t, {b}, {n}, {c.output.strides[0]}>"
    return Form(call, "$, $, $")


def _quantize(c: Compiled, words: int) -> Form:
    *rows, hidden = c.input(0).dims
    height = 1
    for row in rows:
        height *= row
    call = (
        f"per_token_group_quantize_fp8_task_impl<{height}, {hidden}, 128, {hidden}, "
        "cute::bfloat16_t, __nv_fp8_e4m3, true>"
    )
    return Form(call, "$, $, $, 1e-10f, -448.0f, 448.0f, 4")


def _init(c: Compiled, words: int) -> Form:
    b, n = c.input(0).dims
    call = f"tensor_init_sm100_task_impl<cute::bfloat16_t, {b}, {n}, {c.input(0).strides[0]}>"
    return Form(call, "$, 0")


_FORMS: dict[str, Callable[[Compiled, int], Form]] = {
    "EMBEDDING": _embedding,
    "RMS_NORM_LINEAR": _norm_linear,
    "RMS_NORM": _norm("rms_norm_impl"),
    "RMS_NORM_HOPPER": _norm("rms_norm_hopper_impl"),
    "LINEAR": _linear,
    "LINEAR_WITH_RESIDUAL": _linear,
    "SILU_MUL": _silu,
    "SILU_MUL_LINEAR_WITH_RESIDUAL": _silu_linear,
    "ATTENTION_1": _decoding,
    "PAGED_ATTENTION_1": _paged("multitoken_paged_attention_task_impl", True),
    "ATTN_SM100": _paged("multitoken_paged_attention_sm100_task_impl", False),
    "PAGED_ATTENTION_HOPPER": _hopper_attention,
    "PAGED_ATTENTION_SPLIT_KV_HOPPER": _hopper_attention,
    "PAGED_ATTENTION_SPLIT_KV_MERGE_SM100": _merge,
    "LINEAR_SWAPAB_HOPPER": _swap_ab,
    "LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER": _swap_ab,
    "LINEAR_SM100": _sm100,
    "LINEAR_WITH_RESIDUAL_SM100": _sm100,
    "MOE_W13_LINEAR_SM100": _experts,
    "MOE_W2_LINEAR_SM100": _experts,
    "MOE_W13_FP8_SM100": _fp8_experts,
    "MOE_W2_FP8_SM100": _fp8_experts,
    "LINEAR_FP8_SM100": _fp8_linear,
    "LINEAR_FP8_WITH_RESIDUAL_SM100": _fp8_linear,
    "ARGMAX_PARTIAL": _argmax_partial("argmax_partial_kernel"),
    "ARGMAX_PARTIAL_SM100": _argmax_partial("argmax_partial_sm100_kernel"),
    "ARGMAX_REDUCE": _argmax_reduce("argmax_reduce_kernel"),
    "ARGMAX_REDUCE_SM100": _argmax_reduce("argmax_reduce_sm100_kernel"),
    "REDUCE": _reduce,
    "NVSHMEM_ALLGATHER_STRIDED_PUT": _put,
    "NVSHMEM_TILE_ALLREDUCE": _tile_allreduce,
    "MOE_TOPK_SOFTMAX_SM100": _softmax,
    "MOE_TOPK_SIGMOID_SM100": _sigmoid,
    "MOE_MUL_SUM_ADD_SM100": _mul_sum_add,
    "ELEMENTWISE_ADD_SM100": _add,
    "QUANTIZE_FP8_SM100": _quantize,
    "TENSOR_INIT": _init,
}


def statement(kind: str, compiled: Compiled | None, arguments: Sequence[str]) -> Iterator[str]:
    """The statements of a body whose words are written as `arguments`; none without a form."""
    make = _FORMS.get(kind)
    if make is None or compiled is None:
        return
    try:
        form = make(compiled, len(arguments))
    except (AssertionError, IndexError, ValueError):
        return  # a body or a tile that a test made up
    given = form.arguments.replace(", ", ",\n      ")
    text = "\n".join((*form.before, f"kernel::{form.call}(\n      {given});"))
    again = arguments[-1] if arguments else ""
    text = text.replace("$again", again)
    if text.count("$") != len(arguments):
        return
    for argument in arguments:
        text = text.replace("$", argument.replace("$", ""), 1)
    yield from (f"    {line}" for line in text.split("\n"))

"""What a dispatch body calls, with what; and which text is no body."""

from __future__ import annotations

import pytest

from mirage_gate.artifacts.cuda import Body, Branch, Expression, SlotName, parse

HEAD = """__device__ __forceinline__
void _execute_task(TaskDesc const* task_desc,
                   RuntimeConfig const &runtime_config) {
"""
FIRST = "task_desc->task_type == TASK_A && task_desc->variant_id == 0"
SECOND = "task_desc->task_type == TASK_B && task_desc->variant_id == 1"


def branches(body: str, condition: str = "") -> dict[tuple[str, int], Branch]:
    text = (
        f"{HEAD}  if ({FIRST}{condition}) {{\n{body}\n  }}\n  else if ({SECOND}) {{\n"
        "    kernel::g<4>(task_desc->input_ptrs[0]);\n  }\n}\n"
    )
    source = parse("k.cu", text)
    assert source.unclosed is None
    return source.dispatch


def body(text: str) -> Body:
    found = branches(text)["TASK_A", 0].body
    assert found is not None
    return found


def arguments(text: str) -> tuple[Expression, ...]:
    (call,) = body(text).calls
    return call.arguments


def test_template_arguments_and_arguments_in_order() -> None:
    found = body(
        "    kernel::linear<bfloat16, 8, 0x40, -1, true>(\n"
        "      task_desc->input_ptrs[0],\n nullptr, 1e-6f,\n"
        "      false/*residual*/, task_desc->task_metadata.kv_idx,\n"
        "      runtime_config.qo_indptr_buffer[MPK_MAX_NUM_BATCHED_REQUESTS]);"
    )
    (call,) = found.calls
    assert call.function == "linear"
    assert [a.text for a in call.template] == ["bfloat16", "8", "0x40", "-1", "true"]
    assert [a.value for a in call.template] == [None, 8, 64, -1, True]
    slot, null, eps, residual, metadata, runtime = call.arguments
    assert slot.slot == SlotName(True, 0)
    assert null.null
    assert eps.value == 1e-6
    assert residual.value is False
    assert metadata.metadata == {"kv_idx"}
    assert runtime.runtime == {"qo_indptr_buffer"}
    assert found.location(call).line == 5
    assert found.location(slot).line == 6


def test_descriptors_and_layouts_through_their_variables() -> None:
    found = arguments("""
      using TMA_A = kernel::tma::tma_2d<cute::bfloat16_t, 3, 3, 3, 64, 2048, 128, 64, 2048, 1,
        1, 1, 8192, true>;
      TMA_A tma_a(static_cast<CUtensorMap*>(task_desc->input_tma_desc_ptrs[1][0]));
      cute::Layout layout_Bias = cute::make_layout(
        cute::make_shape(4, 64), cute::make_stride(2048, cute::Int<1>{}));
      cute::Tensor mBias = cute::make_tensor(cute::make_gmem_ptr(
        static_cast<cute::bfloat16_t*>(task_desc->input_ptrs[2])), layout_Bias);
      kernel::linear<TMA_A, decltype(mBias), 4>(tma_a, &tma_a, mBias);""")
    tma, pointed, bias = found
    assert tma.slot == pointed.slot == SlotName(True, 1, 0)
    assert tma.tma is not None
    assert tma.tma.name == "tma_2d"
    assert [a.value for a in tma.tma.arguments][4:6] == [64, 2048]
    assert bias.slot == SlotName(True, 2)
    assert bias.element == "bfloat16_t"
    assert bias.layout is not None
    assert (bias.layout.shape, bias.layout.strides) == ((4, 64), (2048, 1))


def test_variables_are_followed_to_where_they_come_from() -> None:
    first, second, third = arguments("""
      {
      int bi_ = task_desc->task_metadata.request_id;
      int fp_ = runtime_config.qo_indptr_buffer[bi_];
      int n_ = fp_ - 1;
      if (n_ < 1) n_ = 1;
      auto *p_ = static_cast<const nv_bfloat16*>(task_desc->input_ptrs[0]) + fp_ * 512;
      kernel::f(p_, n_, bi_);
      }""")
    assert first.slot == SlotName(True, 0)
    assert first.element == "nv_bfloat16"
    assert first.metadata == {"request_id"}
    assert not second.certain
    assert third.metadata == {"request_id"}


def test_older_spellings() -> None:
    text = (
        HEAD
        + """
  if (task_desc.task_type == TASK_A && task_desc.variant_id == 0) {
    TMA_A tma_a(static_cast<CUtensorMap*>(task_desc.inputs[1].tma_desc_ptrs[0]));
    kernel::f<8>(tma_a, task_desc.inputs[0].base_ptr, task_desc.outputs[0].base_ptr,
      task_desc.request_id, task_desc->expert_offset);
  }
}
"""
    )
    branch = parse("k.cu", text).dispatch["TASK_A", 0]
    assert branch.inputs == {0, 1}
    assert branch.tma_inputs == {1}
    assert branch.outputs == {0}
    assert branch.metadata == {"request_id", "expert_offset"}
    assert not branch.every_input
    assert branch.body is not None
    (call,) = branch.body.calls
    assert [a.slot for a in call.arguments[:3]] == [
        SlotName(True, 1, 0),
        SlotName(True, 0),
        SlotName(False, 0),
    ]
    assert call.arguments[3].metadata == {"request_id"}


def test_a_call_that_hangs_on_a_condition() -> None:
    plain, under = body(
        "    kernel::f(1);\n if (runtime_config.my_gpu_id == 0) kernel::g(2);"
    ).calls
    assert plain.condition == ""
    assert under.condition == "runtime_config.my_gpu_id == 0"


@pytest.mark.parametrize(
    "text",
    [
        "  if (false) {\n    kernel::f(task_desc->input_ptrs[5]);\n  }\n  kernel::g(1);",
        " if (runtime_config.x && (0)) {\n kernel::f(task_desc->input_ptrs[5]);\n }\nkernel::g(1);",
        "  if (!true) kernel::f(task_desc->input_ptrs[5]);\n  kernel::g(1);",
        "  kernel::g(1);\n  return;\n  kernel::f(task_desc->input_ptrs[5]);",
        "#if 0\n  kernel::f(task_desc->input_ptrs[5]);\n#endif\n  kernel::g(1);",
        "  kernel::g(1);\n  // kernel::f(task_desc->input_ptrs[5]);",
    ],
)
def test_dead_parts_of_a_body(text: str) -> None:
    branch = branches(text)["TASK_A", 0]
    assert not branch.inputs
    assert branch.body is not None
    assert [call.function for call in branch.body.calls] == ["g"]


@pytest.mark.parametrize(
    "text",
    [
        "  if (runtime_config.x) return;\n  kernel::f(task_desc->input_ptrs[5]);",
        "  if (true) { kernel::f(task_desc->input_ptrs[5]); }",
        "  if (runtime_config.x || false) { kernel::f(task_desc->input_ptrs[5]); }",
        "  if (runtime_config.x) { return; }\n  kernel::f(task_desc->input_ptrs[5]);",
        "#ifdef A\n  return;\n#else\n  kernel::f(task_desc->input_ptrs[5]);\n#endif",
    ],
)
def test_parts_of_a_body_that_may_run(text: str) -> None:
    assert branches(text)["TASK_A", 0].inputs == {5}


@pytest.mark.parametrize(
    "condition", [" && false", " && (false)", " && 0", " && !1", " && (x && false)"]
)
def test_a_branch_whose_condition_is_false(condition: str) -> None:
    text = "    kernel::f(task_desc->input_ptrs[5]);"
    assert list(branches(text, condition)) == [("TASK_B", 1)]
    assert list(branches(text, " && runtime_config.my_gpu_id == 0")) == [
        ("TASK_A", 0),
        ("TASK_B", 1),
    ]


CHAIN = """{0}(TaskDesc const* task_desc, RuntimeConfig const &runtime_config) {{
  if (task_desc->task_type == TASK_A && task_desc->variant_id == 0) {{
    kernel::f(task_desc->input_ptrs[0]);
  }}
}}
"""


def test_a_chain_in_another_function() -> None:
    empty = "void _execute_task(TaskDesc const* task_desc) {\n}\n"
    source = parse("k.cu", CHAIN.format("void _execute_task_old") + empty)
    assert not source.dispatch
    assert source.unreachable["TASK_A", 0].line == 2
    handed_on = "void _execute_task(TaskDesc const* task_desc) {\n  helper(task_desc, 1);\n}\n"
    assert list(parse("k.cu", CHAIN.format("void helper") + handed_on).dispatch) == [("TASK_A", 0)]


def test_a_chain_behind_a_return() -> None:
    text = CHAIN.format("void _execute_task").replace("{\n  if", "{\n  return;\n  if", 1)
    source = parse("k.cu", text)
    assert not source.dispatch
    assert ("TASK_A", 0) in source.unreachable


def test_a_second_dispatch_function() -> None:
    gang = CHAIN.format("void _execute_gang_task").replace("TASK_A", "TASK_G")
    prototype = "void _execute_task(TaskDesc const*, RuntimeConfig const &);\n"
    source = parse("k.cu", prototype + CHAIN.format("void _execute_task") + gang)
    assert {key: branch.function for key, branch in source.dispatch.items()} == {
        ("TASK_A", 0): "_execute_task",
        ("TASK_G", 0): "_execute_gang_task",
    }


def test_the_condition_as_written() -> None:
    found = branches("    kernel::f(1);", "\n      && runtime_config.my_gpu_id == 0")["TASK_A", 0]
    assert found.condition == f"{FIRST} && runtime_config.my_gpu_id == 0"


PIECES = r"""
kernel::f< kernel::f( a<a, using·A·=·f< if( if·(a)· {·( ( make_layout(make_shape( int·a·=·a; TMA·a(
static_cast<a*>( task_desc->input_ptrs[0], a·=·1; else· [ < > ; {
"""


@pytest.mark.parametrize("piece", PIECES.split())
def test_any_repetition_is_parsed_in_a_moment(piece: str) -> None:
    piece = piece.replace("·", " ")
    text = f"{HEAD}  if ({FIRST}) {{\n  kernel::f({piece * (60_000 // len(piece))}"
    for branch in parse("k.cu", text).dispatch.values():
        assert branch.body is not None
        assert len(branch.body.calls) >= 0

"""The memory behind a declared name, followed through the statements that make it."""

from __future__ import annotations

import pytest

from mirage_gate.artifacts.cuda import Declaration, parse
from tests.emitter import deepseek_v3, qwen3, qwen3_ampere

HEAD = """static void _init_persistent_kernel(
    std::map<std::string, void*> const &model_tensors) {
"""
HOST = '  char *{0} = static_cast<char*>(model_tensors.at("{0}"));\n'
SCRATCH = "  void *{0};\n  CUDA_CHECK(cudaMalloc(&{0}, 4096));\n"
ENTER = '  all_tensors["{0}"] = {0};\n'


def declared(body: str) -> dict[str, Declaration]:
    source = parse("k.cu", HEAD + body + "}\n")
    assert source.unclosed is None
    return {declaration.name: declaration for declaration in source.declarations}


def test_an_emitted_pair_has_nothing_unusual() -> None:
    for pair in (
        qwen3(2, ranks=2).emit(),
        qwen3_ampere(3, shuffled=(1,)).emit(),
        deepseek_v3(1).emit(),
    ):
        for d in parse("k.cu", pair.cuda_text()).declarations:
            assert d.variable == d.name
            assert d.shift == 0
            assert not d.null
            assert not d.undone
            assert d.late is None
            if d.kind in ("scratch", "symmetric", "shuffled"):
                assert d.allocation is not None
            if d.kind == "host":
                assert d.key == d.name or d.pointer
            assert d.kind == "sentinel" or d.memory


def test_the_key_of_a_host_tensor() -> None:
    found = declared('  char *a = static_cast<char*>(model_tensors.at("b"));\n' + ENTER.format("a"))
    assert (found["a"].kind, found["a"].key, found["a"].variable) == ("host", "b", "a")
    other = declared('  char *a = (char*)(model_tensors["b"]);\n' + ENTER.format("a"))
    assert (other["a"].kind, other["a"].key) == ("host", "b")


def test_an_entry_of_another_variable() -> None:
    text = HOST.format("a") + ENTER.format("a") + HOST.format("b") + '  all_tensors["b"] = a;\n'
    found = declared(text)
    assert (found["b"].variable, found["b"].key, found["b"].kind) == ("a", "a", "host")
    assert found["a"].memory == found["b"].memory != ""


def test_two_buffers_on_one_allocation() -> None:
    text = SCRATCH.format("a") + "  void *b = a;\n" + ENTER.format("a") + ENTER.format("b")
    found = declared(text)
    assert found["a"].memory == found["b"].memory
    assert found["b"].kind == "scratch"
    assert found["b"].nbytes == 4096
    apart = declared(
        SCRATCH.format("a") + SCRATCH.format("b") + ENTER.format("a") + ENTER.format("b")
    )
    assert apart["a"].memory != apart["b"].memory


@pytest.mark.parametrize(
    ("value", "shift"),
    [
        ("a + 4096", 4096),
        ("a - 16", -16),
        ("static_cast<char*>(a) + 8", 8),
        ("(char*)a + 8", 8),
        ("((char*)a)", 0),
        ("a + n", None),
        ("a + 4 * 2", None),
    ],
)
def test_bytes_added_on_the_way(value: str, shift: int | None) -> None:
    found = declared(SCRATCH.format("a") + f'  all_tensors["a"] = {value};\n')["a"]
    assert found.shift == shift
    assert found.kind == "scratch"
    assert found.value == value


def test_a_variable_that_is_given_another_value() -> None:
    assert declared(SCRATCH.format("a") + "  a += 64;\n" + ENTER.format("a"))["a"].shift == 64
    nothing = declared(HOST.format("a") + "  a = nullptr;\n" + ENTER.format("a"))["a"]
    assert nothing.null
    other = declared(HOST.format("a") + HOST.format("b") + "  a = b;\n" + ENTER.format("a"))["a"]
    assert other.key == "b"


@pytest.mark.parametrize("null", ["nullptr", "NULL", "0", "static_cast<void*>(nullptr)"])
def test_a_null_entry_has_the_kind_of_its_own_variable(null: str) -> None:
    found = declared(HOST.format("a") + f'  all_tensors["a"] = {null};\n')["a"]
    assert found.null
    assert found.kind == "host"
    assert found.memory == ""
    assert not declared('  all_tensors["nullptr"] = nullptr;\n')["nullptr"].null


def test_memory_that_comes_late_or_never() -> None:
    late = declared("  void *a;\n" + ENTER.format("a") + "  cudaMalloc(&a, 64);\n")["a"]
    assert late.allocation is None
    assert late.late is not None
    assert late.late.line == 5
    assert late.nbytes == 64
    never = declared("  void *a;\n" + ENTER.format("a"))["a"]
    assert never.allocation is None
    assert never.late is None
    assert never.memory == ""


@pytest.mark.parametrize(
    ("after", "what"),
    [
        ('  all_tensors.erase("a");\n', "erase"),
        ("  all_tensors.clear();\n", "clear"),
        ("  cudaFree(a);\n", "free"),
        ("  CUDA_CHECK(cudaFree(a));\n", "free"),
    ],
)
def test_an_entry_that_is_taken_back(after: str, what: str) -> None:
    text = SCRATCH.format("a") + ENTER.format("a") + SCRATCH.format("b") + ENTER.format("b")
    found = declared(text + after)
    assert [undoing.what for undoing in found["a"].undone] == [what]
    assert found["a"].undone[0].location.line == 9
    assert bool(found["b"].undone) is (what == "clear")


def test_what_happens_to_the_map_after_the_loader_has_it() -> None:
    call = "  construct_task_graph(num_gpus, my_gpu_id, all_tasks, all_tensors);\n"
    found = declared(SCRATCH.format("a") + ENTER.format("a") + call + "  all_tensors.clear();\n")
    assert not found["a"].undone


@pytest.mark.parametrize(
    "text",
    [
        "void other() {\n" + SCRATCH.format("a") + ENTER.format("a") + "}\n",
        HEAD + "  return;\n" + SCRATCH.format("a") + ENTER.format("a") + "}\n",
        HEAD + "  if (false) {\n" + SCRATCH.format("a") + ENTER.format("a") + "  }\n}\n",
        HEAD + SCRATCH.format("a") + '  if (num_gpus && 0) all_tensors["a"] = a;\n}\n',
    ],
)
def test_what_is_no_declaration(text: str) -> None:
    assert parse("k.cu", text).declarations == ()


def test_the_source_and_the_pitch_of_a_copy() -> None:
    copy = "  cudaMemcpy2DAsync(reinterpret_cast<void *>(a + 128), 512, {0}, 300, 256, 4, x);\n"
    text = "  char *a;\n  cudaMalloc(&a, 4096);\n" + copy.format('model_tensors.at("q")')
    found = declared(text + copy.format("(char*)(0x7f00)") + ENTER.format("a"))["a"]
    first, second = found.copies
    assert (first.source, first.named, first.source_pitch, first.width) == ("q", True, 300, 256)
    assert (second.source, second.named) == ("(char*)(0x7f00)", False)


def test_the_number_of_ranks_by_comparison() -> None:
    assert parse("k.cu", "  assert(num_gpus == 4);").world_size == 4
    assert parse("k.cu", "  if (num_gpus == 4) {}").world_size is None

"""Reading a .cu: every dialect, and nothing that only looks like a statement."""

from __future__ import annotations

import pytest

from mirage_gate.artifacts.cuda import CudaSource, Declaration, parse
from mirage_gate.artifacts.cuda.text import mask
from tests.emitter import LITERAL, OLD, deepseek_v3, qwen3, qwen3_ampere

HOST = '  char *{0} = static_cast<char*>(model_tensors.at("{0}"));\n  all_tensors["{0}"] = {0};\n'


def one(text: str) -> Declaration:
    declarations = parse("k.cu", text).declarations
    assert len(declarations) == 1
    return declarations[0]


def names(text: str | bytes) -> list[str]:
    return [declaration.name for declaration in parse("k.cu", text).declarations]


@pytest.mark.parametrize(
    ("text", "kind", "nbytes", "pointer"),
    [
        (HOST.format("x"), "host", None, ""),
        (
            '  char *x = (char*)(0x7F0005000000);\n  all_tensors["x"] = x;',
            "host",
            None,
            "0x7f0005000000",
        ),
        (
            '  void *x;\n  CUDA_CHECK(cudaMalloc(&x, 4096));\n  all_tensors["x"] = x;',
            "scratch",
            4096,
            "",
        ),
        ('  void *x;\n  cudaMalloc(&x, 4096);\n  all_tensors["x"] = x;', "scratch", 4096, ""),
        (
            '  void *x = nvshmem_malloc(512);\n  assert(x != nullptr);\n  all_tensors["x"] = x;',
            "symmetric",
            512,
            "",
        ),
        ('  char *x;\n  cudaMalloc(&x, 64);\n  all_tensors["x"] = x;', "shuffled", 64, ""),
        ('  all_tensors["nullptr"] = nullptr;', "sentinel", None, ""),
        ('  all_tensors["x"] = somewhere_else;', "unknown", None, ""),
        ('\tvoid\t*x;\tcudaMalloc( & x , 8 );all_tensors [ "x" ]=x;', "scratch", 8, ""),
        (
            '  void *x;\n  cudaMalloc(\n    &x,\n    8\n  );\n  all_tensors\n  [\n"x"\n]\n =\n x;',
            "scratch",
            8,
            "",
        ),
    ],
)
def test_storage_kinds_and_dialects(text: str, kind: str, nbytes: int | None, pointer: str) -> None:
    declaration = one(text)
    assert declaration.kind == kind
    assert declaration.nbytes == nbytes
    assert declaration.pointer == pointer


def test_a_declaration_knows_its_line_and_that_of_its_storage() -> None:
    declaration = one("// a comment\n\n" + HOST.format("rope_cos"))
    at, storage = declaration.location, declaration.storage
    assert (at.line, at.column, at.end_line, at.end_column) == (4, 3, 4, 38)
    assert storage is not None
    assert (storage.line, storage.column) == (3, 3)


@pytest.mark.parametrize(
    "text",
    [
        '// all_tensors["x"] = x;',
        '// spliced \\\nall_tensors["x"] = x;',
        '/* all_tensors["x"] = x; */',
        '/* never closed all_tensors["x"] = x;',
        '#if 0\n#ifdef A\n#endif\nall_tensors["x"] = x;\n#endif',
        '  # if 0\nall_tensors["x"] = x;\n',
        '#if 0 // old\nall_tensors["x"] = x;\n#endif',
        '#if 0 /* old */\nall_tensors["x"] = x;\n#endif',
        '#if 0\n/*\n#endif\n*/\nall_tensors["x"] = x;\n#endif',
        '#if 0\n"\\\n#endif"\nall_tensors["x"] = x;\n#endif',
        '#if 0\n// a \\\n#endif\nall_tensors["x"] = x;\n#endif',
        '#if 0\na \\\n#endif\nall_tensors["x"] = x;\n#endif',
        '#if 0 // \\\n#endif\nall_tensors["x"] = x;\n#endif',
        '#if (0)\nall_tensors["x"] = x;\n#endif',
        '#if false\nall_tensors["x"] = x;\n#endif',
        '#if 0x0L\r\nall_tensors["x"] = x;\r\n#endif',
        '#if 1\n#else\nall_tensors["x"] = x;\n#endif',
        '#ifdef A\n#elif 1\n#else\nall_tensors["x"] = x;\n#endif',
        '#if 0\n#elif 0\nall_tensors["x"] = x;\n#endif',
        '#if 0\n#if 1\nall_tensors["x"] = x;\n#endif\n#endif',
        '/* a */ #if 0\nall_tensors["x"] = x;\n#endif',
        '/* a\n*/ #if 0\nall_tensors["x"] = x;\n#endif',
        '\\\n#if 0\nall_tensors["x"] = x;\n#endif',
        'auto s = u8R"(\nall_tensors["x"] = x;)";',
        'auto s = LR"a(\nall_tensors["x"] = x;)a";',
        'auto s = uR"(\nall_tensors["x"] = x;)" UR"(\nall_tensors["x"] = x;)";',
        'puts("all_tensors[\\"x\\"] = x;");',
        'auto s = R"(all_tensors["x"] = x;)";',
        'auto s = R"cc()" all_tensors["x"] = x; )cc";',
        'R"(never closed all_tensors["x"] = x;',
        'auto p = all_tensors.at("x");',
        'if (all_tensors.find("x") != all_tensors.end()) {}',
        'if (all_tensors["x"] == x) {}',
        'use(all_tensors["x"]);',
        'my_all_tensors["x"] = x;',
        "all_tensors[name] = x;",
    ],
)
def test_what_only_looks_like_a_declaration(text: str) -> None:
    assert names(f"{text}\n") == []


@pytest.mark.parametrize(
    "text",
    [
        'all_tensors["x"] = x; // all_tensors["y"] = y;',
        'a(); /* b */ all_tensors["x"] /* c */ = /* d */ x;',
        "#if 0\n/*\n#if 1\n*/\n#endif\n" + HOST.format("x"),
        "#if 0\n#elifdef A\n" + HOST.format("x") + "#endif\n",
        "#if 0\n#elif 1\n" + HOST.format("x") + "#else\n}\n#endif\n",
        "#if 0\n#elif A\n" + HOST.format("x") + "#else\n}\n#endif\n",
        "#if 1\n" + HOST.format("x") + "#else\n}\n#endif\n",
        "#if 0 || A\n" + HOST.format("x") + "#endif\n",
        "#if 10\n" + HOST.format("x") + "#endif\n",
        "x #if 0\n" + HOST.format("x"),
        'x = "a\\\r\nb";' + HOST.format("x"),
        "x = u8'\"';" + HOST.format("x"),
        "case'\"':" + HOST.format("x"),
        "case'x':" + HOST.format("x"),
        "x = 0xF'F + 1'000;" + HOST.format("x"),
        'x = VAR"(a";' + HOST.format("x"),
        "#if 0\n#else\n" + HOST.format("x") + "#endif\n",
        "int n = 1'000'000; " + HOST.format("x"),
        "char c = '\"'; " + HOST.format("x"),
        'puts("// not a comment"); ' + HOST.format("x"),
        'puts("\\\\"); ' + HOST.format("x"),
        'puts("never closed\n' + HOST.format("x"),
        "#error don't\n" + HOST.format("x"),
        'auto s = R"(a " quote)"; ' + HOST.format("x"),
    ],
)
def test_declarations_beside_comments_and_strings(text: str) -> None:
    assert names(text) == ["x"]


def test_encodings_and_line_ends_keep_lines_and_columns() -> None:
    plain = one("\n\n" + HOST.format("x")).location
    for data in (
        b"\xef\xbb\xbf\n\n" + HOST.format("x").encode(),
        b"// \xff\xfe\n\n" + HOST.format("x").encode(),
        ("\r\n\r\n" + HOST.format("x").replace("\n", "\r\n")).encode(),
    ):
        found = parse("k.cu", data).declarations[0].location
        assert found == plain


def test_a_name_is_kept_as_it_stands() -> None:
    text = 'all_tensors["model.layers.0.x"] = model.layers.0.x;all_tensors["ü <b>"] = y;'
    assert names(text) == ["model.layers.0.x", "ü <b>"]
    assert names(b'all_tensors["a\xffb"] = y;') == ["a\ufffdb"]


def test_a_repeated_name_is_two_declarations() -> None:
    assert names(HOST.format("x") * 2) == ["x", "x"]


def test_copies_of_a_shuffled_tensor() -> None:
    pair = qwen3_ampere(3, shuffled=(1,)).emit()
    source = parse("k.cu", pair.cuda_text())
    shuffled = [d for d in source.declarations if d.kind == "shuffled"]
    assert len(shuffled) == 1
    gate, up = shuffled[0].copies
    assert (gate.source, up.source) == ("layer_1_gate_proj", "layer_1_up_proj")
    assert gate.offset == 0
    assert up.offset == gate.width
    assert gate.pitch == gate.width + up.width
    assert gate.location.line < up.location.line < shuffled[0].location.line


def test_the_dispatch_table() -> None:
    text = """
void _execute_task(TaskDesc const* task_desc) {
  if (task_desc->task_type == TASK_A && task_desc->variant_id == 0) {
    f(task_desc->input_ptrs[1], task_desc->input_tma_desc_ptrs[2][0],
      task_desc->output_ptrs[0], runtime_config.tokens, task_desc->task_metadata.kv_idx);
    // task_desc->input_ptrs[5]
  }
  else if (task_desc.task_type == TASK_A && task_desc.variant_id == 1) {
    f(task_desc.input_ptrs[i]);
  }
  else if (task_desc->task_type == TASK_A && task_desc->variant_id == 0) {
    f(task_desc->input_ptrs[6]);
  }
}
void other() { f(task_desc->input_ptrs[3]); }
"""
    source = parse("k.cu", text)
    assert list(source.dispatch) == [("TASK_A", 0), ("TASK_A", 1)]
    first, second = source.dispatch.values()
    assert first.inputs == {1, 2}
    assert first.tma_inputs == {2}
    assert first.outputs == {0}
    assert first.metadata == {"kv_idx"}
    assert first.runtime == {"tokens"}
    assert first.location.line == 3
    assert not first.names_input(5)
    assert second.every_input
    assert second.names_input(6)


@pytest.mark.parametrize(
    ("argument", "inputs", "outputs", "metadata"),
    [
        ("task_desc->input_ptrs", True, False, 0),
        ("task_desc.output_tma_desc_ptrs , 1", False, True, 0),
        ("task_desc->task_metadata", False, False, 5),
        ("*task_desc", True, True, 5),
        ("task_desc, runtime_config", True, True, 5),
        ("task_desc->input_ptrs [2]", False, False, 0),
        ("task_desc->task_metadata.kv_idx", False, False, 1),
    ],
)
def test_a_body_that_hands_on_more_than_a_slot(
    argument: str, inputs: bool, outputs: bool, metadata: int
) -> None:
    first, second = parse(
        "k.cu",
        f"""
void _execute_task(TaskDesc const* task_desc, RuntimeConfig const &runtime_config) {{
  if (task_desc->task_type == TASK_A && task_desc->variant_id == 0) {{
    f({argument});
  }}
  else if (task_desc->task_type == TASK_A && task_desc->variant_id == 1) {{
    f(task_desc->input_ptrs[0]);
  }}
}}
""",
    ).dispatch.values()
    assert (first.every_input, first.every_output) == (inputs, outputs)
    assert len(first.metadata) == metadata
    assert not second.names_input(1)
    assert not second.metadata


def test_the_loader_and_the_world() -> None:
    for dialect, has_offset in ((LITERAL, True), (OLD, False)):
        pair = deepseek_v3(1, ranks=8).written(dialect).emit()
        source = parse("k.cu", pair.cuda_text())
        assert source.world_size == 8
        assert set(source.loader_fields) >= set(pair.fields)
        assert ("task_offset" in source.loader_fields) is has_offset
    assert parse("k.cu", "if (num_gpus == 4) {}").world_size is None


def test_a_file_with_its_tasks_inside() -> None:
    text = "\nall_tasks.push_back(FullTaskDesc(TASK_TERMINATE));\n"
    embedded = parse("k.cu", text).embedded
    assert embedded is not None
    assert embedded.line == 2
    other = parse("k.cu", "FullTaskDesc task_desc(static_cast<TaskType>(101));").embedded
    assert other is not None


def test_the_loader_itself_embeds_nothing() -> None:
    for model in (qwen3(1), deepseek_v3(1)):
        assert parse("k.cu", model.emit().cuda_text()).embedded is None


def same(one: CudaSource, other: CudaSource) -> bool:
    return [(d.name, d.kind, d.nbytes) for d in one.declarations] == [
        (d.name, d.kind, d.nbytes) for d in other.declarations
    ] and list(one.dispatch) == list(other.dispatch)


def test_blanks_change_nothing() -> None:
    text = qwen3(2, ranks=2).emit().cuda_text()
    base = parse("k.cu", text)
    assert same(base, parse("k.cu", text.replace("\n", "\r\n")))
    assert same(base, parse("k.cu", text.replace("  ", "\t")))
    assert same(base, parse("k.cu", text.replace("[", " [ ").replace("(", " ( ")))


def test_masking_keeps_the_length_and_the_lines() -> None:
    text = qwen3(1).emit().cuda_text() + '/* a\nb */ "s\\"t" // c\n R"(x\ny)" #if 0\n'
    masked = mask(text)
    assert len(masked) == len(text)
    assert "mask" not in masked


PIECES = r"""
/* // " ' \" R"( R"a( #if·0¶ #if·0¶#endif¶ all_tensors[ all_tensors["x"]·=· char·* void·*x
cudaMalloc(& cudaMemcpy2DAsync( task_desc-> task.at( task_desc->task_type·==· num_gpus·=· }¶ \¶
· FullTaskDesc( task_desc->input_ptrs[ char·*x·=·(char*)(0x all_tensors·
task_desc->task_type·==·A· task_desc->input_ptrs[0]· //·\¶ all_tensors["x"]·=·x;
"""
"""Openings of statements that never end; a dot stands for a blank, a pilcrow for a line's end."""


@pytest.mark.parametrize("piece", PIECES.split())
def test_any_repetition_is_read_in_a_moment(piece: str) -> None:
    """A reader that is not linear would be at these for minutes; `tests.fuzz` measures growth."""
    piece = piece.replace("·", " ").replace("¶", "\n")
    source = parse("k.cu", piece * (300_000 // len(piece)))
    assert source.declarations == () or source.declarations[0].name == "x"


def test_one_very_long_line() -> None:
    text = "x" * 200_000 + " " + HOST.format("x") + "y" * 200_000
    declaration = one(text)
    assert declaration.location.line == 2


@pytest.mark.parametrize(
    ("size", "nbytes"), [("4096", 4096), ("4096u", 4096), ("4 * 1024", None), ("sizeof(T)", None)]
)
def test_a_size_is_known_if_it_is_one_number(size: str, nbytes: int | None) -> None:
    text = f"void _init_persistent_kernel() {{\n  void *x;\n  cudaMalloc(&x, {size});\n"
    parsed = parse("k.cu", f'{text}  all_tensors["x"] = x;\n}}\n'.encode())
    assert [(d.kind, d.nbytes) for d in parsed.declarations] == [("scratch", nbytes)]


BRANCHES = """
__device__ void _execute_task(TaskDesc const *task_desc, RuntimeConfig const &runtime_config) {{
  if ({}) {{
    kernel::f(task_desc->input_ptrs[0]);
  }}
}}
"""


@pytest.mark.parametrize(
    "condition",
    [
        "task_desc->task_type == TASK_LINEAR && task_desc->variant_id == 1",
        "task_desc->task_type == TASK_LINEAR && task_desc->variant_id == 0x1",
        "task_desc->variant_id == 1 && task_desc->task_type == TASK_LINEAR",
        "(task_desc->variant_id == 1ul) && (task_desc->task_type == TASK_LINEAR)",
        "task_desc->task_type == TASK_LINEAR && \\\n task_desc->variant_id == 1",
    ],
)
def test_a_condition_in_other_spellings(condition: str) -> None:
    parsed = parse("k.cu", BRANCHES.format(condition).encode())
    assert list(parsed.dispatch) == [("TASK_LINEAR", 1)]
    assert parsed.dispatch["TASK_LINEAR", 1].names_input(0)
    assert parsed.unread == ()


@pytest.mark.parametrize(
    "condition",
    [
        "TASK_LINEAR == task_desc->task_type && task_desc->variant_id == 1",
        "is_linear(task_desc->task_type, task_desc->variant_id)",
    ],
)
def test_a_condition_that_is_not_understood_is_told(condition: str) -> None:
    parsed = parse("k.cu", BRANCHES.format(condition).encode())
    assert not parsed.dispatch
    assert parsed.unread


@pytest.mark.parametrize("number", ["1024.", "4 * 256", "kRows", "1'0_0"])
@pytest.mark.parametrize("place", ["offset", "height"])
def test_a_copy_whose_numbers_cannot_be_read(number: str, place: str) -> None:
    offset, height = (number, "8") if place == "offset" else ("0", number)
    text = (
        "void _init_persistent_kernel() {\n  char *x;\n  cudaMalloc(&x, 8192);\n"
        f"  cudaMemcpy2DAsync(reinterpret_cast<void *>(x + {offset}), 1024, "
        f'model_tensors.at("a"), 1024, 1024, {height}, cudaMemcpyDeviceToDevice);\n'
        '  all_tensors["x"] = x;\n}\n'
    )
    assert one(text).unclear


@pytest.mark.parametrize(
    "number",
    ["4096", "4'096", "4096u", "4'096ULL", "0x1000", "0X10'00", "010000", "0b1'0000'0000'0000z"],
)
def test_a_number_as_cpp_writes_it(number: str) -> None:
    copied = (
        "void _init_persistent_kernel() {{\n  char *x;\n  cudaMalloc(&x, {0});\n"
        "  cudaMemcpy2DAsync(reinterpret_cast<void *>(x + {0}), {0}, "
        'model_tensors.at("a"), {0}, {0}, {0}, cudaMemcpyDeviceToDevice);\n'
        '  all_tensors["x"] = x;\n  char *y = x;\n  y += {0};\n  all_tensors["y"] = y;\n'
        '  all_tensors["z"] = x + {0};\n  void *s = nvshmem_malloc({0});\n'
        '  all_tensors["s"] = s;\n}}\n'
    )
    x, y, z, s = parse("k.cu", copied.format(number)).declarations
    assert (x.nbytes, s.nbytes) == (4096, 4096)
    (copy,) = x.copies
    assert (copy.offset, copy.pitch, copy.source_pitch) == (4096, 4096, 4096)
    assert (copy.width, copy.height) == (4096, 4096)
    assert not x.unclear
    assert y.shift == z.shift == 4096


@pytest.mark.parametrize("number", ["9" * 30, "0x" + "f" * 40, "1'" * 30 + "1", "09", "1" * 5000])
def test_a_number_without_sense_is_larger_than_any_memory(number: str) -> None:
    assert one(f'void *x;\ncudaMalloc(&x, {number});\nall_tensors["x"] = x;\n').nbytes == 1 << 63


BALANCED = "void f() {\n  g(1, a[2]);\n}\n"


@pytest.mark.parametrize(
    ("text", "line", "bracket"),
    [
        (BALANCED + "(" * 100_000, 4, "("),
        (BALANCED + "\n[" * 100_000, 5, "["),
        (BALANCED + "(", 4, "("),
        ("((((\n" + BALANCED, 1, "("),
        ("void f() {\n  g(1;\n}\n", 2, "("),
        ("void f() {\n  if (a) { g(h(1); }\n  k();\n}\n", 2, "("),
        ("void f() {\n  a[1;\n}\n", 2, "["),
        ("#ifdef A\nvoid f(\n#else\nvoid f(int a,\n#endif\n", 2, "("),
        ("#define A(x) \\\n  (x)\nint a = A((1);\n", 3, "("),
    ],
)
def test_a_bracket_that_stays_open_is_named(text: str, line: int, bracket: str) -> None:
    source = parse("k.cu", text)
    assert source.unclosed
    assert (source.unclosed.line, source.unclosed_bracket) == (line, bracket)


@pytest.mark.parametrize(
    "text",
    [
        BALANCED,
        "()" * 100_000,
        BALANCED + "// (((\n/* [[ */",
        BALANCED + "char const *a = \"(((\";\nchar b = '(';\n",
        BALANCED + "#if 0\n(((\n#endif\n",
        BALANCED + "#define OPEN (\n#define BOTH \\\r\n  [ \\\r\n  (\r\n",
        BALANCED + "#ifdef A\nint g(int a\n#else\nint g(int b\n#endif\n);\n",
        BALANCED + "#ifdef A\nint g(int a\n#else\nint g(int b\n#endif\n);\n#define OPEN (\n",
        "auto x = f(g([](int i) { return (i); }));\n#define OPEN (\n" + BALANCED,
        # What is left of a file of which parts were cut out.
        "void _execute_task(TaskDesc *task_desc,\n...\n{\n  g();\n}\n",
        "int a));\n" + BALANCED,
    ],
)
def test_brackets_that_close(text: str) -> None:
    assert parse("k.cu", text).unclosed is None

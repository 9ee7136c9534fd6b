"""The emitter against MPK's own output, and both against the invariants of a correct pair.

With the sizes of the real models in place, the emitter writes what MPK wrote: every graph of the
real artifacts byte for byte, every `.cu` statement for statement. Its small models then need only
keep the invariants, which the real graphs keep too.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.emitter import (
    DEEPSEEK_V3,
    EMBEDDED,
    LITERAL,
    OLD,
    QWEN3,
    FileNames,
    Model,
    Pair,
    deepseek_v3,
    qwen3,
    qwen3_ampere,
    qwen3_moe,
    runtime_header,
)
from tests.emitter.graph import INVALID_EVENT
from tests.emitter.invariants import problems, read_cuda
from tests.emitter.tasks import KINDS

FAMILIES: dict[str, Callable[[int], Model]] = {
    "qwen3": qwen3,
    "qwen3-on-ampere": lambda n: qwen3(n, arch="ampere"),
    "qwen3-on-blackwell": lambda n: qwen3(n, arch="blackwell"),
    "qwen3-split-kv": lambda n: qwen3(n, split_kv=True),
    "qwen3-tp2-tile": lambda n: qwen3(n, ranks=2, collective="tile"),
    "qwen3-tp4-allgather": lambda n: qwen3(n, ranks=4, collective="allgather"),
    "qwen3-fused": qwen3_ampere,
    "qwen3-moe": qwen3_moe,
    "deepseek": deepseek_v3,
    "deepseek-tp8": lambda n: deepseek_v3(n, dense_layers=2, ranks=8),
}

DENSE = qwen3(4).sized(**QWEN3["0.6B"])
TWINS = {
    "qwen3_0.6b_4l_hopper": DENSE,
    "mutant_rope_none_all": DENSE.without_rope(),
    "mutant_rope_none_layer2": DENSE.without_rope(layer=2),
    "mutant_residual_layer1_stale": DENSE.stale_residual(layer=1),
    "qwen3_8b_4l_hopper_splitkv": qwen3(4, split_kv=True, kv_splits=16).sized(**QWEN3["8B"]),
    "qwen3_8b_2l_ampere_tp4_allgather": qwen3(2, ranks=4, collective="allgather").sized(
        **QWEN3["8B-ampere"]
    ),
    "qwen3_1.7b_6l_hopper_tp2_tile": qwen3(6, ranks=2, collective="tile").sized(**QWEN3["1.7B"]),
    "qwen3_30b_a3b_6l_blackwell": qwen3_moe(6).sized(**QWEN3["30B-A3B"]),
    "fused_shuffled_none_3l_ampere": qwen3_ampere(3)
    .sized(**QWEN3["8B-fused"])
    .without_qk_norm(layer=1),
    "pre665_dsv3_4l_blackwell_tp1": deepseek_v3(4).sized(**DEEPSEEK_V3["TP1"]).without_rope(),
    "pre665_dsv3_7l_blackwell_tp8": deepseek_v3(7, ranks=8)
    .sized(**DEEPSEEK_V3["TP8"])
    .without_rope(),
}

UNWIRED = ["rope_cos (host) is used by nobody", "rope_sin (host) is used by nobody"]
KNOWN_DEFECTS = {
    "mutant_rope_none_all": [
        "cos_position_embedding (host) is used by nobody",
        "sin_position_embedding (host) is used by nobody",
    ],
    "pre665_dsv3_4l_blackwell_tp1": UNWIRED,
    "pre665_dsv3_7l_blackwell_tp8": UNWIRED,
    "pre665_dsv3_5l_blackwell_tp8_mtp2": [
        *UNWIRED,
        "mtp_target_token_ids is read and never written",
    ],
    "dsv3_4l_blackwell_tp1": [
        "event 121: 18 ≠ 9 triggers",
        "run by counting, 1810 tasks never start",
        *UNWIRED,
    ],
}


def check(pair: Pair) -> list[str]:
    return problems(pair.cuda_text(), pair.json_text())


# -- the emitter and the real thing ------------------------------------------------------------


@pytest.mark.parametrize("name", TWINS)
def test_emits_what_mpk_emitted(name: str, artifacts: Path) -> None:
    graphs = sorted((artifacts / name).glob("task_graph_*.json"))
    assert graphs
    for rank, path in enumerate(graphs):
        pair = TWINS[name].emit(rank)
        # Not `==` inside the assert: pytest would spend minutes on explaining a difference.
        same = pair.json_text() == path.read_text("ascii")
        assert same, f"{path.name} differs"
        real = (artifacts / name / f"kernel_{rank}.cu").read_text("utf-8")
        assert read_cuda(pair.cuda_text()) == read_cuda(real)
        assert statements(pair.cuda_text()) == statements(real)


def statements(cuda: str) -> list[str]:
    """The declarations, without the addresses of literal pointers."""
    init = cuda[cuda.index("_init_persistent_kernel") : cuda.index("_execute_task")]
    kept = re.findall(r"^ *((?:char \*|void \*|CUDA_CHECK|all_tensors\[).*;)$", init, re.MULTILINE)
    return [re.sub(r"0x[0-9a-f]+", "0x…", line) for line in kept]


@pytest.mark.slow
def test_real_pairs_keep_the_invariants(artifacts: Path) -> None:
    graphs = sorted(artifacts.glob("*/task_graph_*.json"))
    assert graphs
    for path in graphs:
        rank = path.stem.removeprefix("task_graph_")
        cuda = (path.parent / f"kernel_{rank}.cu").read_text("utf-8")
        found = problems(cuda, path.read_text("ascii"))
        assert found == KNOWN_DEFECTS.get(path.parent.name, []), path


def test_a_full_deepseek_has_the_size_it_is_known_to_have() -> None:
    model = deepseek_v3(61, ranks=8).sized(**DEEPSEEK_V3["TP8"])
    graph = model.without_rope().emit().source
    assert (graph.task_count, len(graph.events)) == (163_891, 2_405)
    # Wired, each layer has one task more, and the event that it waits for.
    wired = model.emit().source
    assert (wired.task_count, len(wired.events)) == (163_952, 2_466)


# -- the small models --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("family", FAMILIES)
def test_small_models_keep_the_invariants(family: str, layers: int) -> None:
    for pair in FAMILIES[family](layers).emit_all():
        assert check(pair) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_text_in_pieces_is_the_text_of_the_dicts(family: str) -> None:
    pair = FAMILIES[family](2).emit()
    streamed = io.StringIO()
    pair.write_json(streamed)
    assert "graph" not in vars(pair)
    assert streamed.getvalue() == json.dumps(pair.graph, indent=2, sort_keys=True)
    assert streamed.getvalue() == pair.json_text()


@pytest.mark.parametrize("family", FAMILIES)
def test_tma_slots_start_on_16_bytes(family: str) -> None:
    pair = FAMILIES[family](4).emit()
    for branch in pair.branches:
        kind = KINDS[branch.task.removeprefix("TASK_")]
        slots = re.findall(r"ti(\d)", branch.body)
        for task in pair.tasks(task_type=kind.code):
            assert all(task["inputs"][int(slot)]["offset"] % 16 == 0 for slot in slots)


def test_small_models_have_the_variants_of_the_real_ones() -> None:
    """As many variants of each task type: the roles of operators do not fall together."""
    for small, real in (
        (qwen3(4), TWINS["qwen3_0.6b_4l_hopper"]),
        (qwen3_moe(4), TWINS["qwen3_30b_a3b_6l_blackwell"]),
        (qwen3(4, ranks=2), TWINS["qwen3_1.7b_6l_hopper_tp2_tile"]),
        (qwen3(4, ranks=4, collective="allgather"), TWINS["qwen3_8b_2l_ampere_tp4_allgather"]),
        (deepseek_v3(4, ranks=8).without_rope(), TWINS["pre665_dsv3_7l_blackwell_tp8"]),
    ):
        assert [(b.task, b.variant, b.body) for b in small.emit().branches] == [
            (b.task, b.variant, b.body) for b in real.emit().branches
        ]


def test_event_ids_carry_the_rank() -> None:
    pair = qwen3(2, ranks=4, collective="allgather").emit(rank=2)
    puts = pair.tasks(task_type=301)
    assert {task["dependent_event"] >> 32 for task in puts} == {2}
    assert {task["trigger_event"] >> 32 & 0xFFFF for task in puts} == {0, 1, 3}
    assert {task["trigger_event"] >> 48 for task in puts} == {0x1E00}
    assert pair.graph["all_tasks"][0]["trigger_event"] == INVALID_EVENT


def test_residuals_are_compiled_out_above_rank_0() -> None:
    first, second = qwen3(2, ranks=2, collective="tile").emit_all()
    task = "TASK_LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER"
    assert "ti2" in first.branch(task).body
    assert "ti2" not in second.branch(task).body
    assert len(second.tasks(task_type=156)[0]["inputs"]) == 3


# -- modifiers ---------------------------------------------------------------------------------


def carriers(pair: Pair, tensor: str) -> int:
    return len(pair.tasks(tensor=tensor))


def test_rope_missing_everywhere() -> None:
    pair = qwen3(4).without_rope().emit()
    assert [line.split()[0] for line in check(pair)] == [
        "cos_position_embedding",
        "sin_position_embedding",
    ]


def test_rope_missing_in_one_layer() -> None:
    clean, broken = qwen3(4).emit(), qwen3(4).without_rope(layer=2).emit()
    assert check(broken) == []
    before = carriers(clean, "cos_position_embedding")
    assert carriers(broken, "cos_position_embedding") == before * 3 // 4
    attention = broken.tasks(tensor="nullptr")
    assert {t["variant_id"] for t in attention} == {1}
    assert [t["inputs"][1]["base_ptr"] for t in attention] == ["layer_2_k_cache"] * 4
    assert broken.branch("TASK_PAGED_ATTENTION_HOPPER", 1).body


def test_rope_of_deepseek_has_two_consumers_a_layer() -> None:
    model = deepseek_v3(4)
    assert carriers(model.emit(), "rope_cos") == 8
    assert carriers(model.without_rope(layer=1).emit(), "rope_cos") == 6
    assert check(model.without_rope(layer=1).emit()) == []
    assert check(model.without_rope().emit()) == UNWIRED


def test_norms_missing_in_one_layer() -> None:
    pair = qwen3(3).without_qk_norm(layer=1).emit()
    assert check(pair) == []
    names = {declaration.name for declaration in pair.declarations}
    assert "layer_0_q_norm" in names
    assert "layer_1_q_norm" not in names


@pytest.mark.parametrize("family", FAMILIES)
def test_stale_residual_looks_right_in_every_other_way(family: str) -> None:
    model = FAMILIES[family](3)
    clean, stale = model.emit(), model.stale_residual(layer=2).emit()
    assert check(stale) == []
    changed = [
        (old, new)
        for old, new in zip(clean.graph["all_tasks"], stale.graph["all_tasks"], strict=True)
        if old != new
    ]
    assert changed
    assert all("embed_out" in str(new["inputs"]) for _, new in changed)
    assert clean.graph["all_events"] == stale.graph["all_events"]


def test_tensors_that_nobody_uses() -> None:
    pair = qwen3(2).with_extra_host("yarn_scale").with_unused_scratch("spare").emit()
    assert check(pair) == ["yarn_scale (host) is used by nobody"]
    assert pair.declaration("spare").storage == "scratch"


def test_other_names() -> None:
    model = qwen3(2).named(rope=("cos", "sin"), weights="model.layers.{layer}.{part}")
    pair = model.emit()
    assert check(pair) == []
    assert 'all_tensors["model.layers.1.o_proj"] = model.layers.1.o_proj;' in pair.cuda_text()
    assert carriers(pair, "cos") == 8


def test_wrong_layers_and_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match="no layer 4 of 4"):
        qwen3(4).without_rope(layer=4)
    with pytest.raises(ValueError, match="cannot be stale"):
        qwen3(4).stale_residual(layer=0)
    with pytest.raises(ValueError, match="no rank 1 of 1"):
        qwen3(4).emit(rank=1)
    with pytest.raises(ValueError, match="does not cut"):
        qwen3(1, o_tiles=3).emit()
    with pytest.raises(ValueError, match="declared twice"):
        qwen3(1).with_extra_host("lm_head").emit()


# -- the texts ---------------------------------------------------------------------------------


def test_dialects() -> None:
    literal = qwen3(1).written(LITERAL).emit().cuda_text()
    assert re.search(r"char \*lm_head = \(char\*\)\(0x7f[0-9a-f]{10}\);", literal)
    old = qwen3(1).written(OLD).emit()
    assert "CUDA_CHECK" not in old.cuda_text()
    assert "task_desc->" not in old.cuda_text()
    assert '"task_offset"' not in old.cuda_text() + old.json_text()
    assert check(old) == []
    odd = qwen3(1).written(newline="\r\n", tabs=True, bom=True).emit().cuda_text()
    assert odd.startswith("\ufeff#include")
    assert "\r\n\tassert(num_gpus = 1);\r\n" in odd


def test_the_loader_names_the_fields_it_insists_on() -> None:
    pair = qwen3(1).emit()
    fields = set(re.findall(r'task\.at\("(\w+)"\)', pair.cuda_text()))
    assert fields == set(pair.graph["all_tasks"][2])
    pair.fields.append("priority")
    assert 'task.at("priority")' in pair.cuda_text()


def test_tasks_embedded_in_the_cuda_file(tmp_path: Path) -> None:
    pair = qwen3(1).written(EMBEDDED).emit()
    text = pair.cuda_text()
    assert "all_tensors" not in text
    assert text.count("all_tasks.push_back") == len(pair.graph["all_tasks"])
    cuda, graph = pair.write(tmp_path)
    assert cuda.exists()
    assert not graph.exists()


def test_the_header_numbers_every_task_type() -> None:
    numbers = dict(re.findall(r"(TASK_\w+) = (\d+),", runtime_header()))
    assert numbers["TASK_MLA_ROPE_Q_SM100"] == "296"
    assert len(numbers) == len(KINDS) + 2


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("kernel", {"kernel_0.cu", "task_graph_0.json", "kernel_1.cu", "task_graph_1.json"}),
        (
            "rank",
            {
                "test_rank0.cu",
                "task_graph_rank0.json",
                "kernel_metadata_rank0.json",
                "test_rank1.cu",
                "task_graph_rank1.json",
                "kernel_metadata_rank1.json",
            },
        ),
        ("plain", {"rank0", "rank1"}),
    ],
)
def test_file_names(names: FileNames, expected: set[str], tmp_path: Path) -> None:
    paths = qwen3(1, ranks=2).write(tmp_path, names=names)
    assert {path.name for path in tmp_path.iterdir()} == expected
    assert all(path.exists() for path in paths)
    assert not paths[1].read_bytes().endswith(b"\n")


# -- surgery, and the checker's eyes -----------------------------------------------------------


def test_an_edited_graph_is_what_gets_written(tmp_path: Path) -> None:
    pair = qwen3(1).emit()
    pair.graph["all_tasks"][2]["variant_id"] = 7
    _, path = pair.write(tmp_path)
    assert json.loads(path.read_text())["all_tasks"][2]["variant_id"] == 7
    pair.declaration("mlp_mid").nbytes = 1
    assert "cudaMalloc(&mlp_mid, 1)" in pair.cuda_text()


def _one_trigger_too_many(pair: Pair) -> None:
    pair.graph["all_events"][3]["num_triggers"] += 1


def _no_kernel(pair: Pair) -> None:
    pair.branches.remove(pair.branch("TASK_SILU_MUL"))


def _slot_too_far(pair: Pair) -> None:
    pair.branch("TASK_SILU_MUL").body += " i1"


def _undeclared(pair: Pair) -> None:
    pair.declarations.remove(pair.declaration("mlp_mid"))


def _too_small(pair: Pair) -> None:
    pair.declaration("mlp_mid").nbytes -= 2


def _unwritten(pair: Pair) -> None:
    for task in pair.tasks(task_type=118):
        task["outputs"][0]["offset"] = 0


def _wrong_range(pair: Pair) -> None:
    pair.graph["all_tasks"][9]["dependent_event"] += 1


def _reads_the_future(pair: Pair) -> None:
    for task in pair.tasks(tensor="layer_0_post_attn_layernorm"):
        task["inputs"][0]["base_ptr"] = "mlp_out"


def _unordered(pair: Pair) -> None:
    # The o_proj of layer 1 waits for one tile of qkv rather than for the attention.
    events = pair.graph["all_events"]
    wanted = pair.tasks(task_type=156, tensor="layer_1_o_proj")
    position = wanted[0]["dependent_event"]
    earlier = pair.tasks(task_type=153, tensor="layer_1_k_cache")
    for task in earlier:
        task["trigger_event"] = len(events) - 1
    events[-1]["num_triggers"] += len(earlier)
    qkv = pair.tasks(tensor="layer_1_qkv_proj")[0]
    events[qkv["trigger_event"]]["num_triggers"] -= 1
    qkv["trigger_event"] = position
    events[position]["num_triggers"] = 1


@pytest.mark.parametrize(
    ("breakage", "words"),
    [
        (_one_trigger_too_many, "triggers"),
        (_no_kernel, "without a branch"),
        (_slot_too_far, "which its tasks do not have"),
        (_undeclared, "not declared"),
        (_too_small, "runs past"),
        (_unwritten, "not all of it is"),
        (_wrong_range, "waits for"),
        (_reads_the_future, "before it is written"),
        (_unordered, "not ordered"),
    ],
)
def test_the_checker_sees(breakage: Callable[[Pair], None], words: str) -> None:
    pair = qwen3(2).emit()
    breakage(pair)
    assert any(words in problem for problem in check(pair)), check(pair)[:3]


def test_what_a_test_does_to_a_pair_stays_in_it() -> None:
    """Pairs of one model are written from one layout, which none of them changes."""
    model = qwen3(2)
    pair, texts = model.emit(), (model.emit().cuda_text(), model.emit().json_text())
    pair.tasks(tensor="lm_head")[0]["inputs"][0]["dims"].clear()
    pair.graph["all_events"][0]["num_triggers"] += 1
    pair.graph["first_tasks"].clear()
    object.__setattr__(pair.declaration("layer_0_qkv_proj").copies[0], "name", "another")
    pair.branches.clear()
    assert (pair.cuda_text(), pair.json_text()) != texts
    assert (model.emit().cuda_text(), model.emit().json_text()) == texts

"""``run --no-gpu`` with MPK itself: built from its sources, what it emits held to real pairs."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.building.conftest import line_of
from tests.scratch import ROOT, clean_environment

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="not built")]

MOST_SECONDS_OF_BUILDING = 240 * 2
"""Of processor time: four minutes on two cores."""

Emit = Callable[..., "subprocess.CompletedProcess[str]"]


class Row:
    """A configuration, and the folder of the pair that is known of it."""

    def __init__(self, gpu: str, config: str, demo: str, args: str, *options: str) -> None:
        self.gpu, self.config, self.options = gpu, config, options
        self.command = [f"demo/{demo}.py", "--use-mirage", *args.split()]


DENSE = "--max-num-batched-tokens 8 --max-seq-length 512"
PAIRS = {
    "fresh_qwen3_1.7b_3l_ampere_b32": Row(
        "a100",
        "q17_3",
        "qwen3/demo",
        "--max-num-batched-tokens 32 --max-num-batched-requests 4 --max-seq-length 1024",
    ),
    "fresh_qwen3_4b_3l_blackwell_b16": Row(
        "b200",
        "q4_3",
        "qwen3/demo",
        "--max-num-batched-tokens 16 --max-num-batched-requests 16 --max-seq-length 768",
    ),
    "fresh_qwen3_30b_a3b_3l_hopper_b8": Row("h100", "q30b_3", "qwen3/demo_30B_A3B_hopper", DENSE),
    "fresh_llama1b_4l_hopper": Row("h100", "llama1b_4", "llama3/demo", DENSE),
    "fresh_qwen3_4b_2l_blackwell_splitkv_seq4096": Row(
        "b200",
        "q4_2",
        "qwen3/demo",
        "--max-num-batched-tokens 8 --max-num-batched-requests 2 --max-seq-length 4096 "
        "--split-kv-cache",
    ),
    "fresh_qwen3_1.7b_3l_blackwell_tp2_tile": Row(
        "b200", "q17_3", "qwen3/demo", f"--model-path x {DENSE}", "--world-size", "2"
    ),
    "fresh_dsv3_2l_blackwell_tp8_b1": Row(
        "b200",
        "dsv3",
        "deepseek_v3/demo",
        "--model-path MODEL --layers 0,3 --max-num-batched-tokens 1 --max-seq-length 4096",
        *("--world-size", "8", "--ranks", "0"),
    ),
}


@pytest.fixture(scope="module")
def sources(mpk_sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of MPK."""
    root = tmp_path_factory.mktemp("checkout")
    with tarfile.open(mpk_sources / "mpk-source.tar.xz") as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(root, filter="data")
        else:
            archive.extractall(root)  # noqa: S202 - ours, and an older Python
    model = root / "MODEL"
    model.mkdir()
    (model / "model.safetensors").touch()  # no weights are needed, and there are none
    subprocess.run(["git", "init", "-q"], cwd=root, env=clean_environment(), check=True)
    return root


@pytest.fixture(scope="module")
def emit(sources: Path, mpk_sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Emit:
    """Emit with a demo, in the checkout; the generator is built the first time."""
    # One's own cache, if it is named, saves a developer the minutes that CI spends.
    cache = os.environ.get("MIRAGE_GATE_CACHE") or str(tmp_path_factory.mktemp("cache"))

    def emit(
        row: Row, out: Path, *, command: Sequence[str] = (), **extra: str
    ) -> subprocess.CompletedProcess[str]:
        config = mpk_sources / "kit" / "configs" / f"{row.config}.json"
        words = ["run", "--no-gpu", "--keep", out, "--gpu", row.gpu, "--mirage", "."]
        words += [*row.options, "--model-config", config, *(command or row.command)]
        return subprocess.run(
            [sys.executable, "-m", "mirage_gate", *map(str, words)],
            cwd=sources,
            env=clean_environment(
                MIRAGE_GATE_CACHE=cache,
                PYTHONPATH=str(ROOT),
                **extra,
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    return emit


def test_the_first_run_builds_and_the_second_does_not(emit: Emit, tmp_path: Path) -> None:
    row = PAIRS["fresh_qwen3_1.7b_3l_ampere_b32"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = emit(row, tmp_path / "first")
    assert done.returncode == 0, done.stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < MOST_SECONDS_OF_BUILDING
    started = time.perf_counter()
    # Without a compiler nothing can be built any more, and nothing needs to be.
    again = emit(row, tmp_path / "second", CXX="false")
    assert again.returncode == 2, "another compiler is another build"
    again = emit(row, tmp_path / "second")
    assert again.returncode == 0
    assert time.perf_counter() - started < 60


@pytest.mark.parametrize("name", PAIRS)
def test_the_pair_is_the_one_that_is_known(
    emit: Emit, whole_pairs: Path, tmp_path: Path, name: str
) -> None:
    done = emit(PAIRS[name], tmp_path)
    assert "mirage-gate: " in done.stdout, done.stdout
    ranks = sorted(tmp_path.glob("kernel_*.cu"))
    assert len(ranks) == (2 if "tp2" in name else 1)
    for file in [*ranks, *sorted(tmp_path.glob("task_graph_*.json"))]:
        expected = (whole_pairs / name / file.name).read_text()
        found = file.read_text()
        if name.startswith("fresh_dsv3") and file.suffix == ".json":
            found, expected = _without_scale_strides(found), _without_scale_strides(expected)
        assert found == expected, f"{file.name} is another"


def _without_scale_strides(text: str) -> str:
    """A graph but for how the scales of FP8 weights lie.

    The builder makes them column by column and takes a view of them as unsigned, which keeps
    their strides; the pair was emitted by a stand-in whose view does not. The test below holds
    the strides to a graph that has them right.
    """
    graph = json.loads(text)
    for task in graph["all_tasks"]:
        for tensor in task["inputs"] or ():
            if task["task_type"] in (276, 277) and re.fullmatch(
                r"layer_\d+_(?!moe).*_scale", tensor["base_ptr"]
            ):
                tensor["strides"] = tensor["offset"] = None
    return json.dumps(graph)


def test_the_graph_of_four_layers_of_deepseek_is_the_real_one(
    emit: Emit, artifacts: Path, tmp_path: Path
) -> None:
    args = "--model-path MODEL --layers 0,1,2,3 --max-num-batched-tokens 8"
    emit(Row("b200", "dsv3", "deepseek_v3/demo", args), tmp_path)
    real = artifacts / "dsv3_4l_blackwell_tp1" / "task_graph_0.json"
    assert (tmp_path / "task_graph_0.json").read_bytes() == real.read_bytes()


@pytest.mark.parametrize("name", PAIRS)
def test_every_task_is_of_the_operator_that_was_seen(emit: Emit, tmp_path: Path, name: str) -> None:
    """Operand by operand, each task of one operator: where MPK puts operators in another order too.

    DeepSeek-V3's does: the order of registration is not that of the tasks.
    """
    emit(PAIRS[name], tmp_path)
    for file in tmp_path.glob("provenance_*.json"):
        made = json.loads(file.read_text())
        graph = json.loads((tmp_path / f"task_graph_{made['rank']}.json").read_text())
        names = {tensor["name"] for tensor in made["tensors"]}
        told: set[int] = set()
        for operator in made["operators"]:
            tasks = range(operator["first_task"], operator["first_task"] + operator["tasks"])
            assert tasks, operator
            assert told.isdisjoint(tasks)
            told.update(tasks)
            for task in map(graph["all_tasks"].__getitem__, tasks):
                slots = [*(task["inputs"] or ()), *(task["outputs"] or ())]
                for slot, given in zip(slots, operator["tensors"], strict=True):
                    assert slot["base_ptr"] == (given or "nullptr")
                    assert given is None or given in names
        assert told == set(range(2, len(graph["all_tasks"])))


HOPPER = "demo/qwen3/demo_hopper.py"


def _changed(sources: Path, old: str, new: str) -> tuple[str, str]:
    """A copy of a demo with one thing changed: its path, and its text."""
    text = (sources / HOPPER).read_text()
    assert old in text
    file = sources / "demo" / "qwen3" / "changed.py"
    file.write_text(text.replace(old, new))
    return "demo/qwen3/changed.py", file.read_text()


def test_a_layer_without_rope_is_found_on_the_line_of_its_attention(
    emit: Emit, sources: Path, tmp_path: Path
) -> None:
    start = "                mpk.paged_attention_layer(\n"
    demo, text = _changed(sources, "                    cos_pos_embed=cos_pos_embed,\n"
        "                    sin_pos_embed=sin_pos_embed,\n"
        "                    output=attn_out,\n"
        "                    grid_dim=(mpk.max_num_batched_requests, num_local_kv_heads, 1),\n"
        "                    block_dim=(128",
        "                    cos_pos_embed=None if i == 2 else cos_pos_embed,\n"
        "                    sin_pos_embed=None if i == 2 else sin_pos_embed,\n"
        "                    output=attn_out,\n"
        "                    grid_dim=(mpk.max_num_batched_requests, num_local_kv_heads, 1),\n"
        "                    block_dim=(128")  # fmt: skip
    row = Row("h100", "q06_4", "", DENSE)
    done = emit(row, tmp_path, command=[demo, "--use-mirage", *DENSE.split()])
    assert done.returncode == 1, done.stdout
    line = line_of(text, start.strip("\n"))
    assert (
        f"\n{demo}:{line}:17: MG701 layer-outlier error: layer 2 runs without cos_position"
        in done.stdout
    )
    assert "made by paged_attention_layer of layer 2" in done.stdout


def test_a_norm_that_is_forgotten_is_found_where_it_is_attached(
    emit: Emit, sources: Path, tmp_path: Path
) -> None:
    demo, text = _changed(sources, "q_norm=w_q_norm,\n                    k_norm=w_k_norm,",
        "q_norm=w_q_norm if i != 1 else None,\n"
        "                    k_norm=w_k_norm if i != 1 else None,")  # fmt: skip
    row = Row("h100", "q06_4", "", DENSE)
    done = emit(row, tmp_path, command=[demo, "--use-mirage", *DENSE.split()])
    assert done.returncode == 1, done.stdout
    line = line_of(text, 'name=f"layer_{i}_q_norm"') - 1
    assert (
        f"\n{demo}:{line}:24: MG102 unwired-loaded-tensor error: host tensor layer_1_q_norm"
        in done.stdout
    )


def test_what_is_not_stood_in_for_ends_with_the_demo_s_own_traceback(
    emit: Emit, sources: Path, tmp_path: Path
) -> None:
    demo, text = _changed(sources, "        hidden_size = model.config.hidden_size\n",
        "        hidden_size = int(torch.cuda.memory_reserved())\n")  # fmt: skip
    row = Row("h100", "q06_4", "", DENSE)
    done = emit(row, tmp_path, command=[demo, "--use-mirage", *DENSE.split()])
    assert done.returncode == 2
    assert f'changed.py", line {line_of(text, "memory_reserved")}, in <module>' in done.stdout
    assert "NotStoodIn: torch.cuda.memory_reserved() is not stood in for" in done.stdout
    assert not [*tmp_path.iterdir()], "half a graph"


def test_asserts_that_a_release_build_leaves_out_are_told(emit: Emit, tmp_path: Path) -> None:
    done = emit(PAIRS["fresh_dsv3_2l_blackwell_tp8_b1"], tmp_path)
    said = re.findall(r"note: an assert that a Release build.*", done.stdout)
    assert [line for line in said if "include/mirage/threadblock/smem_tensor.h:145" in line]
    assert str(tmp_path.root) + "tmp" not in "".join(said), "paths are the checkout's"
    made = json.loads((tmp_path / "provenance_0.json").read_text())
    assert made["asserts"][0]["times"] > 1

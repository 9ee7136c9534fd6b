"""What stands in for torch and what is around it: shapes as torch has them, and nothing made up."""

from __future__ import annotations

import importlib.util
import json
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirage_gate.building.no_gpu import checkpoint, generator, session, sources
from mirage_gate.building.no_gpu.machine import GPUS, Machine
from mirage_gate.building.no_gpu.standing_in import StandIns
from mirage_gate.building.no_gpu.torch import module
from mirage_gate.building.no_gpu.torch.types import FLOAT32, Default
from mirage_gate.building.no_gpu.unknown import NotStoodIn, Unknown
from tests.command import gate_here
from tests.scratch import clean_environment


@pytest.fixture
def torch() -> Iterator[Any]:
    """The module, without a place among the imported ones."""
    yield module.modules(Machine(GPUS["h100"]))["torch"]
    Default.dtype, Default.device, Default.index = FLOAT32, "cpu", 0


def laid(tensor: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(tensor.shape), tensor.stride()


def test_views_lie_where_they_do_in_torch(torch: Any) -> None:
    t = torch.empty(4, 6, 8)
    assert laid(t) == ((4, 6, 8), (48, 8, 1))
    assert laid(t.transpose(0, 1)) == ((6, 4, 8), (8, 48, 1))
    assert laid(t[1:3, ..., None, 2]) == ((2, 6, 1), (48, 8, 8))
    assert t[1:3, ..., 2].data_ptr() - t.data_ptr() == (48 + 2) * 4
    assert laid(t.permute(2, 0, 1)) == ((8, 4, 6), (1, 48, 8))
    assert laid(t.view(24, -1)) == ((24, 8), (8, 1))
    assert laid(t[:, :3].view(4, 3, 2, 4)) == ((4, 3, 2, 4), (48, 8, 4, 1))
    assert laid(t.unsqueeze(1).expand(-1, 5, -1, -1)) == ((4, 5, 6, 8), (48, 0, 8, 1))
    assert laid(t[..., ::2]) == ((4, 6, 4), (48, 8, 2))
    assert laid(t.chunk(4, -1)[3]) == ((4, 6, 2), (48, 8, 1))
    assert t.transpose(0, 1).contiguous().data_ptr() != t.data_ptr()
    assert t.contiguous() is t
    with pytest.raises(RuntimeError, match="is no view"):
        t.transpose(0, 1).view(24, 8)
    assert laid(t.transpose(0, 1).reshape(24, 8)) == ((24, 8), (8, 1))


def test_the_same_bytes_as_another_type_keep_their_strides(torch: Any) -> None:
    columns = torch.empty_strided((128, 14), (1, 128), dtype=torch.int32)
    assert laid(columns.view(torch.uint32)) == ((128, 14), (1, 128))
    assert laid(torch.empty(3, 8, dtype=torch.int32).view(torch.uint8)) == ((3, 32), (32, 1))
    with pytest.raises(RuntimeError, match="is no view as"):
        columns.view(torch.uint8)


def test_shapes_and_types_of_what_is_computed(torch: Any) -> None:
    a, b = torch.empty(8, 1, 5, dtype=torch.bfloat16), torch.empty(3, 5)
    assert tuple((a * b).shape) == (8, 3, 5)
    assert (a * b).dtype is torch.float32
    assert (a * 2.0).dtype is torch.bfloat16
    assert (torch.arange(3) / 2).dtype is torch.float32
    assert (torch.arange(3) * 2.0).dtype is torch.float32
    assert tuple((torch.empty(7, 2, 3) @ torch.empty(3, 4)).shape) == (7, 2, 4)
    fused = torch.einsum("dhn,hnk->dhk", torch.empty(2, 3, 4), torch.empty(3, 4, 5))
    assert tuple(fused.shape) == (2, 3, 5)
    assert tuple(torch.cat([a, torch.empty(2, 1, 5)]).shape) == (10, 1, 5)
    assert tuple(torch.stack([b, b], 1).shape) == (3, 2, 5)
    assert tuple(a.amax(dim=(1, 2)).shape) == (8,)
    assert tuple(torch.pow(2.0, b).shape) == (3, 5)
    with pytest.raises(RuntimeError):
        torch.cat([b, a])
    with pytest.raises(RuntimeError):
        b @ b
    with pytest.raises(RuntimeError):
        b[0] = torch.empty(4)


def test_what_is_computed_lies_as_it_does_in_torch(torch: Any) -> None:
    """A matrix that was turned stays turned: MPK refuses to attach it, and so it must here."""
    turned = torch.empty(6, 4, dtype=torch.bfloat16).t()
    for result in (turned * 2, turned.float(), turned.exp(), turned > 0, turned.clone()):
        assert laid(result) == ((4, 6), (1, 4))
    assert laid(torch.zeros_like(turned)) == ((4, 6), (1, 4))
    assert laid(turned * torch.empty(4, 6)) == ((4, 6), (1, 4))
    assert laid(torch.empty(6) * turned) == ((4, 6), (1, 4))
    assert laid(turned.contiguous()) == ((4, 6), (6, 1))
    assert laid(torch.empty(8, 6, 3)[:, :, :1].expand(8, 6, 5).exp()) == ((8, 6, 5), (30, 5, 1))


def test_a_value_that_nobody_knows_decides_nothing(torch: Any) -> None:
    assert torch.tensor(5).item() == 5
    assert torch.full((), 7).item() == 7
    for use in (
        lambda: torch.empty(1).item(),
        lambda: torch.empty(3).tolist(),
        lambda: bool(torch.empty(1) > 0),
        lambda: torch.empty(4)[torch.empty(4) > 0],
        lambda: range(torch.cuda.memory_reserved()),
        lambda: torch.empty(torch.some.size()),
        lambda: torch.special.gammaln(torch.empty(2)).shape[0] + 1,
        lambda: torch.foo == 3,
        lambda: torch.foo() * 2,
        lambda: torch.empty(3).histc() + 1,
    ):
        with pytest.raises(NotStoodIn):
            use()


def test_what_no_graph_depends_on_is_let_through(torch: Any) -> None:
    torch.backends.cuda.matmul.allow_tf32 = True
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad(), torch.autocast(device_type="cuda"):
        torch.cuda.Event(enable_timing=True).record()

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def decorated() -> int:
        return 3

    assert decorated() == 3
    jit = Unknown("triton.jit")
    assert isinstance(jit(decorated), Unknown)
    assert "triton.jit" in repr(jit)


def test_devices(torch: Any) -> None:
    assert str(torch.empty(1).device) == "cpu"
    with torch.device("cuda"):
        assert torch.empty(1).device == torch.device("cuda:0")
    torch.cuda.set_device(3)
    assert torch.empty(1, device="cuda").device == "cuda:3"
    linear = torch.nn.Linear(4, 6, bias=False).to("cuda", torch.bfloat16)
    assert (linear.weight.dtype, str(linear.device)) == (torch.bfloat16, "cuda:3")
    assert [name for name, _ in torch.nn.ModuleList([linear]).named_parameters()] == ["0.weight"]


def test_a_gpu_answers(torch: Any) -> None:
    properties = torch.cuda.get_device_properties(0)
    assert (properties.major, properties.multi_processor_count) == (9, 132)


def test_weights_come_from_a_header_or_from_the_config(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    header = {"w": {"dtype": "BF16", "shape": [3, 4], "data_offsets": [0, 24]}}
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text)
    state = checkpoint.state(file, None)
    assert (list(state), tuple(state["w"].shape)) == (["w"], (3, 4))
    file.write_bytes(b"")
    with pytest.raises(NotStoodIn, match="--model-config"):
        checkpoint.state(file, None)
    config = {"hidden_size": 8, "vocab_size": 32, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 2, "intermediate_size": 16}
    state = checkpoint.state(file, config)
    assert tuple(state["model.layers.1.mlp.down_proj.weight"].shape) == (8, 16)
    with pytest.raises(NotStoodIn, match="has no hidden_size"):
        checkpoint.state(file, {"vocab_size": 3})


PROGRAM = """
import json, sys
from mirage_gate.building.no_gpu.machine import GPUS, Machine
from mirage_gate.building.no_gpu.standing_in import StandIns
StandIns(Machine(GPUS["h100"], 1, 2, config={"hidden_size": 8, "num_attention_heads": 2}),
         json.loads(sys.argv[1])).install()
"""


def python(text: str, more: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + text, json.dumps(more or {})],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_imported(tmp_path: Path) -> None:
    text = """
import torch, torch.nn as nn, torch.distributed as dist, triton, triton.language as tl
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM
from safetensors.torch import load_file
from mpi4py import MPI
from cuda.bindings import driver
from tqdm import tqdm
config = AutoConfig.from_pretrained("anything")
print(config.hidden_size, config.head_dim, MPI.COMM_WORLD.Get_rank(), dist.get_world_size())
print(list(tqdm([1, 2])), torch.__version__, driver.cuDeviceCanAccessPeer(0, 1)[1])
@triton.jit
def kernel(x: tl.constexpr): pass
kernel[(3,)](x=1)
"""
    done = python(text)
    assert done.stdout == "8 4 1 2\n[1, 2] 2.7.0 1\n", done.stderr
    done = python("import mine")
    assert "No module named 'mine'" in done.stderr
    assert python("import mine.deeper; mine.anything()", {"mine": ""}).returncode == 0
    own = tmp_path / "own.py"
    own.write_text("answer = 42\n")
    assert python("import mine; print(mine.answer)", {"mine": str(own)}).stdout == "42\n"
    done = python("from mpi4py import MPI; MPI.COMM_WORLD.allgather(3)")
    assert "NotStoodIn: what the other ranks gather is not stood in for" in done.stderr


def test_more_to_stand_in(tmp_path: Path) -> None:
    (tmp_path / "x.py").touch()
    assert session.stand_ins(["a.b", f"c={tmp_path}/x.py"]) == {"a.b": "", "c": f"{tmp_path}/x.py"}
    for value in ("a-b", "=x.py", "a=", f"a={tmp_path}/none.py"):
        with pytest.raises(session.NotEmitted):
            session.stand_ins([value])
    assert StandIns(Machine(GPUS["a100"])).find_spec("surely_no_module", None) is None


def checkout(root: Path) -> sources.Sources:
    for file in ("python/mirage/_cython/core.pyx", "src/kernel/runtime.cc", "include/x.h"):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    return sources.Sources(root)


def test_sources_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRAGE_HOME", raising=False)
    monkeypatch.delenv("MIRAGE_ROOT", raising=False)
    with pytest.raises(sources.NoSources, match="no such folder"):
        sources.find(str(tmp_path / "none"), None)
    with pytest.raises(sources.NoSources, match="is no checkout of MPK: it has no python/mirage"):
        sources.find(str(tmp_path), None)
    with pytest.raises(sources.NoSources, match="name a checkout with --mirage DIR"):
        sources.find(None, str(tmp_path / "script.py"))
    checkout(tmp_path)
    assert sources.find(str(tmp_path), None).root == tmp_path
    assert sources.find(None, str(tmp_path / "demo" / "script.py")).root == tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="not built there")
def test_what_is_missing_to_build_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = checkout(tmp_path)
    monkeypatch.setenv("MIRAGE_GATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(generator.CannotBuild) as caught:
        generator.build(made, print)
    said = str(caught.value)
    assert "no a C++ compiler (on Debian: apt install g++)" not in said
    assert "there is no C++ compiler (on Debian: apt install g++)" in said
    assert "no Cython (pip install 'mirage-gate[emit]')" in said
    assert "Python.h (on Debian: apt install python3-dev)" in said


def test_a_compiler_that_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = checkout(tmp_path)
    monkeypatch.setenv("MIRAGE_GATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "/no/such/compiler -x")
    with pytest.raises(generator.CannotBuild, match="/no/such/compiler -x does not run"):
        generator.build(made, print)


def test_options_that_do_not_go_together(folder: Path) -> None:
    for args, says in (
        (["--world-size", "2", "demo/builder.py"], "--world-size is for --no-gpu alone"),
        (["--mirage", "x", "demo/builder.py"], "--mirage is for --no-gpu alone"),
        (["--no-gpu", "--mirage", "x", "demo/builder.py"], "--mirage x: no such folder"),
        (["--no-gpu", "demo/builder.py"], "name a checkout with --mirage DIR"),
        (["--no-gpu", "--ranks", "3", "demo/builder.py"], "no rank 3 in a world of 1"),
        (["--no-gpu", "--stand-in", "1x", "demo/builder.py"], "'1x' is no module's name"),
    ):
        done = gate_here("run", *args, cwd=folder)
        assert done.returncode == 2, done.stdout
        assert says in done.stdout
        assert "Traceback" not in done.stdout

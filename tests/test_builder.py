"""Reading the Python that builds a graph, and moving findings to it."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage_gate.artifacts import builder
from mirage_gate.artifacts.builder import templates
from mirage_gate.artifacts.builder.names import Naming
from mirage_gate.findings import Location
from mirage_gate.locate import locate, tracked_by_git
from tests.command import gate_here
from tests.emitter import qwen3
from tests.findings import at, coverage, finding, rank, report
from tests.scratch import Repository

pytest_plugins = ("tests.sarif_validator",)

Read = builder.Builder


def read(tmp_path: Path, source: str, name: str = "demo.py") -> Read:
    path = tmp_path / name
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return builder.read(str(path))


def lines(of: Read, name: str, kind: str = "") -> list[int]:
    return [naming.location.line for naming in builder.candidates([of], name, kind)]


DEMO = """\
import mirage as mi


def build(mpk, model, world_size):
    x = mpk.attach_input(torch_tensor=tokens, name="input_token")
    cos = mpk.attach_input(
        torch_tensor=model.cos,
        name="rope_cos",
    )
    y = mpk.new_tensor((8, 4096), None, mi.bfloat16, "embed_out", "cuda_tensor")
    for i, layer in enumerate(model.layers):
        w_q = mpk.attach_input(layer.q, f"layer_{i}_q_proj")
        w_k = mpk.attach_input(layer.k, name="layer_{}_k_proj".format(i))
        w_v = mpk.attach_input(layer.v, name="layer_%d_v_proj" % i)
        prefix = "layer_" + str(i) + "_"
        mpk.shuffle_tensors(inputs=[w_q, w_k, w_v], shuffled_dim=0, num_groups=8,
                            name=prefix + "qkv_proj")
        mpk.fuse_tensors([w_q], 0, 1, f"layer_{i}_fused")
        for part in ("gate", "up"):
            name = f"{prefix}{part}_proj"
            mpk.attach_input(getattr(layer, part), name=name)
"""


def test_every_way_to_name_a_tensor(tmp_path: Path) -> None:
    demo = read(tmp_path, DEMO)
    expected = {
        "input_token": 5,
        "rope_cos": 6,
        "embed_out": 10,
        "layer_0_q_proj": 12,
        "layer_61_k_proj": 13,
        "layer_3_v_proj": 14,
        "layer_3_qkv_proj": 16,
        "layer_3_fused": 18,
        "layer_3_gate_proj": 21,
        "layer_3_up_proj": 21,
    }
    for name, line in expected.items():
        assert lines(demo, name)[:1] == [line], name
    for name in ("rope_sin", "layer_x_q_proj", "layer_3_down_proj", "layer_3_q_proj_scale", ""):
        assert lines(demo, name) == [], name


def test_the_whole_call_is_marked(tmp_path: Path) -> None:
    demo = read(tmp_path, "é = 'é'; mpk.attach_input(\n  w,\n  name='x_é')\n")
    (naming,) = builder.candidates([demo], "x_é")
    assert naming.location == Location(str(tmp_path / "demo.py"), 1, 10, 3, 14)


@pytest.mark.parametrize("receiver", ["mpk", "self.mpk", "self.builder.pk", "get_mpk()"])
def test_any_receiver(tmp_path: Path, receiver: str) -> None:
    assert lines(read(tmp_path, f"{receiver}.attach_input(w, name='rope_cos')"), "rope_cos") == [1]


def test_a_function_of_the_same_name_is_not_a_method(tmp_path: Path) -> None:
    source = "shuffle_tensors([a, b], 4, 0, 'rope_cos')\nattach_input(w, 'rope_cos')\n"
    assert lines(read(tmp_path, source), "rope_cos") == []


HELPERS = """\
class Builder:
    prefix = "x"

    def attach(self, tensor, name, *, note=None):
        safe = name.replace(".", "_")
        if safe in self.cache:
            return self.cache[safe]
        return self.mpk.attach_input(torch_tensor=tensor, name=safe)

    def weight(self, key, name):
        w = self.attach(self.state[key], name)
        s = self.attach(self.state[key + "_scale"], f"{name}_scale")

    def layer(self, i):
        self.weight("q", f"layer_{i}_q_proj")
        self.attach(self.norm, name=f"layer_{i}.norm")
        self.mpk.new_tensor(dims=(1,), name=f"layer_{i}_out")

    def model(self):
        self.cos = self.attach(self.table, "rope_cos")
        for i in range(61):
            self.layer(i)
"""


def test_names_through_helpers(tmp_path: Path) -> None:
    """The line is where the words come from, with the calls in between related."""
    of = read(tmp_path, HELPERS)
    assert lines(of, "rope_cos") == [20]
    assert lines(of, "layer_7_q_proj") == [15]
    assert lines(of, "layer_7_q_proj_scale") == [15]
    assert lines(of, "layer_7_norm") == [16]
    assert lines(of, "layer_7_out") == [17]
    (naming,) = builder.candidates([of], "layer_7_q_proj_scale")
    assert [place.line for place in naming.via] == [12, 8]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ('n = "rope_cos"\nmpk.attach_input(w, n)', "rope_cos"),
        ('mpk.attach_input(w, name="rope_" + ("cos" if a else "sin"))', "rope_sin"),
        ('for n, w in [("cos", a), ("sin", b)]:\n  mpk.attach_input(w, f"rope_{n}")', "rope_sin"),
        ('for n, w in {"cos": a, "sin": b}.items():\n  mpk.attach_input(w, n + "_t")', "sin_t"),
        ('T = {"cos": a}\nfor n in T:\n  mpk.attach_input(T[n], f"rope_{n}")', "rope_cos"),
        ('T = ["cos", "sin"]\nfor i, n in enumerate(T):\n  mpk.attach_input(w, n + "_x")', "cos_x"),
        ('for n, w in zip(("cos", "sin"), tables):\n  mpk.attach_input(w, f"a_{n}")', "a_sin"),
        ('[mpk.attach_input(w, f"w_{n}") for n in ("a", "b")]', "w_b"),
        (
            'names = [f"layer_{i}_x" for i in r]\nfor n in names:\n mpk.attach_input(w, n)',
            "layer_4_x",
        ),
        ('n = "layer_"\nn += f"{i}"\nn += "_x"\nmpk.attach_input(w, n)', "layer_12_x"),
        ('mpk.attach_input(w, "{a}_{b}".format(a="x", b=i))', "x_9"),
        ('mpk.attach_input(w, "{1}_{0}".format(i, "x"))', "x_9"),
        ('mpk.attach_input(w, "%s_%02d_%%s" % ("x", i))', "x_09_%s"),
        ('mpk.attach_input(w, f"x_{i:02d}_{j!s}_y")', "x_03_4_y"),
        ('mpk.attach_input(w, "_".join(["rope", "cos"]))', "rope_cos"),
        ('mpk.attach_input(w, "ROPE_COS".lower())', "rope_cos"),
        ('for i in range(3):\n  mpk.attach_input(w, f"w{i + 1}_x")', "w2_x"),
        ('if (n := "rope_cos"):\n  mpk.attach_input(w, n)', "rope_cos"),
        ('def f(n="rope_cos"):\n  mpk.attach_input(w, n)', "rope_cos"),
        ('def f(*, n="cos"):\n  mpk.attach_input(w, "rope_" + n)\nf()', "rope_cos"),
        ('class A:\n  def f(s):\n    s.n = "cos"\n    mpk.attach_input(w, f"r_{s.n}")', "r_cos"),
        ('async def f():\n  mpk.attach_input(w, "model.layers.0.x")', "model_layers_0_x"),
    ],
)
def test_names_that_are_built(tmp_path: Path, source: str, name: str) -> None:
    of = read(tmp_path, source)
    assert lines(of, name), of.namings
    assert not lines(of, "nothing_of_the_kind")


def test_the_most_specific_first_then_the_kind(tmp_path: Path) -> None:
    source = """\
    mpk.attach_input(w, f"{prefix}_scale")
    mpk.attach_input(w, f"layer_{i}_q_scale")
    mpk.attach_input(w, "layer_3_q_scale")
    mpk.new_tensor(d, None, t, "layer_3_q_scale")
    mpk.attach_input(w, name)
    """
    of = read(tmp_path, source)
    assert lines(of, "layer_3_q_scale", "host") == [3, 2, 1, 4]
    assert lines(of, "layer_3_q_scale", "scratch") == [4, 3, 2, 1]
    assert lines(of, "layer_4_q_scale", "host") == [2, 1]


def test_nothing_is_run(tmp_path: Path) -> None:
    source = f"open({str(tmp_path / 'ran')!r}, 'w')\nmpk.attach_input(w, 'rope_cos')\nraise 1\n"
    assert lines(read(tmp_path, source), "rope_cos") == [2]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "data",
    [
        *(b"def f(:\n", b"\x00", b"\xff\xfe\x00", b"# coding: nonsense\n", b"f'{'"),
        *(b"(" * 100_000, b"x = " + b"-" * 100_000 + b"1", b"1" * 10_000),
    ],
)
def test_what_is_no_python(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "demo.py"
    path.write_bytes(data)
    try:
        assert builder.read(str(path)).namings == ()
    except builder.BuilderError as error:
        assert str(path) in str(error)  # noqa: PT017
    with pytest.raises(builder.BuilderError, match="regular file"):
        builder.read(str(tmp_path))


@pytest.mark.parametrize(
    "source",
    [
        "n = n + 'x'\nmpk.attach_input(w, n)",
        "a = b\nb = a\nmpk.attach_input(w, f'{a}xx')",
        "def f(n):\n  f(n + 'xx')\n  mpk.attach_input(w, n + 'yy')\nf('z')",
        "def f(a, b):\n  g(b, a)\n  mpk.attach_input(w, a + 'xx' + b)\n"
        "def g(a, b):\n  f(b + 'p', a + 'q')\n",
        "mpk.attach_input(w, " + " + ".join(["'x'"] * 300) + ")",
        "mpk.attach_input(w, " + "f'{" * 1 + "x" + "}xx')",
        "\n".join(
            f"def f{n}(a):\n" + f"  f{n + 1}('x' + a)\n" * 40 + "  mpk.attach_input(w, 'yy' + a)"
            for n in range(8)
        ),
        "for a in ('p', 'q'):\n"
        + "".join(f" v{n} = v{n - 1} + a\n" for n in range(1, 200))
        + " mpk.attach_input(w, v199 + 'xx')",
    ],
)
def test_loops_in_the_source_end(tmp_path: Path, source: str) -> None:
    of = read(tmp_path, source)
    assert len(of.namings) < 5_000
    lines(of, "x" * 10_000)


@given(st.text("ab{}%_.0 1", max_size=12), st.text("ab_01", max_size=12))
def test_format_and_percent_never_raise(text: str, name: str) -> None:
    arguments: list[list[templates.Template]] = [[("a",)], [(templates.NUMBER,)]]
    for made in (
        templates.formatted(text, arguments, {"a": [("b",)]}),
        templates.percent(text, arguments),
    ):
        assert made
        for template in made:
            Naming("attach_input", template, Location("x", 1)).matches(name)


# --- Locating --------------------------------------------------------------------------


def test_where_a_finding_lands(tmp_path: Path) -> None:
    demo = read(tmp_path, DEMO)
    of = report(
        finding(tensor="rope_cos", related=(at(line=40, note="storage"),)),
        finding("no builder names it", tensor="other"),
        finding("an event", "MG401", location=at("task_graph_0.json")),
        ranks=(rank(0, coverage("rope_cos")),),
    )
    moved = {f.message: f for f in locate(of, [demo], "builder").findings}
    there = moved["rope_cos is declared and no task reads it"]
    assert (there.location.path, there.location.line) == (demo.path, 6)
    assert [(p.path, p.line, p.note) for p in there.related] == [
        ("kernel_0.cu", 41, "the artifact says it here"),
        ("kernel_0.cu", 40, "storage"),
    ]
    assert moved["no builder names it"].location.path == "kernel_0.cu"
    kept = {f.message: f for f in locate(of, [demo], "artifact").findings}
    here = kept["rope_cos is declared and no task reads it"]
    assert here.location.path == "kernel_0.cu"
    assert here.related[-1].path == demo.path
    assert here.related[-1].note == "rope_cos is named here, by attach_input"
    assert locate(of, [], "builder") is of


def test_other_candidates_are_related(tmp_path: Path) -> None:
    source = "mpk.attach_input(w, 'rope_cos')\n" * 9
    demo = read(tmp_path, source)
    (moved,) = locate(report(finding(tensor="rope_cos")), [demo], "builder").findings
    assert moved.location.line == 1
    assert [p.note for p in moved.related[1:]] == ["or named here, by attach_input"] * 4


def test_auto_asks_git(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "my repo")
    demo = read(repository.folder, DEMO)
    for folder in ("committed", "gen"):
        (repository.folder / folder).mkdir()
        (repository.folder / folder / "kernel_0.cu").write_text("", encoding="utf-8")
    repository.git("add", "demo.py", "committed")
    inside = {name: str(repository.folder / name / "kernel_0.cu") for name in ("committed", "gen")}
    outside = str(tmp_path / "kernel_0.cu")
    assert tracked_by_git([*inside.values(), outside]) == {
        inside["committed"]: True,
        inside["gen"]: False,
        outside: False,
    }
    of = report(*(finding(tensor="rope_cos", location=at(path)) for path in inside.values()))
    where = {f.location.path for f in locate(of, [demo]).findings}
    assert where == {inside["committed"], demo.path}


def test_without_git_an_artifact_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(tmp_path / "repo")
    path = str(repository.folder / "kernel_0.cu")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tracked_by_git([path]) == {path: True}
    outside = str(tmp_path / "kernel_0.cu")
    assert tracked_by_git([outside]) == {outside: False}


def test_git_is_not_led_astray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the repository runs a program, and a hook's variables do not count."""
    repository = Repository(tmp_path / "repo")
    odd = "kernel_0.cu", ":(glob)*", "-x", "*"
    for name in odd:
        (repository.folder / name).write_text("", encoding="utf-8")
    repository.git("add", "kernel_0.cu")
    repository.git("config", "core.fsmonitor", f"touch {tmp_path / 'ran'}; false")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    paths = [str(repository.folder / name) for name in odd]
    assert tracked_by_git(paths) == dict(zip(paths, [True, False, False, False], strict=True))
    assert not (tmp_path / "ran").exists()


def test_from_the_command_line(tmp_path: Path, valid_sarif: Callable[[str], None]) -> None:
    """The finding points at the attach_input line, in a folder whose name has a space."""
    repository = Repository(tmp_path / "my repo")
    source = DEMO.replace('"rope_cos"', '"cos_position_embedding"')
    read(repository.folder, source)
    (repository.folder / "broken.py").write_text("def f(:", encoding="utf-8")
    (repository.folder / ".gitignore").write_text("gen/\n", encoding="utf-8")
    repository.commit()
    qwen3(layers=2).without_rope().write(repository.folder / "gen")

    def check(*options: str) -> str:
        done = gate_here("check", "gen", *options, cwd=repository.folder)
        assert done.returncode == 1, done.stdout
        return done.stdout

    told = check("--builder", "demo.py", "--builder", "broken.py")
    assert (
        "demo.py:6:11: MG101 unwired-critical-tensor error: critical tensor cos_position_embedding"
        in told
    )
    assert "the artifact says it here" in told
    assert "builder not used: broken.py:1: is no Python" in told
    assert os.path.join("gen", "kernel_0.cu") in told  # noqa: PTH118
    kept = check("--builder=demo.py", "--locate=artifact")
    assert "gen/kernel_0.cu" in kept.split("MG101 ")[0].splitlines()[-1]
    sarif = check("--builder=demo.py", "-o", "sarif")
    assert '"uri": "demo.py"' in sarif
    assert str(tmp_path) not in sarif
    valid_sarif(sarif[sarif.index("{") :])

"""What is built, and what an installation of it can do."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import mirage_gate
from mirage_gate import schema_files
from tests.scratch import ROOT, SourceTree, clean_environment, run, succeed


def test_schemas_of_the_checkout() -> None:
    assert "task-graph" in schema_files.names()
    for name in schema_files.names():
        assert json.loads(schema_files.text(name))["$schema"].endswith("/2020-12/schema")


@pytest.mark.parametrize("name", ["", "nothing", "../pyproject", "task_graph.schema.json"])
def test_unknown_schema(name: str) -> None:
    with pytest.raises(LookupError, match="task-graph"):
        schema_files.text(name)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, source_tree: SourceTree) -> Path:
    """A folder with the source archive, and the wheel that was built out of it."""
    folder = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder))
    succeed(*build, cwd=source_tree.folder)
    return folder


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.slow
class TestBuilt:
    def test_wheel_holds_the_package_and_nothing_else(self, built: Path) -> None:
        files = contents(only(built, "*.whl"))
        tops = {name.split("/")[0] for name in files}
        assert tops == {"mirage_gate", f"mirage_gate-{mirage_gate.__version__}.dist-info"}
        assert "mirage_gate/py.typed" in files
        assert not [name for name in files if name.endswith(".pyc") or "/tests/" in name]
        for file in (ROOT / "schemas").iterdir():
            assert files[f"mirage_gate/schemas/{file.name}"] == file.read_bytes()
        for file in (ROOT / "mirage_gate").rglob("*.py"):
            assert file.relative_to(ROOT).as_posix() in files

    def test_checkout_builds_the_same_wheel(
        self, built: Path, tmp_path: Path, source_tree: SourceTree
    ) -> None:
        build = (sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir")
        succeed(*build, str(tmp_path), cwd=source_tree.folder)
        assert contents(only(tmp_path, "*.whl")) == contents(only(built, "*.whl"))

    def test_source_archive(self, built: Path) -> None:
        with tarfile.open(only(built, "*.tar.gz")) as archive:
            names = {name.split("/", 1)[1] for name in archive.getnames()}
        assert {"pyproject.toml", "README.md", "LICENSE", "mirage_gate/__init__.py"} <= names

    def test_installed(self, built: Path, tmp_path: Path) -> None:
        """A fresh environment with the wheel; its dependencies are borrowed from this one."""
        home = tmp_path / "fresh venv"
        succeed(sys.executable, "-m", "venv", "--without-pip", str(home))
        python = home / "bin" / "python"
        succeed(
            *(sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"),
            *("install", "--no-deps", "--no-index", str(only(built, "*.whl"))),
        )
        (site,) = home.glob("lib/python*/site-packages")
        borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        (site / "borrowed.pth").write_text("\n".join(sorted(borrowed)), encoding="utf-8")

        where = "import mirage_gate; print(mirage_gate.__file__)"
        assert succeed(python, "-I", "-c", where).startswith(str(site))
        for command in ([home / "bin" / "mirage-gate"], [python, "-I", "-m", "mirage_gate"]):
            output = succeed(*command, "--version", cwd=tmp_path)
            assert mirage_gate.__version__ in output
            for name in schema_files.names():
                text = succeed(*command, "schema", name, cwd=tmp_path)
                assert json.loads(text) == json.loads(schema_files.text(name))
            assert run(*command, "check", cwd=tmp_path).returncode == 2


@pytest.mark.slow
def test_demo_without_a_network_says_what_it_needs(tmp_path: Path) -> None:
    for name in ("scripts", "mirage_gate", "schemas", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    env = clean_environment(PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    done = run("sh", "scripts/demo", cwd=tmp_path, env=env)
    assert done.returncode == 1
    assert "The first run needs PyPI" in done.stdout

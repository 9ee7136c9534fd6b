"""Building MPK's task graph generator for this machine's processor, once for each of its states.

Compiled is what a task graph is made with, and no more: the kernel graph, its blocks, data types,
and the Cython binding. What else the sources refer to (the superoptimizer's search, the
transpiler, verification) stays undefined, and is never called on the way to a task graph; if it
ever is, the loader ends the process and names it. Nothing is optimized: the generator runs
for seconds, and its build is what takes time.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from mirage_gate.building.no_gpu.sources import Sources

_RECIPE = 2
"""To be raised with any change below that changes what is built."""

_HOST = Path(__file__).resolve().parent / "host"
_UNITS = ("src/kernel", "src/threadblock", "src/base")
_SINGLE = ("src/utils/json_utils.cc", "src/utils/containers.cc")
_UNREAD = "include/mirage/persistent_kernel/"
"""The kernels themselves, which nvcc compiles; host code takes constants from one header."""

_FLAGS = (
    "-std=c++17",
    "-O0",
    "-g0",
    "-fPIC",
    "-w",
    "-fpermissive",
    "-pipe",
    "-DMIRAGE_BACKEND_USE_CUDA",
    "-DMIRAGE_FINGERPRINT_USE_CPU",
)
_LINK = ("-shared", "-Wl,-z,lazy", "-Wl,--unresolved-symbols=ignore-all")


class CannotBuild(Exception):
    """The generator cannot be built; the message is a sentence, with what would help."""


class Generator(msgspec.Struct, frozen=True):
    """A built generator: the extension module's file, and whether it was there already."""

    core: Path
    reused: bool
    left_out: tuple[str, ...] = ()


class _Tools(msgspec.Struct, frozen=True):
    """What it is built with. ``version`` is that of all of it, in words."""

    compiler: tuple[str, ...]
    json: Path
    version: str


def build(sources: Sources, say: Callable[[str], None]) -> Generator:
    """Build the generator, or find it built. Raises :class:`CannotBuild`."""
    tools = _tools(sources)
    cache = _cache()
    headers = _digest(_headers(sources.root), sources.root)
    binding = sorted((sources.package / "_cython").glob("*.p[xy]*"))
    key = _hash(
        " ".join((str(_RECIPE), *_FLAGS, *_LINK)),
        tools.version,
        headers,
        _digest(_units(sources.root), sources.root),
        _digest(binding, sources.root),
        _digest(sorted(_HOST.rglob("*.*")), _HOST),
    )
    done = cache / f"{key}{sysconfig.get_config_var('EXT_SUFFIX') or '.so'}"
    notes = done.with_suffix(".left-out")
    if done.is_file():
        return Generator(done, True, _lines(notes))
    with _alone(cache / f"{key}.lock"):
        if done.is_file():
            return Generator(done, True, _lines(notes))
        with tempfile.TemporaryDirectory(dir=cache, prefix=".building.") as folder:
            left_out = _build(sources, tools, Path(folder), cache / "objects", headers, say)
            notes.write_text("".join(f"{line}\n" for line in left_out), encoding="utf-8")
            (Path(folder) / "core.so").replace(done)
    return Generator(done, False, left_out)


def _lines(file: Path) -> tuple[str, ...]:
    with contextlib.suppress(OSError):
        return tuple(file.read_text(encoding="utf-8").splitlines())
    return ()


# --- What there is to build with --------------------------------------------------------


def _tools(sources: Sources) -> _Tools:
    if not sys.platform.startswith("linux"):
        raise CannotBuild(f"the generator is built on Linux, and this is {sys.platform}")
    missing = []
    compiler = _compiler()
    if not compiler:
        missing.append("C++ compiler (on Debian: apt install g++)")
    if importlib.util.find_spec("Cython") is None:
        missing.append("Cython (pip install 'mirage-gate[emit]')")
    json = _json(sources.root)
    if json is None:
        missing.append(
            "header of nlohmann-json (pip install 'mirage-gate[emit]', or on Debian: apt "
            "install nlohmann-json3-dev)"
        )
    python = Path(sysconfig.get_paths()["include"])
    if not (python / "Python.h").is_file():
        missing.append(f"{python}/Python.h (on Debian: apt install python3-dev)")
    if missing or json is None:
        raise CannotBuild(f"to build MPK's generator, there is no {'; no '.join(missing)}")
    try:
        told = subprocess.run(  # noqa: S603
            [*compiler, "--version"], capture_output=True, check=True, timeout=60
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotBuild(f"{shlex.join(compiler)} does not run: {error}") from error
    from importlib.metadata import version

    words = (told.split("\n")[0], f"Cython {version('Cython')}", sys.version, str(json))
    return _Tools(compiler, json, "; ".join(words))


def _compiler() -> tuple[str, ...]:
    if os.environ.get("CXX"):
        return tuple(shlex.split(os.environ["CXX"]))
    return next(((name,) for name in ("g++", "clang++", "c++") if shutil.which(name)), ())


def _json(root: Path) -> Path | None:
    folders = [root / "deps" / "json" / "include"]
    spec = importlib.util.find_spec("nlohmann_json")
    folders += [
        Path(folder) / "include" for folder in (spec and spec.submodule_search_locations) or ()
    ]
    folders += [Path("/usr/local/include"), Path("/usr/include")]
    return next((folder for folder in folders if (folder / "nlohmann/json.hpp").is_file()), None)


def _cache() -> Path:
    if os.environ.get("MIRAGE_GATE_CACHE"):
        cache = Path(os.environ["MIRAGE_GATE_CACHE"])
    else:
        try:
            from platformdirs import user_cache_path
        except ImportError as error:
            raise CannotBuild(
                "there is no platformdirs, which knows where to keep the built generator (pip "
                "install 'mirage-gate[emit]')"
            ) from error
        cache = user_cache_path("mirage-gate", appauthor=False) / "emit"
    try:
        (cache / "objects").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotBuild(
            f"{cache} cannot be written, to keep the built generator in: {error.strerror}; "
            "MIRAGE_GATE_CACHE names another folder"
        ) from error
    return cache


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Keep two processes from building the same thing at a time."""
    import fcntl

    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- What it is built from --------------------------------------------------------------


def _units(root: Path) -> list[Path]:
    units = [unit for folder in _UNITS for unit in sorted((root / folder).glob("*.cc"))]
    return [*units, *(root / name for name in _SINGLE if (root / name).is_file())]


def _headers(root: Path) -> list[Path]:
    every = (path for path in (root / "include").rglob("*") if path.is_file())
    return sorted(
        path
        for path in every
        if path.suffix in (".h", ".hpp", ".inl")
        and (
            not path.relative_to(root).as_posix().startswith(_UNREAD)
            or path.parent.name == "persistent_kernel"
        )
    )


def _digest(paths: Iterable[Path], root: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        if path.is_file():
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


# --- Building ---------------------------------------------------------------------------


class _Missing(Exception):
    """A unit includes something that is not here."""


def _build(
    sources: Sources,
    tools: _Tools,
    folder: Path,
    objects: Path,
    headers: str,
    say: Callable[[str], None],
) -> tuple[str, ...]:
    """Make ``core.so`` in a folder; give the units that were left out, and why."""
    binding = _binding(sources, folder)
    units = [*_units(sources.root), _HOST / "asserts.cc", binding]
    flags = (
        *_FLAGS,
        f"-I{_HOST}",
        f"-I{sources.root / 'include'}",
        f"-I{sysconfig.get_paths()['include']}",
        f"-I{tools.json}",
        f"-ffile-prefix-map={sources.root}/=",
        "-include",
        "assert.h",
    )
    stubs = _digest(sorted(_HOST.rglob("*.*")), _HOST)
    done = 0

    def compiled(unit: Path) -> Path | str:
        nonlocal done
        source = _digest([unit], unit.parent)
        key = _hash(tools.version, headers, stubs, " ".join((str(_RECIPE), *_FLAGS)), source)
        kept = objects / f"{key}.o"
        if not kept.is_file():
            try:
                _compile((*tools.compiler, *flags), unit, kept, folder)
            except _Missing as error:
                return f"{unit.name}: {error}"
        done += 1
        say(f"building MPK's generator: {done} of {len(units)} files")
        return kept

    with ThreadPoolExecutor(_processors()) as pool:
        # The long ones first, or the last would be waited for alone.
        results = list(pool.map(compiled, sorted(units, key=lambda unit: -unit.stat().st_size)))
    linked = [str(result) for result in results if isinstance(result, Path)]
    _call([*tools.compiler, *_LINK, "-o", str(folder / "core.so"), *sorted(linked)], "linking it")
    return tuple(result for result in results if isinstance(result, str))


def _binding(sources: Sources, folder: Path) -> Path:
    for file in (sources.package / "_cython").glob("*.p[xy]*"):
        shutil.copy(file, folder)
    command = [sys.executable, "-m", "cython", "--cplus", "-3", "core.pyx", "-o", "core.cpp"]
    _call(command, "translating core.pyx", folder)
    return folder / "core.cpp"


def _compile(command: Sequence[str], unit: Path, into: Path, folder: Path) -> None:
    temporary = folder / f"{into.name}.{unit.stem}"
    done = subprocess.run(  # noqa: S603
        [*command, "-c", str(unit), "-o", str(temporary)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if not done.returncode:
        temporary.replace(into)
        return
    errors = [line for line in done.stderr.decode(errors="replace").split("\n") if "error:" in line]
    first = errors[0] if errors else f"{command[0]} ended with {done.returncode}"
    if "fatal error:" in first and "No such file" in first and unit.suffix == ".cc":
        # Not needed for a task graph, or it would be missed at once.
        raise _Missing(first.split("fatal error:")[1].strip())
    raise CannotBuild(f"{unit.name} does not compile: {first}")


def _call(command: Sequence[str], what: str, folder: Path | None = None) -> None:
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise CannotBuild(f"{what}: {command[0]} does not run: {error.strerror}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().split("\n")
        line = next((line for line in said if "rror" in line), said[-1])
        raise CannotBuild(f"{what} fails: {line.strip()}")


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2

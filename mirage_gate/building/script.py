"""Running a builder as ``python SCRIPT`` would, in this process, and learning how it ended."""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import runpy
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import msgspec

_HERE = str(Path(__file__).resolve().parent) + os.sep


class CannotRun(Exception):
    """There is nothing to run; the message is a sentence."""


class Ended(msgspec.Struct, frozen=True):
    """How a script came to its end: its own exit status, and whether it raised."""

    status: int
    raised: str = ""


class Tally:
    """What was emitted and what failed, in this process and in those that it forks."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 2)  # anonymous, and shared with children

    def add(self, failed: bool) -> None:
        self._shared[0] = 1
        if failed:
            self._shared[1] = 1

    @property
    def emitted(self) -> bool:
        return bool(self._shared[0])

    @property
    def failed(self) -> bool:
        return bool(self._shared[1])


def run(target: str, args: Sequence[str], *, module: bool, leave: Callable[[int], int]) -> Ended:
    """Run a script, or a module as ``python -m`` does, and wait for its threads.

    ``leave`` turns the status that the script asks for with ``os._exit`` into the one that
    the process ends with. Raises :class:`CannotRun`.
    """
    code = None if module else _compiled(target)
    sys.argv = [target, *args]
    # Python has put there where it was started from, unless it was told not to (-I, -P).
    sys.path[0 : 0 if getattr(sys.flags, "safe_path", sys.flags.isolated) else 1] = [
        os.getcwd() if module else _folder(target)  # noqa: PTH109
    ]
    gc.enable()
    with _exits(leave):
        ended = _run(target, code)
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
    return ended


def _folder(script: str) -> str:
    return os.path.dirname(os.path.realpath(script))  # noqa: PTH120


def _compiled(script: str) -> types.CodeType:
    path = Path(script)
    if path.is_dir():
        raise CannotRun(f"{script} is a folder: name the script in it")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise CannotRun(f"{script} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise CannotRun("the script's path holds a zero byte") from error
    try:
        return compile(source, script, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        where = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise CannotRun(f"{script}{where} is no Python: {error}") from error


def _run(target: str, code: types.CodeType | None) -> Ended:
    try:
        if code is None:
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            main = types.ModuleType("__main__")
            main.__dict__.update(__file__=target, __builtins__=__builtins__, __spec__=None)
            sys.modules["__main__"] = main
            exec(code, main.__dict__)  # noqa: S102 - asked to
    except SystemExit as error:
        return Ended(_status(error.code))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if code is None and isinstance(error, ImportError) and _ours(error.__traceback__):
            raise CannotRun(f"-m {target}: {error}") from error
        sys.stdout.flush()
        error = error.with_traceback(_without_us(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        return Ended(1, type(error).__name__)
    return Ended(0)


def _status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _outside(trace: TracebackType) -> bool:
    file = trace.tb_frame.f_code.co_filename
    return not file.startswith((_HERE, "<frozen runpy>")) and file != runpy.__file__


def _without_us(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the script's own first frame on."""
    first = trace
    while first is not None and not _outside(first):
        first = first.tb_next
    return first or trace


def _ours(trace: TracebackType | None) -> bool:
    """Whether nothing of the script ran."""
    while trace is not None:
        if _outside(trace):
            return False
        trace = trace.tb_next
    return True


@contextlib.contextmanager
def _exits(leave: Callable[[int], int]) -> Iterator[None]:
    """Have ``os._exit`` and ``os.exec*`` of this process go through the gate."""
    owner = os.getpid()
    leave_at_once, replace = os._exit, (os.execv, os.execve)

    def _exit(status: int) -> NoReturn:
        if os.getpid() == owner:
            status = leave(status)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    stream.flush()
        leave_at_once(status)

    def replacing(run: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
        def execute(*args: Any, **kwargs: Any) -> NoReturn:
            if os.getpid() == owner and (status := leave(0)):
                leave_at_once(status)
            run(*args, **kwargs)

        return execute

    os._exit = _exit
    os.execv, os.execve = replacing(replace[0]), replacing(replace[1])
    try:
        yield
    finally:
        os._exit = leave_at_once
        os.execv, os.execve = replace

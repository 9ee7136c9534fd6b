"""What git knows: which files it tracks, which commit is checked out.

Git is asked few things, and runs nothing of the repository that it is asked of: no hook, no file
system monitor, no pager, no fetch of what a partial clone left out. That is why a repository of
another user, as in a job's container, may be asked as well, which git would else refuse.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

_OF_ANOTHER_REPOSITORY = {
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
}
"""What git gives to a hook, which may run in another repository than the artifacts are in."""

_SECONDS = 20


class Silent(Exception):
    """Git gave no answer; the message says why."""


def listed(folder: str, names: Sequence[str]) -> set[str]:
    """Give those of a folder's files that are in git's index. Raises :class:`Silent`."""
    answer = _ask(folder, "ls-files", "-z", "--", *names)
    return {os.fsdecode(name) for name in answer.split(b"\0")}


def commit(folder: str) -> str:
    """Give the commit that is checked out, in twelve digits; nothing where there is none."""
    try:
        return _ask(folder, "rev-parse", "--short=12", "--verify", "HEAD").decode().strip()
    except (Silent, UnicodeDecodeError):
        return ""


def _ask(folder: str, *words: str) -> bytes:
    environment = {
        name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY
    }
    environment |= {
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
    settings = ("-c", "core.fsmonitor=false", "-c", "safe.directory=*")
    try:
        done = subprocess.run(  # noqa: S603
            ["git", *settings, "-C", folder, *words],  # noqa: S607
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise Silent(f"no answer in {_SECONDS} s") from error
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise Silent(getattr(error, "strerror", None) or str(error)) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", errors="replace").strip().splitlines()
        raise Silent(said[0] if said else f"status {done.returncode}")
    return done.stdout

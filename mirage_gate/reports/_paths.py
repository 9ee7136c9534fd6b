"""Paths as reports show them, and as URIs.

GitHub matches a result to a file of the pull request by a URI relative to the repository's
root, percent-encoded, with forward slashes and no ``./``.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote_from_bytes


def git_root(start: str | os.PathLike[str]) -> str | None:
    """The nearest folder at or above ``start`` that holds ``.git``, without running git.

    ``.git`` is a file in a worktree and in a submodule.
    """
    here = Path(start).resolve()
    return next((str(up) for up in (here, *here.parents) if os.path.lexists(up / ".git")), None)


def report_root(start: str | os.PathLike[str]) -> str:
    """The folder that paths are shown relative to: the repository's root, else ``start``.

    In a job of GitHub's or GitLab's that is the repository the job checked out, also from
    within one of its submodules: what is shown and uploaded is matched with its files.
    """
    root = git_root(start) or os.path.realpath(start)
    for variable in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        workspace = os.environ.get(variable)
        if workspace and os.path.lexists(os.path.join(workspace, ".git")):  # noqa: PTH118
            outer = os.path.realpath(workspace)
            if root == outer or relative(root, outer) is not None:
                return outer
    return root


def relative(path: str, root: str) -> str | None:
    """``path`` as seen from ``root``, with forward slashes; None if it lies outside.

    Where the two only meet behind a symbolic link, they do meet.
    """
    for real in (False, True):
        if (inside := _below(_absolute(path, real), _absolute(root, real))) is not None:
            return inside
    return None


def shown(path: str, root: str) -> str:
    """``path`` relative to ``root`` if it lies inside, else as it was given."""
    inside = relative(path, root)
    return path if inside is None else inside


def relative_uri(path: str, root: str) -> str | None:
    """The URI reference of ``path`` relative to ``root``; None if it lies outside."""
    inside = relative(path, root)
    # A colon in the first segment would read as a scheme, so none stays bare.
    return None if inside is None else quote_from_bytes(_encoded(inside), safe="/")


def file_uri(path: str) -> str:
    """The absolute ``file:`` URI of ``path``."""
    absolute = _absolute(path, real=False)
    try:
        return absolute.as_uri()
    except UnicodeEncodeError:
        return f"file://{quote_from_bytes(_encoded(absolute.as_posix()), safe='/')}"


def _encoded(path: str) -> bytes:
    """A path's bytes; of what is no file's name, since a builder may show any, an escape."""
    try:
        return os.fsencode(path)
    except UnicodeEncodeError:
        return path.encode("utf-8", errors="backslashreplace")


def _absolute(path: str, real: bool) -> Path:
    try:
        return Path(os.path.realpath(path) if real else os.path.abspath(path))  # noqa: PTH100
    except (OSError, ValueError):
        return Path(os.path.abspath(path))  # noqa: PTH100 - a name that no file can have


def _below(path: Path, root: Path) -> str | None:
    try:
        return path.relative_to(root).as_posix()
    except ValueError:
        return None

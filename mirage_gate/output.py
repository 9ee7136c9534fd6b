"""Writing a report: whole or not at all, and only where the user said."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def writable(path: Path) -> bool:
    """Make the folder of a report, and see that the report can be written there.

    Gives whether it will be a regular file: not a device or a pipe, which several may share.
    Raises :class:`OSError`.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        return False
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    # The temporary file that becomes the report: nothing less tells of quotas, name lengths
    # and file systems that are read-only.
    descriptor, temporary = _beside(path)
    os.close(descriptor)
    Path(temporary).unlink()
    return True


def _beside(path: Path) -> tuple[int, str]:
    import tempfile  # loads much, for a report to a file only

    return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")


def write(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` by way of a temporary file beside it, renamed at the end.

    A reader never sees half a report. A symbolic link is replaced, not followed; a device
    or a pipe, such as ``/dev/stderr``, is written to as it is. Raises :class:`OSError`.
    """
    data = text.encode("utf-8", errors="backslashreplace")
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        path.write_bytes(data)
        return
    descriptor, temporary = _beside(path)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
        mode = 0o666 & ~_umask()
        os.chmod(temporary, mode)  # noqa: PTH101 - mkstemp made it private
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask

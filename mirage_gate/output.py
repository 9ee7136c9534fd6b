"""Writing a report: whole or not at all, and only where the user said."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` by way of a temporary file beside it, renamed at the end.

    A reader never sees half a report. A symbolic link is replaced, not followed; a device
    or a pipe, such as ``/dev/stderr``, is written to as it is. Raises :class:`OSError`.
    """
    data = text.encode("utf-8", errors="backslashreplace")
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        path.write_bytes(data)
        return
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
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

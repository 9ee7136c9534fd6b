"""Regular expressions that most runs do not need, compiled when one does.

To compile a pattern takes as long as to import the module that it stands in.
"""

from __future__ import annotations

import re
from typing import cast


class _Later:
    """Stands for a pattern. What is asked of it is kept, so it is looked up once."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._as_written = pattern, flags

    def __getattr__(self, name: str) -> object:
        # re keeps what it has compiled, so another attribute costs a look-up.
        value: object = getattr(re.compile(*self._as_written), name)
        setattr(self, name, value)
        return value


def later(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Give a pattern that is compiled when something is first asked of it.

    Its methods are a pattern's own. It is none to ``isinstance``, nor to ``re.sub`` and such.
    """
    return cast("re.Pattern[str]", _Later(pattern, flags))

"""The commands: one module each, with a click command called ``command``.

To add a command, add a module: the command line finds it by itself and imports it only when
it runs.
"""

from __future__ import annotations

"""mirage-gate: a read-only gate for Mirage Persistent Kernel megakernels."""

from __future__ import annotations

__version__ = "0.1.0"
__url__ = "https://github.com/mirage-gate/mirage-gate"

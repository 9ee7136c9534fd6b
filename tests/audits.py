"""Audits of which a test looks at the findings alone."""

from __future__ import annotations

from functools import partial

from mirage_gate.auditing import ranks

__all__ = ["findings_of", "findings_of_files"]

findings_of = partial(ranks.audit, by_layer=False)
"""As :func:`mirage_gate.audit`, without what only a drawing shows: half of the work where one rule
is asked."""

findings_of_files = partial(ranks.check, by_layer=False)
"""The same of files."""

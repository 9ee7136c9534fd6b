"""The audit: a pair of files in, a report out.

:mod:`~mirage_gate.auditing.ranks` takes all ranks through, :mod:`~mirage_gate.auditing.rank`
each: :mod:`~mirage_gate.auditing.reading` reads it and gives its facts,
:mod:`~mirage_gate.auditing.asking` asks the rules that :mod:`~mirage_gate.auditing.selection`
lets speak, :mod:`~mirage_gate.auditing.counting` counts what there is to see.
"""

from __future__ import annotations

"""What was agreed on, and what is kept to compare with: summaries, the lock, waivers, a baseline.

What compares a run with them are rules (:mod:`mirage_gate.rules`).
"""

from __future__ import annotations

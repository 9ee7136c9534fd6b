"""The rules: one module per family, each rule one function with its whole story.

To add a rule, write a function under :func:`mirage_gate.rules.base.rule` in the family's
module (or a new ``mgN_*.py``; every module here with that shape is found by itself).
"""

from __future__ import annotations

from mirage_gate.rules.base import Rule, all_rules, rule_by_id

__all__ = ["Rule", "all_rules", "rule_by_id"]

"""The rules: one folder per family, one file per rule, found because the file is there.

A rule's file holds its text, then its check. What siblings share stands in modules of the
family whose names begin with an underscore.
"""

from __future__ import annotations

from mirage_gate.rules.base import Rule, all_rules, rule_by_id

__all__ = ["Rule", "all_rules", "rule_by_id"]

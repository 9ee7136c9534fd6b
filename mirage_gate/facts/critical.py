"""Which declared names are critical: a model that loses them compiles, runs and babbles."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import msgspec

EXACT = ("rope_cos", "rope_sin", "cos_pos_embed", "sin_pos_embed")
"""The rotary tables' names in MPK's own builders. These hold for any kind of storage."""

PATTERNS = (
    "cos_position_embedding",
    "sin_position_embedding",
    "cos_pos_embed_*",
    "sin_pos_embed_*",
    "*rope*",
    "*rotary*",
    "*cos_sin*",
    "cos",
    "sin",
    "cos_cache",
    "sin_cache",
    "cos_table",
    "sin_table",
    "*.cos",
    "*.sin",
)
"""Other names in use for rotary tables; for host and shuffled tensors only.

A scratch ``q_rope_out`` is an activation, no table; a name that carries a layer's number,
such as ``layer_0_kv_a_rope``, is that layer's weight.
"""

_LAYER_NUMBER = re.compile(r"(?:^|[._])layers?[._]\d")
_TABLE_KINDS = frozenset({"host", "shuffled"})


class Critical(msgspec.Struct, frozen=True):
    """The names and patterns in force. ``asked`` are the exact names a user gave."""

    exact: tuple[str, ...] = EXACT
    patterns: tuple[str, ...] = PATTERNS
    asked: tuple[str, ...] = ()

    @classmethod
    def of(cls, words: tuple[str, ...]) -> Critical:
        """Read ``--critical``: a list replaces the built-in names, ``+NAME`` adds to them."""
        added = tuple(word[1:] for word in words if word.startswith("+"))
        given = tuple(word for word in words if not word.startswith("+"))
        names = given + added
        exact = tuple(name for name in names if not _is_pattern(name))
        patterns = tuple(name for name in names if _is_pattern(name))
        if given:
            return cls(exact, patterns, asked=exact)
        return cls(EXACT + exact, PATTERNS + patterns, asked=exact)

    def matches(self, name: str, kind: str) -> bool:
        """Whether a tensor of this name and storage kind is critical."""
        if name in self.exact:
            return True
        return (
            kind in _TABLE_KINDS
            and not _LAYER_NUMBER.search(name)
            and any(fnmatchcase(name, pattern) for pattern in self.patterns)
        )


def _is_pattern(word: str) -> bool:
    return any(mark in word for mark in "*?[")

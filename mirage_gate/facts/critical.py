"""Which declared names are critical: a model that loses them compiles, runs and babbles."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import msgspec

from mirage_gate.artifacts.cuda import LOADED

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
such as ``layer_0_kv_a_rope``, is that layer's weight, unless it ends as tables do.
"""

_LAYER_NUMBER = re.compile(r"(?:^|[._])layers?[._]\d")
_TABLE_OF_A_LAYER = re.compile(r"[._](?:cos|sin)(?:_cache|_table|_embed)?$")


class Critical(msgspec.Struct, frozen=True):
    """The names and patterns in force.

    ``exact`` names hold for any storage, patterns for what the host fills. ``asked`` are the
    exact names that a user gave; ``built_in`` says whether the built-in patterns hold too.
    """

    exact: tuple[str, ...] = EXACT
    patterns: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    built_in: bool = True

    @classmethod
    def of(cls, words: tuple[str, ...]) -> Critical:
        """Read ``--critical``: a list replaces the built-in names, ``+NAME`` adds to them."""
        names = tuple(word.removeprefix("+") for word in words)
        exact = tuple(name for name in names if not _is_pattern(name))
        patterns = tuple(name for name in names if _is_pattern(name))
        replaced = any(not word.startswith("+") for word in words)
        return cls(exact if replaced else EXACT + exact, patterns, exact, not replaced)

    def matches(self, name: str, kind: str) -> bool:
        """Whether a tensor of this name and storage kind is critical."""
        if name in self.exact:
            return True
        if kind not in LOADED and kind != "unknown":
            return False
        if any(fnmatchcase(name, pattern) for pattern in self.patterns):
            return True
        return self.built_in and _is_table(name)


def _is_table(name: str) -> bool:
    if _LAYER_NUMBER.search(name) and not _TABLE_OF_A_LAYER.search(name):
        return False
    return any(fnmatchcase(name, pattern) for pattern in PATTERNS)


def _is_pattern(word: str) -> bool:
    return any(mark in word for mark in "*?[")

"""Cases for the rules: where each fires, and where its nearest correct neighbour is silent.

A rule's cases are one file, ``tests/rules/<family>/test_<rule_name>.py``. A case is a function
that returns what is audited, and the decorator makes it a test:

    @fires("MG101", cuda='all_tensors["rope_cos"]', says=("input_refs=0",))
    def test_no_layer_reads_the_tables() -> Pair:
        return qwen3(2).without_rope().emit()

    @silent("MG101")
    def test_one_layer_is_enough() -> Pair:
        return qwen3(2).without_rope(layer=0).emit()

``cuda`` is the text of the line the finding must be on, ``graph`` the path of the JSON value. A
run of several ranks is a list of pairs; :class:`Held` is a model held to another's lock,
:class:`Waived` a pair with waivers, :class:`Texts` two texts of any kind, a path a folder of files.
Where a place or a word comes out only while the case is built, it returns an :class:`Expect`.
What several rules of a family share is in the family's ``_shared.py``.
"""

from __future__ import annotations

from .cases import (
    CASES,
    At,
    Case,
    Expect,
    Held,
    Path,
    Ranks,
    Subject,
    Texts,
    Waived,
    fires,
    graph_line,
    line_of,
    lock_of,
    report_of,
    silent,
    where,
    with_text,
)

__all__ = [
    "CASES",
    "At",
    "Case",
    "Expect",
    "Held",
    "Path",
    "Ranks",
    "Subject",
    "Texts",
    "Waived",
    "fires",
    "graph_line",
    "line_of",
    "lock_of",
    "report_of",
    "silent",
    "where",
    "with_text",
]

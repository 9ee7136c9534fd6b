"""Which layers normalise queries and keys with weights of their own."""

from __future__ import annotations

from mirage_gate.artifacts.model import families
from mirage_gate.artifacts.model.document import Document
from mirage_gate.artifacts.model.promise import NOTHING, Promise

_KEYS = ("use_qk_norm", "qk_layernorm", "qk_norm", "use_qk_layernorm")


def qk_norm(document: Document, attention: Promise) -> Promise:
    """Read which of the layers with attention do.

    Norms without weights (Llama 4) promise nothing: no operand of a task would show them.
    """
    keys = document.keys
    kind = keys.text("model_type")
    flags = [flag for key in _KEYS if (flag := keys.flag(key)) is not None]
    if kind in families.QK_NORM and False not in flags:
        return Promise(having=attention.having)
    if kind in families.QK_NORM_BY_KEY and True in flags:
        return Promise(having=attention.having)
    return NOTHING

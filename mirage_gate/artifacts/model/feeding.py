"""Which layers have a feed-forward network, dense or of experts."""

from __future__ import annotations

from mirage_gate.artifacts.model import families
from mirage_gate.artifacts.model.document import Document, Keys
from mirage_gate.artifacts.model.promise import NOTHING, Promise, exactly, where


def feed_forward(document: Document) -> Promise:
    """Read the blocks of a searched architecture; Llama and its kin have one in every layer."""
    keys, every = document.keys, range(document.layers)
    if blocks := keys.objects("block_configs"):
        return where(lambda i: _block(blocks[i]) if i < len(blocks) else None, every)
    return exactly(every, every) if keys.text("model_type") in families.LLAMA else NOTHING


def _block(block: Keys) -> bool | None:
    inner = block.inner("ffn")
    if inner.flag("no_op"):
        return False
    # What stands in its place may be called so all the same.
    return None if inner.flag("replace_with_linear") or not block.has("ffn") else True

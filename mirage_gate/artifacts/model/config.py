"""A ``config.json`` read whole: what it promises of each layer, its sizes, its keys."""

from __future__ import annotations

import msgspec

from mirage_gate.artifacts.model.attention import attention
from mirage_gate.artifacts.model.document import Document, load, places
from mirage_gate.artifacts.model.feeding import feed_forward
from mirage_gate.artifacts.model.mixture import mixture
from mirage_gate.artifacts.model.norms import qk_norm
from mirage_gate.artifacts.model.promise import Promise
from mirage_gate.artifacts.model.rotary import rotary
from mirage_gate.artifacts.model.sizes import Sizes, sizes
from mirage_gate.findings import Location

_SILENT = frozenset(
    {
        *("architectures", "transformers_version", "torch_dtype", "dtype", "use_cache"),
        *("initializer_range", "bos_token_id", "eos_token_id", "pad_token_id", "auto_map"),
        *("_name_or_path", "attention_dropout", "model_type", "pretraining_tp"),
        *("quantization_config", "text_config", "vision_config", "hidden_dropout"),
    }
)
"""Keys that say nothing about a graph's wiring: not worth a word when they are passed over."""


_EXTRA = ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_layers")


class ModelConfig(msgspec.Struct, frozen=True):
    """What the description says of each layer.

    ``architecture`` is the class it names (``Qwen3ForCausalLM``), empty if none. ``keys``
    gives the place of each key; ``unread`` are those that promise nothing here.
    ``extra_layers`` are of multi-token prediction, behind the model's own.
    """

    path: str
    layers: int
    model_type: str = ""
    architecture: str = ""
    attention: Promise = Promise()
    feed_forward: Promise = Promise()
    rotary: Promise = Promise()
    qk_norm: Promise = Promise()
    mixture: Promise = Promise()
    sizes: Sizes = Sizes()
    extra_layers: int = 0
    keys: dict[str, Location] = msgspec.field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def place(self, *keys: str) -> Location:
        """Point at the first of some keys that the file has."""
        found = next((self.keys[key] for key in keys if key in self.keys), None)
        return found or Location(self.path, 1, 1, 1, 1)

    @property
    def name(self) -> str:
        """What to call the model: its architecture, else its type, else its file."""
        return self.architecture or self.model_type or self.path


def read(path: str) -> ModelConfig:
    """Read one file. Raises :class:`ModelConfigError`."""
    document = load(path)
    keys = document.keys
    attending = attention(document)
    config = ModelConfig(
        path=path,
        layers=document.layers,
        model_type=keys.text("model_type") or document.outer.text("model_type"),
        architecture=_architecture(document),
        attention=attending,
        feed_forward=feed_forward(document),
        rotary=rotary(document, attending),
        qk_norm=qk_norm(document, attending),
        mixture=mixture(document),
        sizes=sizes(document),
        extra_layers=min(keys.number(*_EXTRA) or 0, document.layers),
        keys=places(document),
    )
    unread = sorted(key for key in keys if key not in keys.used and key not in _SILENT)
    return msgspec.structs.replace(config, unread=tuple(unread))


def _architecture(document: Document) -> str:
    named = document.outer.words("architectures") or document.keys.words("architectures")
    return named[0] if named else ""

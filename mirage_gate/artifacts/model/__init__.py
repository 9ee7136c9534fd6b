"""Reading what a model was meant to be: its ``config.json``, and its checkpoint's index.

:func:`read` gives a :class:`ModelConfig`: what the configuration promises of each layer, and
the sizes it names. Keys and their meaning are those of the transformers library. A key that
is not there, or that no module of this package knows, promises nothing.
"""

from mirage_gate.artifacts.model.config import ModelConfig, read
from mirage_gate.artifacts.model.document import ModelConfigError
from mirage_gate.artifacts.model.promise import Promise
from mirage_gate.artifacts.model.sizes import Sizes

__all__ = ["ModelConfig", "ModelConfigError", "Promise", "Sizes", "read"]

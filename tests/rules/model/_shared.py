"""What cases of rules that hold a graph to its model build on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mirage_gate.artifacts import model


def config(folder: Path, document: Any) -> model.ModelConfig:
    """Read a configuration with these keys."""
    file = folder / "config.json"
    file.write_text(json.dumps(document, indent=2))
    return model.read(str(file))

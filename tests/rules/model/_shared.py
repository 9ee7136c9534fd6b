"""What cases of rules that hold a graph to its model build on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mirage_gate import Finding, Options, Selection
from mirage_gate.artifacts import model
from tests.audits import findings_of
from tests.emitter import Pair


def config(folder: Path, document: Any) -> model.ModelConfig:
    """Read a configuration with these keys."""
    file = folder / "config.json"
    file.write_text(json.dumps(document, indent=2))
    return model.read(str(file))


def said(pair: Pair, rule: str, **options: Any) -> tuple[Finding, ...]:
    """What a rule says of a pair, held to a model."""
    report = findings_of(
        pair.cuda_text(),
        pair.json_text(),
        rank=pair.rank,
        selection=Selection(select=(rule,)),
        options=Options(**options),
    )
    assert report.ranks[0].audited, report.ranks[0].failure
    return report.findings

"""``python -m mirage_gate``: the command line without its console script."""

from __future__ import annotations

from mirage_gate.cli import run

if __name__ == "__main__":
    run()

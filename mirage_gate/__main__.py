"""``python -m mirage_gate``: the command line without its console script."""

from __future__ import annotations

import sys

from mirage_gate.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""Take the picture of the wiring map that the README shows: docs/images/wiring-map.png.

    python scripts/picture.py [--dark] [--width 1280] [FILE]

The graph is made by the tests' emitter: Qwen3 with 28 layers, whose RoPE is missing in layer
2. Needs Chromium on the PATH, or where CHROMIUM says.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.chromium import arguments, chromium  # noqa: E402
from tests.emitter import qwen3  # noqa: E402


def main() -> None:
    """Write the artifacts and the page to a temporary folder, and photograph the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default=ROOT / "docs/images/wiring-map.png", type=Path)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=780)
    given = parser.parse_args()
    browser = chromium()
    if browser is None:
        sys.exit("Chromium is not installed: apt install chromium, or set CHROMIUM")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "wiring.html"
        qwen3(layers=28).without_rope(layer=2).write(Path(folder) / "gen")
        subprocess.run(
            [sys.executable, "-m", "mirage_gate", "check", "gen", "-o", f"html={page}"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        dark = ["--blink-settings=preferredColorScheme=0"] if given.dark else []
        subprocess.run(
            [
                *(browser, *arguments(Path(folder) / "profile"), *dark, "--hide-scrollbars"),
                f"--window-size={given.width},{given.height}",
                *(f"--screenshot={Path(folder) / 'page.png'}", page.as_uri()),
            ],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        given.file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(folder) / "page.png", given.file)


if __name__ == "__main__":
    main()

"""Headless Chromium, as Debian packs it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def chromium() -> str | None:
    """Where Chromium is: what CHROMIUM says, else what the PATH has."""
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def arguments(profile: Path) -> list[str]:
    """What to start it with: no window, no sandbox (CI runs as root), no network of its own."""
    return [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        f"--user-data-dir={profile}",
    ]

"""The documentation's site, and the manual page: Sphinx over the pages as they stand here.

    python -m sphinx -W -n -b html docs build/site
    python -m sphinx -W -n -b man docs build/man

The pages are written for GitHub, which shows them as they are. Sphinx with MyST takes them so, and
both fails on a link that leads nowhere and makes a manual page of the command line, which
mkdocs-material (no longer developed, as is MkDocs) does not.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mirage_gate import __url__, __version__  # noqa: E402

project = "mirage-gate"
author = "the mirage-gate maintainers"
copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx_click"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
exclude_patterns = ["conf.py"]
nitpicky = True
# Wiring maps, TOML with `...`: not all that stands in a block is a language to its end.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"mirage-gate {version}"
html_baseurl = "https://mirage-gate.readthedocs.io/"
html_copy_source = False

man_pages = [
    (
        "commands",
        "mirage-gate",
        "prove the wiring of Mirage Persistent Kernel megakernels",
        [author],
        1,
    )
]


def _links(_app: object, _page: str, source: list[str]) -> None:
    """Let links out of the documentation lead to the repository, as they do on GitHub."""
    source[0] = re.sub(r"\]\(\.\./([^)\s]+)\)", rf"]({__url__}/blob/main/\1)", source[0])


def setup(app: object) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _links)  # type: ignore[attr-defined]

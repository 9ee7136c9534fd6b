"""Fuzz a reader, led by the lines it reaches: `python -m tests.fuzz.guided READER [OPTIONS]`.

The options are libFuzzer's, such as `-max_total_time=3600`. It goes on after a failure; what broke
the reader is in `fuzz-crashes`. Needs atheris, which is not among the tools of development: it has
no build for every Python.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import random
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["mirage_gate"]):
    import mirage_gate

    # Now, and not when they are first needed: only what is imported here is followed.
    for module in pkgutil.walk_packages(mirage_gate.__path__, "mirage_gate."):
        if ".no_gpu" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    from .readers import READERS

from .failures import Failures
from .inputs import changed, damaged, seeds


def main() -> None:
    name, *options = sys.argv[1:]
    kind, read = READERS[name]
    if not any(not option.startswith("-") for option in options):
        corpus = Path("fuzz-corpus", name)
        corpus.mkdir(parents=True, exist_ok=True)
        rng = random.Random(0)  # noqa: S311 - to be repeated
        for number, data in enumerate([*seeds(kind), *(damaged(kind, rng) for _ in range(50))]):
            (corpus / f"seed-{number}").write_bytes(data)
        options.append(os.fspath(corpus))

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)  # noqa: S311 - to be repeated
        if chance.random() < 0.4:
            return bytes(atheris.Mutate(data, most))
        return changed(kind, data, chance)[:most]

    failures = Failures(Path("fuzz-crashes"))

    def test(data: bytes) -> None:
        try:
            read(data)
        except Exception as error:
            failures.keep(name, data, error)

    atheris.Setup([sys.argv[0], *options], test, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

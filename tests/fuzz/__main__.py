"""Fuzz for as long as one likes: `python -m tests.fuzz --minutes 60`."""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from .failures import Failures
from .inputs import damaged
from .linear import worst
from .readers import READERS

SLOW = 20
"""Seconds for one input, none of which has more than a few hundred kilobytes."""
MOST_MEMORY = 4 << 30
"""Bytes for the whole process."""


class Hang(Exception):
    """A reader took too long."""


def _ring(number: int, frame: FrameType | None) -> None:
    raise Hang(f"more than {SLOW} s")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--reader", action="append", choices=sorted(READERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--crashes", type=Path, default=Path("fuzz-crashes"))
    parser.add_argument("--linear", action="store_true", help="measure time against size, and end")
    parser.add_argument("--size", type=int, default=400_000, help="bytes, with --linear")
    options = parser.parse_args()
    if options.linear:
        for ratio, seconds, name, what in worst(options.size)[:25]:
            print(f"{ratio:6.2f}  {seconds:7.3f} s  {name:12} {what}")
        return 0
    names = options.reader or sorted(READERS)
    rng = random.Random(options.seed)  # noqa: S311 - to be repeated
    signal.signal(signal.SIGALRM, _ring)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    tried: Counter[str] = Counter()
    failures = Failures(options.crashes)
    end = time.monotonic() + 60 * options.minutes
    while time.monotonic() < end:
        name = names[sum(tried.values()) // 200 % len(names)]
        kind, read = READERS[name]
        data = damaged(kind, rng)
        tried[name] += 1
        signal.alarm(SLOW)
        try:
            read(data)
        except Exception as error:
            signal.alarm(0)
            failures.keep(name, data, error)
        finally:
            signal.alarm(0)
    for name, count in sorted(tried.items()):
        print(f"{name:16} {count:9} inputs")
    print(f"{len(failures.seen)} different failures")
    return int(bool(failures.seen))


if __name__ == "__main__":
    sys.exit(main())

"""The audit that anybody would write in ten minutes, with the standard library.

    python benchmarks/naive.py FOLDER [CRITICAL...]

Reads each ``kernel_N.cu`` with a regular expression and each ``task_graph_N.json`` with
``json.load``, and counts for every declared tensor the tasks' inputs that name it. This is
what ``benchmarks/run.py`` compares the gate with: one pass, nothing done twice, but also
nothing checked beyond the counts.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

DECLARATION = re.compile(r'all_tensors\["([^"]+)"\]\s*=')
CRITICAL = (
    "rope_cos",
    "rope_sin",
    "cos_pos_embed",
    "sin_pos_embed",
    "cos_position_embedding",
    "sin_position_embedding",
)


def audit(cuda: Path, graph: Path, critical: tuple[str, ...]) -> bool:
    """Print the verdict on one rank, and say whether all its critical tensors are wired."""
    declared = dict.fromkeys(DECLARATION.findall(cuda.read_text(encoding="utf-8")))
    with graph.open(encoding="utf-8") as file:
        tasks = json.load(file)["all_tasks"]
    input_refs: Counter[str] = Counter()
    consumer_types: defaultdict[str, set[int]] = defaultdict(set)
    for task in tasks:
        for tensor in task["inputs"] or ():
            name = tensor["base_ptr"]
            input_refs[name] += 1
            consumer_types[name].add(task["task_type"])
    print(f"{graph.name}: {len(tasks)} tasks, {len(declared)} tensors")
    wired = True
    for name in declared:
        if name in critical:
            refs, types = input_refs[name], sorted(consumer_types[name])
            if refs:
                print(f"[OK] {name}: input_refs={refs} consumer_task_types={types}")
            else:
                print(f"[MISSING-WIRING] {name}: input_refs=0")
                wired = False
        elif name not in input_refs:
            print(f"INFO {name}: input_refs=0")
    return wired


def main(arguments: list[str]) -> int:
    """Audit every rank in a folder."""
    folder = Path(arguments[0] if arguments else ".")
    critical = tuple(arguments[1:]) or CRITICAL
    ok = True
    for cuda in sorted(folder.glob("kernel_*.cu")):
        rank = cuda.stem.removeprefix("kernel_")
        ok = audit(cuda, folder / f"task_graph_{rank}.json", critical) and ok
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

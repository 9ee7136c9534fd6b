"""Correct graphs, changed: defects that the gate must stop, and changes it must not mind.

    python -m tests.mutation             the whole run, a table per operator
    python -m tests.mutation --quick     the slice that pytest runs (tests/test_mutation.py)

`subject` is a correct pair of files and what is known about it; `draft` is one changed copy;
`registry` says what an operator is. `defects_*` hold operators whose every mutant is a defect by
construction, each with its reason and the rule that has to stop it; `harmless` and `unusual` hold
changes, and whole models, about which there is nothing to say. `judge` compares what the gate says
before and after, `subjects` lists what is mutated, `run` puts them together.

What a kernel does with its slots is taken from `tests.emitter.invariants`, never from the gate:
a mutant that is a defect only in the gate's own eyes would prove nothing.
"""

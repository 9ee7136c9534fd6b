"""Layers: is every layer wired like its siblings?

Layers are compared operator by operator and slot by slot (:mod:`mirage_gate.facts.siblings`).
An outlier is one layer of three or more, or few of many, and no pattern: every fourth layer
without rotary tables is an architecture. Two models in one graph, as a draft model and its
target, are compared each with its own (:mod:`mirage_gate.facts.stacks`). What a whole class of
layers has in common, such as DeepSeek's first three, is no outlier either.
"""

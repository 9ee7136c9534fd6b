"""The plan: the model that a megakernel computes, read back as a program.

    x = embedding(input_token, embed_tokens)
    layers 0-35:
      h = rms_norm(x, input_layernorm)
      ...
    h = rms_norm(x, model_norm_weight)

Operators by what they do and weights by name, whatever the batch, the tiles, the number of
ranks, the GPU and the buffers. Layers that are alike stand there once. It runs as a program
would: a name is what was last given that name. Where a later value has taken the name of one
that is still wanted, ``x@3`` is the one of layer 3, ``x@-1`` that of the layer before,
``x@start`` (or ``x@after3``) the one outside of the layers, and ``x@before`` what the iteration
before has left. A name that no statement gives is a tensor that the host fills.

:class:`Plan` is what is printed and compared, :class:`~mirage_gate.facts.plan.program.Program`
its statements one by one, each operand resolved.
"""

from __future__ import annotations

from mirage_gate.facts.plan.notation import Block, Plan, PlanError, Statement, parse_plan
from mirage_gate.facts.plan.program import Atom, Operand, Program, Step

__all__ = [
    "Atom",
    "Block",
    "Operand",
    "Plan",
    "PlanError",
    "Program",
    "Statement",
    "Step",
    "parse_plan",
]

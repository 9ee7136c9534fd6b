"""Reading a ``kernel_N.cu``: what it declares, how it loads, and what each task's body does.

The statements and their dialects are those of MPK's code generator (``runtime.cc`` and
``task_register.cc``), in the vintages that are known. The text is read, never compiled:

- :mod:`.text` blanks out what the compiler does not take for code;
- :mod:`.outline` finds the functions, and the parts of them that never run;
- :mod:`.reader` makes one pass over keywords and hands each statement to its own pattern:
  :mod:`.storage` follows the memory behind each name, the reader itself the loader and the
  branches of the dispatch chain;
- :mod:`.calls` parses the calls of one branch, when somebody asks.

Every pattern starts at a keyword and consumes what it has looked at, so the time is linear in
the text, whatever it holds.
"""

from __future__ import annotations

from mirage_gate.artifacts.cuda.calls import Body, Call, Expression, Layout, SlotName, Template
from mirage_gate.artifacts.cuda.model import (
    BUFFERS,
    LOADED,
    SENTINEL,
    Branch,
    Copy,
    CudaSource,
    Declaration,
    Kind,
    Undoing,
)
from mirage_gate.artifacts.cuda.reader import parse

__all__ = [
    "BUFFERS",
    "LOADED",
    "SENTINEL",
    "Body",
    "Branch",
    "Call",
    "Copy",
    "CudaSource",
    "Declaration",
    "Expression",
    "Kind",
    "Layout",
    "SlotName",
    "Template",
    "Undoing",
    "parse",
]

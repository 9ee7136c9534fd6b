"""``mirage_gate.audit``: one rank's two texts, for a builder that calls the gate itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage_gate.auditing import ranks

if TYPE_CHECKING:
    from mirage_gate.agreed.memory import Memory
    from mirage_gate.auditing.selection import Selection
    from mirage_gate.building.terms import AnyPath, Waivers
    from mirage_gate.facts import Options
    from mirage_gate.report import Report


def audit(
    cuda_code: str | bytes,
    task_graph: str | bytes,
    *,
    rank: int = 0,
    options: Options | None = None,
    selection: Selection | None = None,
    cuda_path: str = "",
    graph_path: str = "",
    memory: Memory | None = None,
    lock: AnyPath = None,
    waivers: Waivers = (),
    config: AnyPath = None,
) -> Report:
    """Audit one rank's two texts, before they are files: for a builder to call.

    The paths are only shown, never opened; their defaults are the demos' names for the rank.
    ``config`` names a configuration file, ``lock`` a lock file, ``waivers`` are as in a
    configuration: ``[{"rule": "MG103", "tensor": "lse", "reason": "…"}]``. ``options``,
    ``selection`` and ``memory`` hold instead of what a configuration says of them. No
    configuration is looked for. Raises :class:`TypeError` for what is no text, and
    :class:`ValueError` for a file or a waiver that cannot be used.
    """
    for name, text in (("cuda_code", cuda_code), ("task_graph", task_graph)):
        if not isinstance(text, str | bytes):
            raise TypeError(f"{name} is the text itself, str or bytes, not {type(text).__name__}")
    if memory is not None and (lock or waivers):
        raise TypeError("memory holds a lock and waivers: give it, or these, not both")
    if config or lock or waivers:
        from mirage_gate.building.terms import terms

        asked = terms(config=config, lock=lock, waivers=waivers)
        options, selection = options or asked.options, selection or asked.selection
        memory = memory or asked.memory
    return ranks.audit(
        cuda_code,
        task_graph,
        rank=rank,
        options=options,
        selection=selection,
        cuda_path=cuda_path,
        graph_path=graph_path,
        memory=memory,
    )

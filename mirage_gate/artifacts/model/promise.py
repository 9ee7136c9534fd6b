"""What a configuration says of a feature: which layers have it, and which do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec


class Promise(msgspec.Struct, frozen=True):
    """The layers that have a feature, and those that have not; of any other nothing is said.

    ``some``: at least one layer of the model has it, whichever.
    """

    having: frozenset[int] = frozenset()
    lacking: frozenset[int] = frozenset()
    some: bool = False

    def __bool__(self) -> bool:
        return bool(self.having or self.lacking or self.some)

    def within(self, layers: Iterable[int]) -> Promise:
        """The same promise of some layers only; it keeps ``some`` if one of them may have it."""
        kept = frozenset(layers)
        return Promise(
            self.having & kept, self.lacking & kept, self.some and bool(kept - self.lacking)
        )


NOTHING = Promise()
SOMEWHERE = Promise(some=True)


def exactly(layers: Iterable[int], every: Iterable[int]) -> Promise:
    """These layers of all have it, the others have not."""
    having = frozenset(layers)
    return Promise(having, frozenset(every) - having, some=bool(having))


def where(known: Callable[[int], bool | None], every: Iterable[int]) -> Promise:
    """Ask of each layer: True, False, or None where nothing is known."""
    said = {layer: known(layer) for layer in every}
    having = frozenset(layer for layer, has in said.items() if has)
    lacking = frozenset(layer for layer, has in said.items() if has is False)
    return Promise(having, lacking, some=bool(having))

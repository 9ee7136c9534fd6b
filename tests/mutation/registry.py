"""What an operator is: a generator of mutants, and what the gate has to say of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .draft import Mutant

__all__ = ["DEFECTS", "HARMLESS", "Operator", "defect", "harmless", "mixed", "unusual"]

Make = Callable[[Any, random.Random], Iterator[Mutant]]


@dataclass(frozen=True)
class Operator:
    """`rules`: ids or families, one of which must speak. `whole`: it takes all ranks at once.

    `model`: it takes no subject, and makes whole models of its own.

    `make` yields as many mutants of a subject as it can, in an order that the seed decides; none
    where the subject has nothing to be miswired in this way.
    """

    name: str
    make: Make
    rules: tuple[str, ...] = ()
    whole: bool = False
    model: bool = False

    @property
    def reason(self) -> str:
        """Why every mutant is a defect, or harmless: the docstring."""
        return self.make.__doc__ or ""


DEFECTS: dict[str, Operator] = {}
HARMLESS: dict[str, Operator] = {}


def _add(
    table: dict[str, Operator],
    rules: tuple[str, ...] = (),
    whole: bool = False,
    model: bool = False,
) -> Callable[[Make], Make]:
    def decorate(make: Make) -> Make:
        name = make.__name__.strip("_")
        if name in DEFECTS or name in HARMLESS:
            raise ValueError(f"operator {name} is defined twice")
        table[name] = Operator(name, make, rules, whole, model)
        return make

    return decorate


def defect(*rules: str, whole: bool = False) -> Callable[[Make], Make]:
    """Make the function an operator whose every mutant one of `rules` must stop."""
    return _add(DEFECTS, rules, whole)


def harmless(whole: bool = False) -> Callable[[Make], Make]:
    """Make the function an operator about whose mutants there is nothing to say."""
    return _add(HARMLESS, whole=whole)


def unusual(make: Make) -> Make:
    """Make the function an operator that gives correct models of its own, a baseline apart."""
    return _add(HARMLESS, model=True)(make)


def mixed(rng: random.Random, things: Any) -> list[Any]:
    """A list in an order that the seed decides."""
    listed = list(things)
    rng.shuffle(listed)
    return listed

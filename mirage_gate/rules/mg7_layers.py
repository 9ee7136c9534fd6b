"""MG7: is each layer wired like its siblings?

Layers are compared operator by operator and slot by slot (:mod:`mirage_gate.facts.siblings`).
An outlier is one layer of three or more, or few of many, and no pattern: every fourth layer
without rotary tables is an architecture. What a whole class of layers has in common, such as
DeepSeek's first three, is no outlier either.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.layers import layer_in, named_in, role_of
from mirage_gate.facts.siblings import ABSENT, LACKING, LAYER_INPUT, NOTHING, Content, Role
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import declared, in_layers, plural
from mirage_gate.rules.base import rule

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Declaration
    from mirage_gate.artifacts.model_config import ModelConfig
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.layers import Operator
    from mirage_gate.facts.siblings import Column

_FEW = 8
"""Outliers are one layer, or at most one in eight."""
_SHOWN = 4
LAYER_INPUTS: Content = frozenset({LAYER_INPUT})


# --- Who is an outlier -----------------------------------------------------------------


def _odd(outliers: Collection[int], layers: Collection[int]) -> bool:
    """Whether so few of the layers differ that they are the odd ones."""
    if len(outliers) == 1:
        return len(layers) >= 3
    return 1 < len(outliers) <= len(layers) // _FEW and not _periodic(outliers, layers)


def _periodic(some: Collection[int], layers: Collection[int]) -> bool:
    """Whether they are every second, third, … layer: how an architecture alternates."""
    if len(some) < 2:
        return False
    ordered = sorted(some)
    step = ordered[1] - ordered[0]
    return step > 1 and ordered == [n for n in sorted(layers) if (n - ordered[0]) % step == 0]


def _whole_class(facts: RankFacts, column: Column, outliers: Collection[int]) -> bool:
    """Whether the outliers are just the layers of one class among several."""
    if len(column.classes) < 2:
        return False
    of = {facts.siblings.class_of(layer).number for layer in outliers}
    members = {n for n in column.operators if facts.siblings.class_of(n).number in of}
    return members == set(outliers)


def _in_slot(facts: RankFacts, column: Column, index: int) -> dict[int, Content]:
    """Give what one input slot of an operator carries, by layer."""
    inputs = facts.siblings.inputs
    return {
        layer: inputs[operator.number][index]
        if index < len(inputs[operator.number])
        else frozenset({ABSENT})
        for layer, operator in column.operators.items()
    }


def _width(facts: RankFacts, column: Column) -> int:
    inputs = facts.siblings.inputs
    return max((len(inputs[o.number]) for o in column.operators.values()), default=0)


def _majority(contents: Iterable[Content]) -> Content:
    return Counter(contents).most_common(1)[0][0]


# --- Words and places ------------------------------------------------------------------


def _operator(facts: RankFacts, task_type: int, weight: str) -> str:
    """Name an operator by its type and, within the layers, by what only it reads or fills."""
    name = facts.task_type(task_type).name
    return f"{name} ({weight})" if weight != named_in(weight, 0) else name


def _listed(words: Iterable[str]) -> str:
    *most, last = list(dict.fromkeys(words))
    return f"{', '.join(most)} and {last}" if most else last


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return "; ".join([*texts[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def _role(facts: RankFacts, role: Role) -> str:
    """Say what a slot carries."""
    if role.kind == "weight":
        return role.name
    if role.kind == "nothing":
        return "nullptr"
    if role.kind == "unread":
        return "a tensor that the kernel does not read"
    if role.kind == "absent":
        return "nothing"
    if role.kind == "layer input":
        return "what the operator right before the layer wrote"
    if role.kind == "output":
        return "a buffer that it fills"
    if role.kind == "unwritten":
        return f"{role.name}, which no task wrote before"
    when = {-1: " outside of the layers", 0: "", 1: " in the layer before"}
    ago = when.get(role.back, f" {role.back} layers before")
    return f"what {_operator(facts, role.writer, role.name)} wrote{ago}"


def _content(facts: RankFacts, content: Content) -> str:
    return _listed(_role(facts, role) for role in _ordered(content))


def _slot(facts: RankFacts, operator: Operator, index: int, odd: Collection[str] = ()) -> Location:
    """Point at the slot of the first task that carries one of the odd names there, if any."""
    names = operator.slots.get((True, index))
    if not names:
        return facts.in_graph("all_tasks", operator.first, "inputs")
    groups = [group for name, group in names.items() if not odd or name.name in odd]
    first = min(group.first for group in groups or names.values())
    return facts.in_graph("all_tasks", first, "inputs", index, "base_ptr")


def _carried(operator: Operator, index: int) -> list[str]:
    return [name.name for name in operator.slots.get((True, index), ())]


# --- MG701 -----------------------------------------------------------------------------


class _Lack(msgspec.Struct):
    """What one layer lacks in one place. ``tensors`` are what its siblings have there.

    Where ``surplus`` it is the other way round: the layer has an operator too many, and
    ``tensors`` names it.
    """

    order: int
    operator: str
    state: str
    tensors: tuple[str, ...]
    critical: bool
    at: Location
    siblings: dict[int, Operator]
    index: int
    surplus: bool = False


@rule(
    "MG701",
    "layer-outlier",
    Severity.ERROR,
    "One layer lacks an operator or an operand that its siblings have.",
    why="""
        A builder that passes None in one layer of sixty-one leaves no tensor unused, no byte
        unread and no event open. The model computes that layer without its positions or its
        norms and is a little wrong everywhere. Only the sibling layers know better.
    """,
    example="""
        In layer 2 the attention's inputs 5 and 6 are `nullptr`; in all other layers they
        are the rotary tables.
    """,
    fix="""
        Build the layer as its siblings are built. If the architecture means it (a layer
        without position encoding), say so with `--model-config` or a waiver.
    """,
    limits="""
        An error only where a critical tensor is missing, a warning otherwise. One layer of
        three or more is an outlier, or at most one in eight; layers at a regular distance
        are an architecture. Of two layers, only a missing critical tensor is reported.
    """,
)
def layer_outlier(facts: RankFacts) -> Iterator[Finding]:
    lacks: dict[int, list[_Lack]] = defaultdict(list)
    for layer, lack in _all_lacks(facts):
        lacks[layer].append(lack)
    alike: dict[tuple[str, ...], list[int]] = {}
    for layer in sorted(lacks):
        # A slot is a better place than the gap where an operator should be.
        lacks[layer].sort(
            key=lambda lack: (not lack.critical, lack.index < 0, lack.order, lack.operator)
        )
        alike.setdefault(tuple(_texts(lacks[layer])), []).append(layer)
    for texts, layers in alike.items():
        found = lacks[layers[0]]
        first = found[0]
        critical = [name for lack in found if lack.critical for name in lack.tensors]
        siblings = sorted(set().union(*(lack.siblings for lack in found)) - set(layers))
        heavy = bool(critical) and len(layers) <= len(siblings)
        one, few = len(layers) == 1, len(siblings) == 1
        lacking = [lack for lack in found if not lack.surplus]
        subject = _listed(critical or [name for lack in lacking or found for name in lack.tensors])
        if lacking:
            have = "has" if few else "have"
            claim = f"run{'s' * one} without {subject}, which {in_layers(siblings)} {have}"
        else:
            lack_it = f"{in_layers(siblings)} {'does' if few else 'do'} not"
            claim = f"{'has' if one else 'have'} {subject}, which {lack_it}"
        tables = [_of_layer(facts, name, [*layers, *siblings]) for name in critical]
        related = [place for name in dict.fromkeys(tables) for place in declared(facts, name)]
        related += _has_it(facts, first, layers)
        yield Finding(
            rule="MG701",
            severity=Severity.ERROR if heavy else Severity.WARNING,
            message=f"{in_layers(layers)} {claim}: {_some(texts)}",
            location=first.at,
            hint=f"build {in_layers(layers)} as {in_layers(siblings[:1])} is built",
            related=tuple(related),
            tensor=tables[0] if tables else "",
            rank=facts.rank,
        )


def _texts(lacks: Iterable[_Lack]) -> Iterator[str]:
    """Say what is lacking, the slots of one operator together."""
    slots: dict[tuple[str, str], list[int]] = defaultdict(list)
    for lack in lacks:
        slots[lack.operator, lack.state].append(lack.index)
    for (operator, state), indexes in slots.items():
        if indexes[0] < 0:
            yield f"{operator} is {state}"
        elif len(indexes) == 1:
            yield f"input {indexes[0]} of {operator} is {state}"
        else:
            yield f"inputs {_listed(map(str, indexes))} of {operator} are {state}"


def _has_it(facts: RankFacts, lack: _Lack, without: Collection[int]) -> Iterator[Location]:
    sibling = next((n for n in lack.siblings if n not in without), None)
    if sibling is not None:
        note = f"layer {sibling} {'begins' if lack.surplus else 'has it'} here"
        operator = lack.siblings[sibling]
        if lack.index < 0:
            yield facts.in_graph("all_tasks", operator.first, "task_type", note=note)
        else:
            yield _slot(facts, operator, lack.index).saying(note)


def _all_lacks(facts: RankFacts) -> Iterator[tuple[int, _Lack]]:
    for order, column in enumerate(facts.siblings.columns):
        for index in range(_width(facts, column)):
            yield from _lacking_operand(facts, order, column, index)
    yield from _lacking_operators(facts)


def _is_critical(facts: RankFacts, name: str) -> bool:
    declaration = facts.declared.get(name)
    return declaration is not None and facts.is_critical(declaration)


def _rotates(facts: RankFacts, layer: int) -> bool:
    """Whether the model's configuration, if there is one, leaves the layer its positions."""
    model = facts.options.model
    return model is None or model.rotary is None or layer in model.rotary


def _tables(facts: RankFacts, content: Content, layers: Iterable[int]) -> list[str]:
    """The critical tensors among some roles, by role: for all layers, or one for each."""
    layers = list(layers)
    return [
        role.name
        for role in _ordered(content)
        if role.kind == "weight" and _is_critical(facts, _of_layer(facts, role.name, layers))
    ]


def _of_layer(facts: RankFacts, role: str, layers: Iterable[int]) -> str:
    """Give the declared name of a role in the first of some layers that has it."""
    names = (named_in(role, layer) for layer in layers)
    return next((name for name in names if name in facts.declared), role)


def _lacking_operand(
    facts: RankFacts, order: int, column: Column, index: int
) -> Iterator[tuple[int, _Lack]]:
    contents = _in_slot(facts, column, index)
    without = [n for n, content in contents.items() if content & LACKING]
    having = [n for n in contents if n not in without]
    if not without or not having:
        return
    usual = _majority(contents[n] for n in having)
    critical = _tables(facts, usual, having)
    if critical:
        without = [n for n in without if _rotates(facts, n)]
        if _periodic(without, contents) or _periodic(having, contents):
            return
    elif not _odd(without, contents) or _whole_class(facts, column, without):
        return
    operator = _operator(facts, column.task_type, column.key[1])
    for layer in without:
        content = contents[layer]
        state = "nullptr"
        if ABSENT in content:
            state = "not there"
        elif NOTHING not in content:
            state = "not read by the kernel"
        if content - LACKING:
            state += " in some tasks"
        odd = {"nullptr"} if NOTHING in content else ()
        yield (
            layer,
            _Lack(
                order=order * 8 + index,
                operator=operator,
                state=state,
                tensors=tuple(critical) or tuple(_role(facts, role) for role in _ordered(usual)),
                critical=bool(critical),
                at=_slot(facts, column.operators[layer], index, odd),
                siblings={n: column.operators[n] for n in having},
                index=index,
            ),
        )


def _ordered(content: Content) -> list[Role]:
    """Roles in an order of their own, the same in every run."""
    return sorted(content, key=lambda role: (role.kind, role.name, role.writer, role.slot))


def _lacking_operators(facts: RankFacts) -> Iterator[tuple[int, _Lack]]:
    siblings = facts.siblings
    missing: dict[int, list[int]] = defaultdict(list)
    columns = {id(column): column for column in siblings.columns}
    extra: dict[tuple[int, int, str], dict[int, Operator]] = defaultdict(dict)
    for gap in siblings.gaps:
        for column in gap.missing:
            missing[id(column)].append(gap.layer)
        for operator in gap.extra:
            kindred = siblings.class_of(gap.layer).number
            extra[kindred, operator.task_type, operator.weight][gap.layer] = operator
    last = max(siblings.layers, default=-1)
    for order, (key, column) in enumerate(columns.items()):
        layers = missing.get(key)
        if not layers:
            continue
        members = siblings.class_of(layers[0]).layers
        critical = _critical_operands(facts, column)
        if critical:
            layers = [n for n in layers if _rotates(facts, n)]
            if _periodic(layers, members):
                continue
        elif not _odd(layers, members):
            continue
        for layer in layers:
            if layer == last and not critical and _trailing(facts, column):
                continue
            name = _operator(facts, column.task_type, column.key[1])
            yield (
                layer,
                _Lack(
                    order=order * 8,
                    operator=name,
                    state="missing",
                    tensors=tuple(critical) or (name,),
                    critical=bool(critical),
                    at=_gap_at(facts, layer, column),
                    siblings={n: o for n, o in column.operators.items() if n in members},
                    index=-1,
                ),
            )
    for (number, task_type, weight), operators in extra.items():
        members = siblings.classes[number].layers
        if not _odd(operators, members):
            continue
        for layer, operator in operators.items():
            if layer == last and not weight and siblings.layers[layer][-1] is operator:
                continue
            yield (
                layer,
                _Lack(
                    order=1 << 30,
                    operator=_operator(facts, task_type, weight),
                    state="one too many",
                    tensors=(_operator(facts, task_type, weight),),
                    critical=False,
                    at=facts.in_graph("all_tasks", operator.first, "task_type"),
                    siblings={n: siblings.layers[n][0] for n in members if n not in operators},
                    index=-1,
                    surplus=True,
                ),
            )


def _critical_operands(facts: RankFacts, column: Column) -> list[str]:
    found: dict[str, None] = {}
    for index in range(_width(facts, column)):
        contents = _in_slot(facts, column, index)
        tables = _tables(facts, _majority(contents.values()), contents)
        found.update(dict.fromkeys(tables))
    return list(found)


def _trailing(facts: RankFacts, column: Column) -> bool:
    """Whether the last layer lacks a step without weights that the others end with.

    It is the first step of the layer that follows, as far as names can tell.
    """
    if column.key[1]:
        return False
    return any(facts.siblings.layers[n][-1] is o for n, o in column.operators.items())


def _gap_at(facts: RankFacts, layer: int, column: Column) -> Location:
    """Point at the operator before which the missing one would stand, or the layer's last."""
    sibling, operator = next(iter(column.operators.items()))
    row = facts.siblings.layers[sibling]
    behind = {o.number for o in row[row.index(operator) + 1 :]}
    for other in facts.siblings.columns:
        theirs, mine = other.operators.get(sibling), other.operators.get(layer)
        if theirs and mine and theirs.number in behind:
            return facts.in_graph("all_tasks", mine.first, "task_type")
    return facts.in_graph("all_tasks", facts.siblings.layers[layer][-1].first, "task_type")


# --- MG702 -----------------------------------------------------------------------------


@rule(
    "MG702",
    "operand-outlier",
    Severity.WARNING,
    "In one layer a slot carries something else than in all its siblings.",
    why="""
        A residual taken from the buffer of an earlier layer has the right size, is written
        before it is read and breaks no event. The sum is of the wrong things. The same
        operator in the other layers tells: there, the slot carries what the operator before
        the layer wrote.
    """,
    example="""
        Input 2 of layer 1's output projection carries `embed_out`; in every other layer the
        slot carries what the layer before wrote.
    """,
    fix="Pass the tensor that the sibling layers pass.",
    limits="""
        Buffers are told apart by the operator that last wrote them, not by name. One layer
        of three or more is an outlier, or at most one in eight; of two that differ, either
        may be the wrong one. A weight of another role
        counts only if the layer has a tensor of the usual role: weights that one layer
        stores fused and the others apart are no outlier.
    """,
)
def operand_outlier(facts: RankFacts) -> Iterator[Finding]:
    first = min(facts.siblings.layers, default=0)
    broken = {gap.layer for gap in facts.siblings.gaps}
    for column in facts.siblings.columns:
        for index in range(_width(facts, column)):
            contents = _in_slot(facts, column, index)
            outliers: dict[Content, list[int]] = defaultdict(list)
            usual = _usual(contents, first)
            for layer, content in contents.items():
                if content != usual and not content & LACKING:
                    outliers[content].append(layer)
            every = [layer for layers in outliers.values() for layer in layers]
            if not every or not (len(contents) == 2 or _odd(every, contents)):
                continue
            if len(contents) == 2 and (
                usual & LACKING or (usual != LAYER_INPUTS and any(map(_from_outside, usual)))
            ):
                continue
            # The one layer of its class may differ, but every layer has an input.
            alone = len(every) == 1 and usual == LAYER_INPUTS
            if _whole_class(facts, column, every) and not alone:
                continue
            for content, layers in outliers.items():
                if first in layers and any(_from_outside(role) for role in content):
                    continue  # what stands before the layers is the first one's own affair
                if broken & set(layers) or (usual & LACKING and _tables(facts, content, layers)):
                    continue  # MG701 says it
                if _follows(layers, broken) and _from_before(content | usual):
                    continue
                if not _misplaced(facts, content, usual, layers):
                    continue
                yield _operand_finding(facts, column, index, contents, content, layers, usual)
    yield from _sources_otherwise(facts)


def _usual(contents: dict[int, Content], first: int) -> Content:
    """Give what most layers carry; of two, the layer's input, else what the first carries."""
    if len(contents) == 2:
        both = list(contents.values())
        return LAYER_INPUTS if LAYER_INPUTS in both else both[0]
    return _majority([c for n, c in contents.items() if n != first] or contents.values())


def _from_outside(role: Role) -> bool:
    return role.back < 0 or role.kind in ("layer input", "unwritten")


def _from_before(content: Content) -> bool:
    return any(role.kind == "layer input" or role.back > 0 for role in content)


def _follows(layers: Collection[int], broken: Collection[int]) -> bool:
    return any(layer - 1 in broken for layer in layers)


def _misplaced(facts: RankFacts, content: Content, usual: Content, layers: Collection[int]) -> bool:
    """Whether the layers could have carried the usual thing: a weight must be there to miss."""
    if any(role.kind != "weight" for role in content | usual):
        return True
    return any(
        named_in(role.name, layer) in facts.declared for role in usual - content for layer in layers
    )


def _operand_finding(
    facts: RankFacts,
    column: Column,
    index: int,
    contents: dict[int, Content],
    content: Content,
    layers: list[int],
    usual: Content,
) -> Finding:
    operator = column.operators[layers[0]]
    siblings = [n for n in contents if contents[n] == usual]
    expected = set().union(*(_carried(column.operators[n], index) for n in siblings))
    names = _carried(operator, index)
    odd = [name for name in names if name not in expected] or names
    said = _content(facts, content)
    carried = _listed(odd)
    is_weight = all(role.kind == "weight" for role in content)
    what = carried if is_weight else f"{carried}, {said}"
    near = next((n for n in siblings if n > layers[-1]), siblings[-1])
    example = _listed(_carried(column.operators[near], index))
    usually = _content(facts, usual)
    if usually != example:
        usually += f" ({example} in layer {near})"
    return Finding(
        rule="MG702",
        severity=Severity.WARNING,
        message=(
            f"in {in_layers(layers)}, input {index} of "
            f"{_operator(facts, column.task_type, column.key[1])} carries {what}; in "
            f"{in_layers(siblings)} it carries {usually}"
        ),
        location=_slot(facts, operator, index, odd),
        hint=f"pass what layer {near} passes",
        related=(
            _slot(facts, column.operators[near], index).saying(f"layer {near} has {example} here"),
            *(place for name in odd for place in declared(facts, name)),
        ),
        tensor=odd[0],
        rank=facts.rank,
    )


def _filled_by_copies(facts: RankFacts) -> dict[str, dict[int, Declaration]]:
    """The tensors that the host fills by copies: role to layer to declaration."""
    filled: dict[str, dict[int, Declaration]] = defaultdict(dict)
    for name, declaration in facts.declared.items():
        layer = layer_in(name)
        if layer is not None and declaration.copies:
            filled[role_of(name)][layer] = declaration
    return filled


def _sources_otherwise(facts: RankFacts) -> Iterator[Finding]:
    """Compare what a shuffled tensor is filled from, in the order of its bytes."""
    for role, by_layer in _filled_by_copies(facts).items():
        orders = {
            layer: tuple(
                role_of(copy.source) for copy in sorted(declaration.copies, key=lambda c: c.offset)
            )
            for layer, declaration in by_layer.items()
        }
        usual = Counter(orders.values()).most_common(1)[0][0]
        odd = [layer for layer, order in orders.items() if order != usual]
        if not odd or not (len(orders) == 2 or _odd(odd, orders)):
            continue
        sibling = next(layer for layer, order in orders.items() if order == usual)
        for layer in odd:
            copies = sorted(by_layer[layer].copies, key=lambda c: c.offset)
            at = next(
                (i for i, (a, b) in enumerate(zip(orders[layer], usual, strict=False)) if a != b),
                min(len(copies), len(usual)) - 1,
            )
            rest = [n for n in orders if orders[n] == usual]
            yield Finding(
                rule="MG702",
                severity=Severity.WARNING,
                message=(
                    f"in layer {layer}, {role} is filled with {', '.join(orders[layer])}; "
                    f"in {in_layers(rest)} with {', '.join(usual)}"
                ),
                location=copies[at].location,
                hint=f"fill it as layer {sibling}'s is filled",
                related=(by_layer[sibling].location.saying(f"layer {sibling}'s"),),
                tensor=by_layer[layer].name,
                rank=facts.rank,
            )


# --- MG703 -----------------------------------------------------------------------------


@rule(
    "MG703",
    "crossed-layer",
    Severity.ERROR,
    "A weight or cache of one layer is read in another layer's place.",
    why="""
        Two layers' weights of one role have one shape. Exchanged, each is still read once
        and every byte is covered; the model computes with the wrong ones.
    """,
    example="""
        `layer_7_o_proj` is read among the operators of layer 8, though `layer_8_o_proj` is
        declared.
    """,
    fix="Take the layer's own tensor; most often an index in the builder is off by one.",
    limits="""
        The place is inferred from all operators around. A shift that all layers share (the
        next layer's norm fused into this one) is no crossing. Where the layer has no such
        tensor of its own it may share a sibling's on purpose: a warning, and only where the
        siblings do not.
    """,
)
def crossed_layer(facts: RankFacts) -> Iterator[Finding]:
    seen: set[tuple[str, int]] = set()
    for column in facts.siblings.columns:
        slots = sorted({slot for o in column.operators.values() for slot in o.slots})
        for is_input, index in slots:
            yield from _crossed_in(facts, column, is_input, index, seen)
    yield from _crossed_copies(facts)


def _crossed_copies(facts: RankFacts) -> Iterator[Finding]:
    """Find the copies that fill one layer's tensor from another layer's source."""
    filled = _filled_by_copies(facts)
    sources = {
        copy.source
        for by_layer in filled.values()
        for declaration in by_layer.values()
        for copy in declaration.copies
    }
    for by_layer in filled.values():
        found = [
            (layer, declaration, copy, source)
            for layer, declaration in by_layer.items()
            for copy in declaration.copies
            if (source := layer_in(copy.source)) is not None
        ]
        shifts = Counter(source - layer for layer, _, _, source in found)
        shift, times = shifts.most_common(1)[0] if shifts else (0, 0)
        if 2 * times <= len(found):
            shift = 0
        for layer, declaration, copy, source in found:
            own = named_in(role_of(copy.source), layer + shift)
            # The own source is there, or the other parts are the layer's: no sharing by design.
            beside = {layer_in(other.source) for other in declaration.copies}
            if source != layer + shift and (own in sources or layer + shift in beside):
                yield Finding(
                    rule="MG703",
                    severity=Severity.ERROR,
                    message=f"in layer {layer}, {declaration.name} is filled from {copy.source}",
                    location=copy.location,
                    hint=f"fill it from {own}",
                    related=(declaration.location.saying(f"{declaration.name} is declared here"),),
                    tensor=declaration.name,
                    rank=facts.rank,
                )


def _crossed_in(
    facts: RankFacts, column: Column, is_input: bool, index: int, seen: set[tuple[str, int]]
) -> Iterator[Finding]:
    carried = {
        layer: [
            name
            for name in operator.slots.get((is_input, index), ())
            if name.weight and name.layer is not None
        ]
        for layer, operator in column.operators.items()
    }
    shifts = Counter(
        name.layer - layer
        for layer, names in carried.items()
        for name in names
        if name.layer is not None
    )
    if not shifts:
        return
    shift, times = shifts.most_common(1)[0]
    if 2 * times <= sum(shifts.values()):
        shift = 0
    crossed = {
        layer: [name for name in names if name.layer != layer + shift]
        for layer, names in carried.items()
    }
    crossed = {layer: names for layer, names in crossed.items() if names}
    for layer, names in crossed.items():
        operator = column.operators[layer]
        for name in names:
            own = named_in(name.role, layer + shift)
            certain = own in facts.declared
            if not certain and not (len(carried) > 3 and _odd(crossed, carried)):
                continue
            if (name.name, layer) in seen:
                continue
            seen.add((name.name, layer))
            first = operator.slots[is_input, index][name].first
            side = "input" if is_input else "output"
            where = (
                f"{side} {index} of {_operator(facts, column.task_type, name.role)} carries "
                f"{name.name}"
            )
            readers = facts.layers.of_group
            by = sorted(
                {
                    place
                    for access in facts.wiring.of(own)
                    if (place := readers[access.group.number]) is not None
                }
            )
            if not certain:
                rest = "and the layer has no such tensor of its own"
            elif by:
                rest = f"and {own} is read in {in_layers(by)}"
            else:
                rest = f"and nobody reads {own}"
            yield Finding(
                rule="MG703",
                severity=Severity.ERROR if certain else Severity.WARNING,
                message=f"in layer {layer}, {where}, {rest}",
                location=facts.in_graph("all_tasks", first, f"{side}s", index, "base_ptr"),
                hint=f"pass {own} to layer {layer}",
                related=(*declared(facts, name.name), *declared(facts, own)),
                tensor=name.name,
                rank=facts.rank,
            )


# --- MG704 -----------------------------------------------------------------------------

_ATTENTION = re.compile(r"_ATTENTION_?|_ATTN_|_MLA_(?!.*REDUCE).*(?:DECODE|PREFILL)")
_NO_ATTENTION = re.compile(r"_MERGE_|_REDUCE_")
_Promise = tuple[frozenset[int] | None, Callable[[int], bool], str, tuple[str, ...]]
"""The layers that have something, how to tell, its name, and the configuration's keys for it."""


@rule(
    "MG704",
    "layer-count",
    Severity.ERROR,
    "The graph has not the layers that the model's own configuration describes.",
    why="""
        A loop that ends one layer early, a layer whose attention was never built, a model
        with rotary embedding in which no layer reads a table: the graph cannot know what it
        lacks. The model's `config.json` does.
    """,
    example="`num_hidden_layers` is 36, and the graph has 35 layers.",
    fix="Build all layers that the configuration names, each as it describes.",
    limits="""
        Only with `--model-config`. A graph of fewer layers on purpose is a finding, and
        `--ignore MG704` or a waiver says so. What the configuration does not say is not
        checked: the key for rotary embedding, for norms of queries and keys, for experts.
        In a layer with a task type that is in no table, attention is not missed.
    """,
)
def layer_count(facts: RankFacts) -> Iterator[Finding]:
    model = facts.options.model
    if model is None:
        return
    found = facts.layers.by_layer
    if model.layers is not None and set(found) != set(range(model.layers)):
        missing = sorted(set(range(model.layers)) - set(found))
        extra = sorted(set(found) - set(range(model.layers)))
        lacking = f", {in_layers(missing)} missing" if missing else ""
        more = f", {in_layers(extra)} too many" if extra else ""
        last = max(found, default=-1)
        at = next(
            (d.location for d in facts.cuda.declarations if layer_in(d.name) == last),
            facts.cuda.declarations[0].location,
        )
        yield Finding(
            rule="MG704",
            severity=Severity.ERROR,
            message=(
                f"the graph has {plural(len(found), 'layer')}, the model's configuration "
                f"{model.layers}{lacking}{more}"
            ),
            location=at,
            hint="build all layers that the configuration names",
            related=(model.place("num_hidden_layers", "n_layer", "num_layers"),),
            rank=facts.rank,
        )
    attention = {
        layer: next((o for o in operators if _attends(facts, o)), None)
        for layer, operators in found.items()
    }
    read = {layer: _read_in(facts, operators) for layer, operators in found.items()}
    # An operator of an unknown type may be an attention.
    unclear = {
        layer
        for layer, operators in found.items()
        if not all(facts.knows(operator.task_type) for operator in operators)
    }
    promises: tuple[_Promise, ...] = (
        (
            model.attention,
            lambda layer: attention[layer] is not None or layer in unclear,
            "attention",
            ("layer_types", "num_hidden_layers"),
        ),
        (
            model.rotary,
            lambda layer: any(_is_critical(facts, name) for name in read[layer]),
            "rotary embedding",
            ("no_rope_layers", "rope_parameters", "rope_theta", "rope_scaling"),
        ),
        (
            model.qk_norm,
            lambda layer: {"q", "k"} <= {m[1] for n in read[layer] if (m := _QK.search(n))},
            "norms of queries and keys",
            ("use_qk_norm", "qk_layernorm", "model_type"),
        ),
        (
            model.mixture if model.experts else None,
            lambda layer: facts.siblings.kind_of(layer).startswith("moe"),
            "a mixture of experts",
            ("num_experts", "n_routed_experts", "num_local_experts"),
        ),
    )
    for expected, has, what, keys in promises:
        without = [n for n in sorted(expected or ()) if n in found and not has(n)]
        if not without:
            continue
        operator = attention[without[0]] or found[without[0]][0]
        yield Finding(
            rule="MG704",
            severity=Severity.ERROR,
            message=f"the model has {what} in {in_layers(without)}, and the graph has not",
            location=facts.in_graph("all_tasks", operator.first, "task_type"),
            hint=f"build {in_layers(without)} as the configuration describes",
            related=(model.place(*keys),),
            rank=facts.rank,
        )
    if model.experts:
        yield from _experts(facts, model)


_QK = re.compile(r"(?:^|[._])(q|k)_(?:layer)?norm(?=[._]|$)")


def _attends(facts: RankFacts, operator: Operator) -> bool:
    name = f"{facts.task_type(operator.task_type).name}_"
    return bool(_ATTENTION.search(name)) and not _NO_ATTENTION.search(name)


def _read_in(facts: RankFacts, operators: Iterable[Operator]) -> set[str]:
    """The tensors that some operators really read."""
    return {
        name.name
        for operator in operators
        for (is_input, index), names in operator.slots.items()
        for name, group in names.items()
        if facts.wiring.use(group, is_input, index)[1]
    }


def _experts(facts: RankFacts, model: ModelConfig) -> Iterator[Finding]:
    """Compare the first dimension of the experts' weights; ranks may share the experts out."""
    expected = model.experts or 0
    shares = {expected, expected // max(1, facts.cuda.world_size or 1)}
    tensors = facts.graph.tensors
    for layer, operators in facts.layers.by_layer.items():
        for operator in operators:
            if "_MOE_W13_" not in facts.task_type(operator.task_type).name:
                continue
            group = operator.groups[0]
            for index, number in enumerate(group.inputs):
                tile = tensors[number]
                weight = facts.layers.names[number].weight
                if weight and len(tile.dims) == 3 and tile.dims[0] not in shares:
                    yield Finding(
                        rule="MG704",
                        severity=Severity.ERROR,
                        message=(
                            f"{tile.base_ptr} has {tile.dims[0]} experts, the model's "
                            f"configuration {expected}"
                        ),
                        location=facts.in_graph("all_tasks", group.first, "inputs", index, "dims"),
                        hint=f"build layer {layer} with all experts",
                        related=(
                            model.place("num_experts", "n_routed_experts", "num_local_experts"),
                        ),
                        tensor=tile.base_ptr,
                        rank=facts.rank,
                    )
                    return


# --- MG705 -----------------------------------------------------------------------------


@rule(
    "MG705",
    "grid-outlier",
    Severity.WARNING,
    "In one layer an operator has another number of tasks than in all its siblings.",
    why="""
        Siblings cut the same work into the same grid. Fewer tasks in one layer may be rows
        or columns that nobody computes; more may be work done twice.
    """,
    example="The down projection of layer 5 has 8 tasks; in all other layers it has 16.",
    fix="Give the operator the grid that it has in the sibling layers.",
    limits="One layer of four or more is an outlier, or at most one in eight.",
)
def grid_outlier(facts: RankFacts) -> Iterator[Finding]:
    for column in facts.siblings.columns:
        tasks = {layer: operator.tasks for layer, operator in column.operators.items()}
        if len(tasks) < 4 or len(set(tasks.values())) < 2:
            continue
        usual = Counter(tasks.values()).most_common(1)[0][0]
        every = [layer for layer, count in tasks.items() if count != usual]
        if not _odd(every, tasks) or _whole_class(facts, column, every):
            continue
        for count in sorted({tasks[layer] for layer in every}):
            layers = [layer for layer in every if tasks[layer] == count]
            sibling = next(layer for layer in tasks if tasks[layer] == usual)
            first, other = column.operators[layers[0]].first, column.operators[sibling].first
            same = sum(n == usual for n in tasks.values())
            yield Finding(
                rule="MG705",
                severity=Severity.WARNING,
                message=(
                    f"in {in_layers(layers)}, {_operator(facts, *column.key)} has "
                    f"{plural(count, 'task')}; in {plural(same, 'sibling layer')} it has {usual}"
                ),
                location=facts.in_graph("all_tasks", first, "task_type"),
                hint=f"give it the grid of layer {sibling}",
                related=(
                    facts.in_graph("all_tasks", other, "task_type", note=f"layer {sibling}'s"),
                ),
                rank=facts.rank,
            )

"""The model: graphs that are consistent, and miswired the same way in every layer."""

from __future__ import annotations

import json
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from mirage_gate.artifacts import model
from tests.emitter import Model, qwen3, qwen3_moe
from tests.model_of import config_of

from .defects_layers import _none
from .draft import Draft, Mutant
from .registry import defect, mixed
from .subject import Subject, Use, layer_of, role_of
from .subjects import MODELS

FAMILIES: dict[str, tuple[str, Callable[[], Model]]] = {
    "llama": ("llama", lambda: qwen3(4).without_qk_norm()),
    "llama-ampere": ("llama", lambda: qwen3(4, arch="ampere").without_qk_norm()),
    "qwen3": ("qwen3", MODELS["qwen3"]),
    "qwen3-tp2": ("qwen3", MODELS["qwen3-tp2"]),
    "qwen3-moe": ("qwen3_moe", MODELS["qwen3-moe"]),
    "mixtral": ("mixtral", lambda: qwen3_moe(4).without_qk_norm()),
    "deepseek": ("deepseek_v3", MODELS["deepseek"]),
}
"""Subject to (``model_type``, the model that is emitted)."""


def emitted(name: str) -> Model:
    """The model of a subject."""
    return FAMILIES[name][1]()


@cache
def meant(name: str) -> model.ModelConfig:
    """What a subject's configuration says."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.json")
        file.write_text(json.dumps(config_of(emitted(name), FAMILIES[name][0])))
        return model.read(str(file))


@defect("MG0")
def alike_in_every_layer(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """An operand is another tensor, or none, in all layers; or two are exchanged in all."""
    if subject.name not in FAMILIES:
        return
    yield from map(with_its_model, mixed(rng, whole_models(subject)))


_THE_SAME = {("deepseek", "layer_N_shared_expert_gate_up", "layer_N_moe_input_fp8")}
"""What has been quantized twice holds the same twice."""


def whole_models(subject: Subject) -> list[Draft]:
    """Every such change of a subject."""
    return [*_other_operand(subject), *_exchanged(subject), *_nothing(subject), *_shifted(subject)]


def with_its_model(draft: Draft) -> Mutant:
    """The change's texts, held to what the subject's configuration says."""
    made = draft.mutant()
    return Mutant(made.cuda, made.graph, what=made.what, model=meant(draft.subject.name))


def _columns(subject: Subject) -> dict[tuple[int, int, str], list[Use]]:
    """The reads of one slot of one operator, over all layers, by the operator's first weight."""
    columns: dict[tuple[int, int, str], list[Use]] = defaultdict(list)
    for uses in subject.by_task.values():
        weights = [u.name for u in uses if subject.storage[u.name] in ("host", "shuffled")]
        own = next((role_of(w) for w in weights if layer_of(w) is not None), "")
        outputs = [u.name for u in uses if u.side == "outputs"]
        key = own or (role_of(outputs[0]) if outputs else "")
        for use in uses:
            if use.side == "inputs" and use.reads and not use.writes:
                columns[use.code, use.slot, key].append(use)
    return columns


def _strides(use: Use) -> tuple[object, ...]:
    _, dims, strides, dtype = use.tile
    return strides, dtype, len(dims)


def _buffers(subject: Subject) -> dict[tuple[object, ...], set[str]]:
    """The activations by the layout of their rows: those of one layout can stand for each other."""
    found: dict[tuple[object, ...], set[str]] = defaultdict(set)
    for use in subject.uses:
        if subject.storage[use.name] in ("scratch", "symmetric") and use.writes:
            found[_strides(use)].add(use.name)
    return found


def _other_operand(subject: Subject) -> Iterator[Draft]:
    """An activation is read from another buffer of the same layout, in every layer."""
    buffers = _buffers(subject)
    written = {(use.task, use.name) for use in subject.uses if use.side == "outputs" and use.writes}
    for (_, slot, key), uses in sorted(_columns(subject).items()):
        names = {use.name for use in uses}
        if subject.storage[uses[0].name] not in ("scratch", "symmetric"):
            continue
        roles = {role_of(name) for name in buffers[_strides(uses[0])]}
        for other in sorted(roles - {role_of(name) for name in names}):
            if (subject.name, key, other) in _THE_SAME:
                continue
            draft = Draft(subject, f"slot {slot} of {key} reads {other} in every layer")
            for use in uses:
                layer = layer_of(use.name)
                near = layer if layer is not None else _near(subject, use.task)
                name = other.replace("_N_", f"_{near}_")
                if name in subject.storage and (use.task, name) not in written:
                    draft.slot(use.task, "inputs", use.slot)["base_ptr"] = name
            if draft._own:
                yield draft


def _near(subject: Subject, task: int) -> int:
    """The layer of the nearest weight before a task."""
    for number in range(task, 1, -1):
        for use in subject.by_task.get(number, ()):
            layer = layer_of(use.name)
            if layer is not None:
                return layer
    return 0


def _exchanged(subject: Subject) -> Iterator[Draft]:
    """Two weights, caches or tables of one layout are exchanged, in every layer."""
    by_layout: dict[tuple[object, ...], set[str]] = defaultdict(set)
    for use in subject.uses:
        if subject.storage[use.name] in ("host", "shuffled") and use.side == "inputs":
            by_layout[_strides(use)].add(role_of(use.name))
    for roles in by_layout.values():
        for one in sorted(roles):
            for other in sorted(role for role in roles if role > one):
                # The order of the tables of a task that only the emitter knows is nobody's.
                if ("_N_" in one) != ("_N_" in other) or (one, other) == ("rope_cos", "rope_sin"):
                    continue
                draft = Draft(subject, f"{one} and {other} are exchanged in every layer")
                swap = {one: other, other: one}
                for use in subject.uses:
                    role = role_of(use.name)
                    name = swap.get(role, "").replace("_N_", f"_{layer_of(use.name)}_")
                    if name in subject.storage:
                        draft.slot(use.task, use.side, use.slot)["base_ptr"] = name
                if draft._own and one != other:
                    yield draft


def _nothing(subject: Subject) -> Iterator[Draft]:
    """An optional operand is None in every layer."""
    groups: dict[tuple[int, ...], list[Use]] = defaultdict(list)
    for use in subject.uses:
        if use.optional:
            groups[(use.slot,)].append(use)
            groups[(3, 4) if use.slot < 5 else (5, 6)].append(use)
    for slots, uses in sorted(groups.items()):
        draft = Draft(subject, f"slots {slots} of attention are None in every layer")
        for use in uses:
            _none(draft, use)
        yield draft


def _shifted(subject: Subject) -> Iterator[Draft]:
    """Every layer reads a weight or a cache of the layer before; the first that of the last."""
    roles = {
        role_of(name)
        for name in subject.kinds("host", "shuffled")
        if layer_of(name) is not None and name in subject.by_name
    }
    for role in sorted(roles):
        layers = sorted(
            layer
            for layer in range(subject.layers)
            if role.replace("_N_", f"_{layer}_") in subject.by_name
        )
        before = dict(zip(layers, [layers[-1], *layers[:-1]], strict=True))
        if len(layers) < 2:
            continue
        draft = Draft(subject, f"{role} is that of the layer before in every layer")
        for layer in layers:
            for use in subject.by_name[role.replace("_N_", f"_{layer}_")]:
                name = role.replace("_N_", f"_{before[layer]}_")
                draft.slot(use.task, use.side, use.slot)["base_ptr"] = name
        yield draft

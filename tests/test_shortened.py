"""Layers that repeat are left out, and what is said stays what it was."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pytest

from mirage_gate.artifacts import cuda, loader
from mirage_gate.artifacts.graph import NO_EVENT
from mirage_gate.artifacts.graph import Graph as Loaded
from mirage_gate.auditing.rank import Job, Outcome, audit_halves
from mirage_gate.auditing.reading import Half
from mirage_gate.auditing.selection import Selection
from mirage_gate.facts import Options, RankFacts, shortened
from mirage_gate.facts.repetition import KEPT
from mirage_gate.rules.base import all_rules
from tests.emitter import OLD, Model, deepseek_v3, qwen3, qwen3_moe
from tests.emitter.graph import dump

MODELS: dict[str, Callable[[], Model]] = {
    "qwen3": lambda: qwen3(12),
    "ampere": lambda: qwen3(12, arch="ampere"),
    "split-kv": lambda: qwen3(11, split_kv=True),
    "tp2": lambda: qwen3(12, ranks=2, collective="tile"),
    "moe": lambda: qwen3_moe(12),
    "old": lambda: qwen3(12).written(OLD),
    "deepseek": lambda: deepseek_v3(14),
    "deepseek-tp8": lambda: deepseek_v3(14, ranks=8),
}

Graph = dict[str, Any]


def emitted(name: str) -> tuple[str, Graph]:
    pair = (MODELS | LONG)[name]().emit(0)
    return pair.cuda_text(), pair.graph


def facts_of(text: str, graph: Graph) -> RankFacts:
    loaded = loader.load(dump(graph).encode())
    assert isinstance(loaded, Loaded)
    return RankFacts(0, cuda.parse("kernel_0.cu", text.encode()), loaded, "g.json", Options())


def audit(text: str, graph: Graph) -> Outcome:
    job = Job(Options(), Selection(), by_layer=False)
    halves = (
        Half("kernel_0.cu", text.encode()),
        Half("g.json", dump(graph).encode()),
    )
    return audit_halves(0, *halves, job)


def whole(text: str, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """What is said if nothing is left out."""
    with monkeypatch.context() as patched:
        patched.setattr(shortened, "shortened", lambda _: None)
        return audit(text, graph)


def layer_starts(graph: Graph) -> dict[int, int]:
    """The first task that reads something of each layer."""
    found: dict[int, int] = {}
    for number, task in enumerate(graph["all_tasks"]):
        for operand in task["inputs"] or ():
            name = re.match(r"layer_(\d+)_", operand["base_ptr"])
            if name and int(name[1]) > max(found, default=-1):
                found[int(name[1])] = number
    return found


@pytest.mark.parametrize("name", MODELS)
def test_the_report_is_that_of_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, graph = emitted(name)
    short = facts_of(text, graph).shortened
    assert short is not None
    assert len(short.facts.graph.tasks) < len(graph["all_tasks"])
    outcome = audit(text, graph)
    assert outcome == whole(text, graph, monkeypatch)
    assert len(outcome.report.coverage) == len(facts_of(text, graph).declared)


def test_two_periods_are_kept_on_either_side() -> None:
    text, graph = emitted("qwen3")
    short = facts_of(text, graph).shortened
    assert short is not None
    # The first layer begins otherwise and the last one ends otherwise: neither is like the rest.
    assert short.repetition.layers == (1 + KEPT, 11 - KEPT)
    assert short.facts.layers.by_layer.keys() == set(range(12 - (11 - KEPT - 1 - KEPT)))


def test_a_short_graph_is_one_that_mpk_could_have_written() -> None:
    """It is what the emitter writes of a model with as many layers."""
    text, graph = emitted("qwen3")
    short = facts_of(text, graph).shortened
    assert short is not None
    layers = len(short.facts.layers.by_layer)
    pair = qwen3(layers).emit(0)
    other = facts_of(pair.cuda_text(), pair.graph)
    assert short.facts.graph.events == other.graph.events
    assert short.facts.graph.first_tasks == other.graph.first_tasks
    assert list(short.facts.graph.tasks) == list(other.graph.tasks)
    assert short.facts.graph.tensors == other.graph.tensors
    named = [(d.name, d.kind, d.nbytes) for d in short.facts.cuda.declarations]
    assert named == [(d.name, d.kind, d.nbytes) for d in other.cuda.declarations]


def test_a_layer_that_differs_is_not_left_out() -> None:
    text, graph = emitted("qwen3")
    starts = layer_starts(graph)
    graph["all_tasks"][starts[6] + 3]["trigger_event"] = NO_EVENT
    assert facts_of(text, graph).shortened is None  # five alike on either side are too few


def test_a_layer_whose_tensor_is_declared_otherwise_is_not_left_out() -> None:
    text, graph = emitted("split-kv")
    other = re.sub(
        r'(all_tensors\["layer_5_q_norm"\] = )\w+;', r"\1layer_4_q_norm + 16;", text, count=1
    )
    assert other != text
    assert facts_of(text, graph).shortened is not None
    assert facts_of(other, graph).shortened is None


def test_what_names_a_layer_left_out_keeps_it_in() -> None:
    text, graph = emitted("qwen3")
    last = graph["all_tasks"][-1]
    last["inputs"] = [
        *(last["inputs"] or ()),
        graph["all_tasks"][layer_starts(graph)[6]]["inputs"][1],
    ]
    name = last["inputs"][-1]["base_ptr"]
    assert name.startswith("layer_6_")
    assert facts_of(text, graph).shortened is None


def test_numbers_with_zeros_in_front_are_no_numbers_to_count_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`layer_03_q_norm` with another number would be another name, written otherwise."""
    text, graph = emitted("qwen3")
    padded = re.compile(r"\blayer_(\d)_")
    text = padded.sub(r"layer_0\1_", text)
    graph = json.loads(padded.sub(r"layer_0\1_", json.dumps(graph)))
    assert facts_of(text, graph).shortened is None
    assert audit(text, graph) == whole(text, graph, monkeypatch)


def test_patterns_repeat_by_the_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third layer runs another variant: the period is three layers long."""
    model = qwen3(24)
    pair = model.emit(0)
    graph, text = pair.graph, pair.cuda_text()
    starts = layer_starts(graph)
    for layer in range(0, 24, 3):
        task = graph["all_tasks"][starts[layer] + 1]
        task["task_offset"] = 7
    short = facts_of(text, graph).shortened
    assert short is not None
    assert short.repetition.period == 3
    assert audit(text, graph) == whole(text, graph, monkeypatch)


def _every(rng: random.Random, starts: dict[int, int], length: int) -> range:
    """Every layer of one length, or every second or third."""
    layers = sorted(starts)
    first = next(n for n in layers if starts[n + 1] - starts[n] == length)
    return range(first, layers[-1], rng.choice([1, 1, 2, 3]))


def _odd(rng: random.Random, starts: dict[int, int], _: int) -> list[int]:
    """One layer, or up to five at either end, at both, or anywhere."""
    count, layers = rng.choice([1, 1, 2, 3, 4, 5]), sorted(starts)[:-1]
    first, last = layers[:count], layers[-count:]
    return rng.choice([first, last, sorted({*first, *last}), rng.sample(layers, count)])


_Choice = Callable[[random.Random, dict[int, int], int], Iterable[int]]


def _tasks_at(graph: Graph, numbers: Iterable[int], wide: bool) -> Iterator[dict[str, Any]]:
    """Give some tasks; with ``wide`` those of the same type behind them as well."""
    for number in numbers:
        task = graph["all_tasks"][number]
        yield task
        for other in graph["all_tasks"][number + 1 :] if wide else ():
            if other["task_type"] != task["task_type"]:
                break
            yield other


def _edit(rng: random.Random, graph: Graph, choose: _Choice = _every) -> None:
    """Do the same to one task of some layers, or to all of the operator's."""
    starts = layer_starts(graph)
    layers = sorted(starts)
    length = starts[layers[-2]] - starts[layers[-3]]
    at, kind, wide = rng.randrange(length), rng.randrange(10), choose is _odd and rng.random() < 0.5
    more, less, outputs, place = (
        rng.choice([1, 2, 3]),
        rng.random() < 0.5,
        rng.random(),
        rng.random(),
    )
    for task in _tasks_at(graph, [starts[n] + at for n in choose(rng, starts, length)], wide):
        side = task["outputs" if outputs < 0.3 and task["outputs"] else "inputs"] or []
        if side and kind < 6:
            one = int(place * len(side))
            other = (one + 1) % len(side)
            if kind == 0:
                side[one]["dims"][0] = max(1, side[one]["dims"][0] // 2)
            elif kind == 1:
                side[one]["offset"] += 2 * more
            elif kind == 2:
                side[one]["offset"] = 0
            elif kind == 3:
                side[one], side[other] = side[other], side[one]
            elif kind == 4:
                side[one]["base_ptr"] = side[other]["base_ptr"]
            else:
                side[one]["data_type"] = 950 if side[one]["data_type"] == 941 else 941
        elif kind == 9:
            task["variant_id"] = more - 1
        elif kind >= 6:
            field = "trigger_event" if kind != 7 else "dependent_event"
            event = task[field] & 0xFFFF_FFFF
            if kind == 8 and event < len(graph["all_events"]):
                graph["all_events"][event]["num_triggers"] += more if less else -1
            elif task[field] != NO_EVENT:
                task[field] += -more if less else more


@pytest.mark.parametrize("name", ["qwen3", "tp2", "moe"])
@pytest.mark.parametrize("seed", range(4))
def test_a_mistake_in_every_layer(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found in the whole is found although layers are left out."""
    _held(name, seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(100, 112))
def test_more_mistakes_in_every_layer(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _held(name, seed, monkeypatch)


LONG: dict[str, Callable[[], Model]] = {
    "long": lambda: qwen3(20),
    "long-ampere": lambda: qwen3(20, arch="ampere"),
    "long-tp2": lambda: qwen3(20, ranks=2, collective="tile"),
    "long-moe": lambda: qwen3_moe(20),
}


@pytest.mark.parametrize("name", LONG)
def test_layers_that_are_odd(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What most layers have is what most have of all, also of those that are left out."""
    _held(name, 1, monkeypatch, _odd)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("seed", range(100, 115))
def test_more_layers_that_are_odd(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _held(name, seed, monkeypatch, _odd)


def _held(name: str, seed: int, monkeypatch: pytest.MonkeyPatch, choose: _Choice = _every) -> None:
    text, graph = emitted(name)
    rng = random.Random(f"{name} {seed}")  # noqa: S311 - to be repeated
    for _ in range(rng.choice([1, 1, 2])):
        _edit(rng, graph, choose)
    assert audit(text, graph) == whole(text, graph, monkeypatch)


def test_eight_odd_layers_of_24_are_not_most_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are most of those that are kept, which stand for the others."""
    pair = qwen3(24).emit(0)
    text, graph = pair.cuda_text(), pair.graph
    weights = tuple(f"layer_{layer}_down_proj" for layer in (*range(4), *range(19, 23)))
    for task in graph["all_tasks"]:
        names = [operand["base_ptr"] for operand in task["inputs"] or ()]
        if any(name in weights for name in names):
            state = task["inputs"][names.index("silu_mul_out")]
            state["dims"][-1] //= 2
    kept = facts_of(text, graph).shortened
    assert kept is not None
    assert len(kept.facts.layers.by_layer) < 16
    outcome = audit(text, graph)
    assert outcome == whole(text, graph, monkeypatch)
    assert any("in most layers all of it is read" in f.message for f in outcome.summary.findings)
    monkeypatch.setattr(RankFacts, "times_of_layer", lambda *_: 1)
    assert audit(text, graph) != outcome


@pytest.mark.parametrize("name", MODELS)
def test_what_is_kept_stands_for_what_is_left_out(name: str) -> None:
    facts = facts_of(*emitted(name))
    short = facts.shortened
    assert short is not None
    few = short.facts
    assert sum(map(few.times_of_layer, few.layers.by_layer)) == len(facts.layers.by_layer)
    assert sum(map(few.times_of_group, few.wiring.groups)) == len(facts.wiring.groups)
    assert sum(map(few.times_of_event, range(len(few.graph.events)))) == len(facts.graph.events)
    assert {facts.times_of_layer(layer) for layer in facts.layers.by_layer} == {1}


def test_a_layer_that_another_names_from_afar_stands_for_no_other() -> None:
    """What the last layer reads of layer 3 it does not read of those that are left out."""
    text, graph = emitted("qwen3")
    kept = facts_of(text, graph).shortened
    assert kept is not None
    layer = kept.repetition.layers[0] - 1
    starts = layer_starts(graph)
    operand = next(
        operand
        for task in graph["all_tasks"]
        for operand in task["inputs"] or ()
        if operand["base_ptr"].startswith(f"layer_{layer}_")
    )
    task = graph["all_tasks"][starts[11] + 1]
    task["inputs"] = [*task["inputs"], operand]
    assert facts_of(text, graph).shortened is None


def test_rules_that_look_for_patterns_over_the_layers_see_all_of_them() -> None:
    patterns = {"layers", "model", "agreed"}
    assert not [rule.id for rule in all_rules() if rule.repeats and rule.folder in patterns]
    assert all(rule.scope == "rank" for rule in all_rules() if rule.repeats)


def test_names_in_the_short_graph() -> None:
    text, graph = emitted("qwen3")
    short = facts_of(text, graph).shortened
    assert short is not None
    assert short.like("layer_0_q_norm") == "layer_0_q_norm"
    assert short.like("layer_11_q_norm") == "layer_5_q_norm"
    assert short.like("layer_7_q_norm") == "layer_2_q_norm"
    assert short.like("lm_head") == "lm_head"
    assert msgspec.structs.asdict(short.repetition)["copies"] == 6

"""MG405 bad-event-id."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.emitter import Pair
from tests.emitter.graph import NVSHMEM_TAG
from tests.rules import Expect, Texts, fires, silent
from tests.rules.graphs import allgather, position, small


@pytest.mark.parametrize("field", ["dependent_event", "trigger_event"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda i: i + 50_000, "has position"),
        (lambda i: i | 0xFFFF_0000, "has position"),
        (lambda i: i + (5 << 32), "is rank 5's"),
        (lambda i: i | 0x0100 << 48, "has the tag 0x100"),
        (lambda i: 0, "is event 0"),
    ],
)
@fires("MG405", once=True)
def test_an_id_that_cannot_be_meant(field: str, change: Callable[[int], int], says: str) -> Expect:
    pair = small()
    task = position(pair, pair.tasks(153)[1])
    one = pair.graph["all_tasks"][task]
    one[field] = change(one[field])
    return Expect(
        pair,
        graph=("all_tasks", task, field),
        says=(says, f"{field} {one[field]} of task {task} "),
    )


@fires("MG405", once=True, says=("its task sends nothing",))
def test_an_nvshmem_tag_where_nothing_is_sent() -> Expect:
    pair = small()
    task = pair.tasks(153)[0]
    task["trigger_event"] |= NVSHMEM_TAG << 48
    return Expect(pair, graph=("all_tasks", position(pair, task), "trigger_event"))


@pytest.mark.parametrize(
    ("gpu", "says"), [(1, "which is this rank"), (4, "and there are 4"), (900, "and there are 4")]
)
@fires("MG405", once=True)
def test_a_remote_trigger_of_a_rank_that_is_not_there(gpu: int, says: str) -> Expect:
    pair = allgather(1)
    task = pair.tasks(301)[0]
    task["trigger_event"] = NVSHMEM_TAG << 48 | gpu << 32 | task["trigger_event"] & 0xFFFF_FFFF
    return Expect(pair, graph=("all_tasks", position(pair, task), "trigger_event"), says=(says,))


@silent("MG405")
def test_a_remote_trigger_of_another_rank() -> Pair:
    pair = allgather(1)
    task = pair.tasks(301)[0]
    task["trigger_event"] = NVSHMEM_TAG << 48 | 3 << 32 | task["trigger_event"] & 0xFFFF_FFFF
    return pair


@silent("MG405", alone=("MG4",))
def test_a_file_of_another_rank_is_not_this_rules_business() -> Texts:
    pair = allgather(2)
    return Texts(pair.cuda_text(), pair.json_text())

"""Finding the pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage_gate.artifacts.pairs import NothingFound, find, match


def touch(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("")


def found(paths: list[str], ranks: tuple[int, ...] = ()) -> list[tuple[int, str, str]]:
    return [(p.rank, Path(p.cuda).name, Path(p.graph).name) for p in find(paths, ranks)]


@pytest.mark.parametrize(
    ("name", "half", "rank"),
    [
        ("kernel_0.cu", "cuda", 0),
        ("kernel_12.cu", "cuda", 12),
        ("task_graph_3.json", "graph", 3),
        ("test_rank1.cu", "cuda", 1),
        ("task_graph_rank1.json", "graph", 1),
        ("test.cu", "cuda", 0),
        ("task_graph.json", "graph", 0),
    ],
)
def test_names_of_all_families(name: str, half: str, rank: int) -> None:
    matched = match(name)
    assert matched is not None
    assert matched[1:] == (half, rank)


@pytest.mark.parametrize(
    "name",
    [
        *("kernel_00.cu", "kernel_.cu", "kernel_0.cuh", "xkernel_0.cu", "kernel_-1.cu"),
        *("kernel_0.cu.bak", "kernel_metadata_rank0.json", "task_graph_0.jsonl"),
        *("test_rank.cu", "kernel_1234567.cu", "README.md"),
    ],
)
def test_names_that_are_no_artifacts(name: str) -> None:
    assert match(name) is None


def test_a_folder_holds_three_families(tmp_path: Path) -> None:
    touch(tmp_path, "kernel_1.cu", "task_graph_1.json", "kernel_0.cu", "task_graph_0.json")
    touch(tmp_path, "test_rank0.cu", "task_graph_rank0.json", "test.cu", "task_graph.json")
    touch(tmp_path, "kernel_metadata_rank0.json", "notes.txt")
    assert found([str(tmp_path)]) == [
        (0, "kernel_0.cu", "task_graph_0.json"),
        (1, "kernel_1.cu", "task_graph_1.json"),
        (0, "test_rank0.cu", "task_graph_rank0.json"),
        (0, "test.cu", "task_graph.json"),
    ]


def test_a_pair_named_in_many_ways_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "kernel_0.cu", "task_graph_0.json")
    monkeypatch.chdir(tmp_path)
    paths = ["kernel_0.cu", "./task_graph_0.json", ".", "*.cu", "kernel_0.cu"]
    assert found(paths) == [(0, "kernel_0.cu", "task_graph_0.json")]


def test_half_a_pair_says_where_the_other_was_looked_for(tmp_path: Path) -> None:
    touch(tmp_path, "kernel_0.cu", "task_graph_rank2.json")
    kernel, ranked = find([str(tmp_path)])
    assert (kernel.whole, Path(kernel.expected).name) == (False, "task_graph_0.json")
    assert (ranked.whole, Path(ranked.expected).name) == (False, "test_rank2.cu")


def test_ranks_keep_and_miss(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{n}_{r}.{e}" for r in range(4) for n, e in (("kernel", "cu"),)))
    touch(tmp_path, *(f"task_graph_{r}.json" for r in range(4)))
    assert [rank for rank, *_ in found([str(tmp_path)], (1, 3))] == [1, 3]
    missing = find([str(tmp_path)], (2, 9))
    assert [(p.rank, p.whole) for p in missing] == [(2, True), (9, False)]


def test_globs_cross_folders(tmp_path: Path) -> None:
    touch(tmp_path / "e" / "f", "kernel_0.cu", "task_graph_0.json")
    assert len(find([str(tmp_path / "e" / "*" / "kernel_0.cu")])) == 1
    (tmp_path / "e" / "f" / "kernel_0.cu").unlink()
    (tmp_path / "e" / "f" / "task_graph_0.json").unlink()
    touch(tmp_path / "a b", "kernel_0.cu", "task_graph_0.json")
    touch(tmp_path / "c" / "d", "kernel_0.cu", "task_graph_0.json")
    assert len(find([str(tmp_path / "**" / "*.json")])) == 2
    assert len(find([str(tmp_path / "*")])) == 1


def test_a_folder_whose_name_has_glob_characters(tmp_path: Path) -> None:
    touch(tmp_path / "gen[0]*", "kernel_0.cu", "task_graph_0.json")
    assert len(find([str(tmp_path / "gen[0]*")])) == 1


def test_nothing_says_what_was_looked_for_and_where(tmp_path: Path) -> None:
    with pytest.raises(NothingFound, match=r"kernel_N\.cu with task_graph_N\.json"):
        find([str(tmp_path)])
    touch(tmp_path / "gen", "kernel_0.cu")
    with pytest.raises(NothingFound, match=r"there are some in .*gen"):
        find([str(tmp_path)])
    with pytest.raises(NothingFound, match="of rank 7"):
        find([str(tmp_path / "gen")], (7,))


def test_a_mistyped_folder_does_not_hide_behind_a_good_one(tmp_path: Path) -> None:
    touch(tmp_path / "gen", "kernel_0.cu", "task_graph_0.json")
    for other in ("gne", "gen/readme.md", "*.cu"):
        with pytest.raises(NothingFound, match=r"gne|readme|\*"):
            find([str(tmp_path / "gen"), str(tmp_path / other)])

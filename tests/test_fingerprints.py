"""``primaryLocationLineHash``: against GitHub's published vectors and a plain computation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mirage_gate.reports import _fingerprints
from mirage_gate.reports._fingerprints import line_hashes
from tests.emitter import qwen3


def plain_line_hashes(data: bytes) -> dict[int, str]:
    """Every line's fingerprint, computed unit by unit as the uploader's description says."""
    encoded = data.decode("utf-8", "replace").encode("utf-16-le")
    units: list[int] = []
    after_return = False
    for low, high in zip(encoded[::2], encoded[1::2], strict=True):
        unit = low | high << 8
        if unit in (0x20, 0x09) or (after_return and unit == 0x0A):
            after_return = False
            continue
        after_return = unit == 0x0D
        units.append(0x0A if after_return else unit)
    units.append(0xFFFF)

    starts = [0] + [i + 1 for i, unit in enumerate(units) if unit == 0x0A]
    units += [0] * 100
    seen: dict[int, int] = {}
    fingerprints = {}
    for line, start in enumerate(starts, 1):
        value = 0
        for unit in units[start : start + 100]:
            value = (value * 37 + unit) % 2**64
        seen[value] = seen.get(value, 0) + 1
        fingerprints[line] = f"{value:x}:{seen[value]}"
    return fingerprints


def hash_all(folder: Path, data: bytes) -> list[str]:
    path = folder / "file"
    path.write_bytes(data)
    return list(
        line_hashes(str(path), range(1, 2 + data.count(b"\n") + data.count(b"\r"))).values()
    )


EMPTY = "c129715d7a2bc9a3:1"
GREETINGS = [
    "e9496ae3ebfced30:1",
    "fb7c023a8b9ccb3f:1",
    "ce8ba1a563dcdaca:1",
    "e20e36e16fcb0cc8:1",
    "b3edc88f2938467e:1",
    "c8e28b0b4002a3a0:1",
    EMPTY,
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [EMPTY]),
        (
            " a\nb\n  \t\tc\n d",
            ["271789c17abda88f:1", "54703d4cd895b18:1", "180aee12dab6264:1", "a23a3dc5e078b07b:1"],
        ),
        (
            " hello; \t\nworld!!!\n\n\n  \t\tGreetings\n End",
            [
                "8b7cf3e952e7aeb2:1",
                "b1ae1287ec4718d9:1",
                "bff680108adb0fcc:1",
                "c6805c5e1288b612:1",
                "b86d3392aea1be30:1",
                "e6ceba753e1a442:1",
            ],
        ),
        (" hello; \t\nworld!!!\n\n\n  \t\tGreetings\n End\n", GREETINGS),
        (" hello; \t\nworld!!!\r\r\r  \t\tGreetings\r End\r", GREETINGS),
        (" hello; \t\r\nworld!!!\r\n\r\n\r\n  \t\tGreetings\r\n End\r\n", GREETINGS),
        (" hello; \t\nworld!!!\r\n\n\r  \t\tGreetings\r End\r\n", GREETINGS),
        (
            "Lorem ipsum dolor sit amet.\n" * 10,
            [
                *(f"a7f2ff13bc495cf2:{count}" for count in range(1, 7)),
                "a7f2ff1481e87703:1",
                "a9cf91f7bbf1862b:1",
                "55ec222b86bcae53:1",
                "cc97dc7b1d7d8f7b:1",
                EMPTY,
            ],
        ),
        (
            "x = 2\nx = 1\nprint(x)\nx = 3\nprint(x)\nx = 4\nprint(x)\n",
            [
                "e54938cc54b302f1:1",
                "bb609acbe9138d60:1",
                "1131fd5871777f34:1",
                "5c482a0f8b35ea28:1",
                "54517377da7028d2:1",
                "2c644846cb18d53e:1",
                "f1b89f20de0d133:1",
                EMPTY,
            ],
        ),
    ],
)
def test_published_vectors(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert list(plain_line_hashes(text.encode()).values()) == expected
    assert hash_all(tmp_path, text.encode()) == expected


# Characters that are easy to get wrong: every kind of blank and line ending, units whose
# lower byte is a line feed's, the mark of the end, zeros, surrogate pairs, broken UTF-8.
_PARTS = st.one_of(
    st.sampled_from(
        [b"\n", b"\r", b"\r\n", b" ", b"\t", b"\0", b"aZ", b"b5", b"a", b"x" * 97]
        + [char.encode() for char in "\u010a\u0a0a\uffff\ufeff\u2028\u00a0é😀"]
        + [b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf"]
    ),
    st.binary(max_size=3),
)
_FILES = st.tuples(st.lists(_PARTS, max_size=40).map(b"".join), st.integers(1, 40)).map(
    lambda parts: parts[0] * parts[1]
)


@given(
    data=_FILES, lanes=st.sampled_from([1, 7, 64, 1 << 14]), read=st.sampled_from([1, 9, 1 << 20])
)
@example(data=b"aZ\n" + b"y" * 200 + b"\nb5\n" + b"y" * 200, lanes=64, read=9)
@settings(max_examples=400, deadline=None)
def test_equals_the_plain_computation(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, lanes: int, read: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "hashed"
    path.write_bytes(data)
    expected = plain_line_hashes(data)
    with mock.patch.multiple(_fingerprints, _LANES=lanes, _READ=read):
        assert line_hashes(str(path), range(-1, len(expected) + 3)) == expected
        some = [line for line in expected if line % 3 == 1]
        assert line_hashes(str(path), some) == {line: expected[line] for line in some}


def test_counts_different_text_with_the_same_hash(tmp_path: Path) -> None:
    tail = b"\n" + b"y" * 100 + b"\n"
    data = b"aZ" + tail + b"b5" + tail
    assert plain_line_hashes(data)[3].endswith(":2")
    assert hash_all(tmp_path, data) == list(plain_line_hashes(data).values())


def test_reads_no_further_than_it_must(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"line\n" * 100_000)
    spans = _fingerprints._spans
    read = 0

    def counted(name: str) -> Iterator[tuple[int, str, str, int]]:
        nonlocal read
        for span in spans(name):
            read += span[3]
            yield span

    with mock.patch.multiple(_fingerprints, _READ=1000, _LANES=500, _spans=counted):
        assert line_hashes(str(path), [10])
    assert read <= 2000
    assert line_hashes(str(path), []) == {}
    assert line_hashes(str(path), [200_000]) == {}


@pytest.mark.parametrize("read", [700, 1 << 14, 1 << 20])
@pytest.mark.parametrize("faster", [0, 50, 10**9])
def test_a_graph_is_counted_by_text_as_by_hash(tmp_path: Path, read: int, faster: int) -> None:
    _, path = qwen3(1).write(tmp_path)[:2]
    data = path.read_bytes()
    expected = plain_line_hashes(data)
    wanted = [1, 2, 3, 400, 900, 901, 2000, 2500, len(expected) - 60]
    by_hash = mock.Mock(side_effect=_fingerprints._by_hash)
    with mock.patch.multiple(
        _fingerprints, _FAR=1000, _READ=read, _FASTER=faster, _by_hash=by_hash
    ):
        assert line_hashes(str(path), wanted) == {line: expected[line] for line in wanted}
        assert by_hash.called == (faster == 0)
        # The last lines have no full window, and a name need not be ASCII.
        last = [*wanted, len(expected)]
        assert line_hashes(str(path), last) == {line: expected[line] for line in last}
        path.write_bytes(data.replace(b'"w', b'"\xc3\xa9', 1).replace(b"\n", b"\r\n", 7))
        expected = plain_line_hashes(path.read_bytes())
        assert line_hashes(str(path), wanted) == {line: expected[line] for line in wanted}


# Lines of which one begins as another does, at differing depths, as often as not the same.
_LINES = st.lists(
    st.one_of(
        st.sampled_from(["1,", "11,", "  {", "  }", '    "name": 7,', '    "name": "a",']),
        st.integers(0, 30).map('    "name": {},'.format),
        st.integers(0, 30).map('    "event": "{}",'.format),
    ),
    min_size=1,
    max_size=30,
)


@given(
    lines=_LINES,
    times=st.integers(2, 30),
    read=st.sampled_from([700, 1 << 18]),
    look=st.sampled_from([0, 300, 10**9]),
    marked=st.sampled_from([2, 7, 50, 10**9]),
)
@example(lines=["1,", "1,"], times=30, read=700, look=10**9, marked=7)
@settings(max_examples=200, deadline=None)
def test_lines_of_one_text_are_counted_however_they_are_found(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    times: int,
    read: int,
    look: int,
    marked: int,
) -> None:
    path = tmp_path_factory.getbasetemp() / "counted"
    end = "x" * 100  # after which a window is whole
    data = _fingerprints._LAYOUT + "\n".join([*lines * times, end]).encode()
    path.write_bytes(data)
    expected = plain_line_hashes(data)
    wanted = [line for line in expected if line % 3 == 1 and line <= len(expected) - 1]
    marks = [
        (line, start + line % 2)
        for line, start in enumerate(accumulate(map(len, data.splitlines(True)), initial=0), 1)
        if line % marked == 0
    ]
    by_hash = mock.Mock(side_effect=_fingerprints._by_hash)
    with mock.patch.multiple(
        _fingerprints, _FAR=0, _READ=read, _SAMPLE=400, _LOOK=look, _FASTER=10**12, _by_hash=by_hash
    ):
        assert line_hashes(str(path), wanted, marks) == {line: expected[line] for line in wanted}
    assert not by_hash.called


def test_what_begins_alike_is_looked_for_once(tmp_path: Path) -> None:
    _, path = qwen3(4).write(tmp_path)[:2]
    lines = path.read_bytes().splitlines()
    wanted = [n for n, line in enumerate(lines, 1) if b'"dependent_event"' in line][20:900:3]
    count = mock.Mock(side_effect=_fingerprints._count)
    with mock.patch.multiple(_fingerprints, _FAR=1000, _count=count):
        assert len(line_hashes(str(path), wanted)) == len(wanted)
    (_, searches), _ = count.call_args
    assert len(searches) < 5


@pytest.mark.parametrize("varied", [False, True])
def test_counts_where_all_lines_look_alike(tmp_path: Path, varied: bool) -> None:
    lines = 200_000
    path = tmp_path / "file.json"
    path.write_text(
        "".join(f'          "offset": {n * varied},\n' for n in range(lines)), encoding="ascii"
    )
    found = line_hashes(str(path), [lines - 20, lines])
    assert found[lines - 20].endswith(":1" if varied else f":{lines - 20}")


def test_counts_through_a_real_graph(artifacts: Path) -> None:
    path = artifacts / "qwen3_0.6b_4l_hopper" / "task_graph_0.json"
    expected = plain_line_hashes(path.read_bytes())
    lines = [1, 2, 400, 30_000, len(expected) - 3, len(expected)]
    assert line_hashes(str(path), lines) == {line: expected[line] for line in lines}

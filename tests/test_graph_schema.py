"""The fast reader against the schema: they accept the same graphs, and refuse with the same words.

``schemas/task_graph.schema.json`` is the contract and jsonschema its authority; msgspec's types
only have to say the same, faster. Here graphs are changed at random, and each is given to both.
Where an error is said to stand is held against a scanner of its own, which reads the text
character by character and knows nothing of the package.
"""

from __future__ import annotations

import json
import pathlib
import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mirage_gate.artifacts import schema
from mirage_gate.artifacts.files import Unreadable
from mirage_gate.artifacts.graph import ABSENT, METADATA_FIELDS, Graph, Malformed, Refusal
from mirage_gate.artifacts.graph_text import GraphText
from mirage_gate.artifacts.loader import load
from mirage_gate.artifacts.positions import pointer_text
from mirage_gate.schema_files import text as schema_text
from tests.emitter import qwen3
from tests.emitter.graph import dump

VALIDATOR = Draft202012Validator(json.loads(schema_text("task-graph")))

Path = tuple[str | int, ...]


@cache
def small_text() -> str:
    """Seven tasks and three events: null for no inputs at all, and None among the inputs."""
    pair = qwen3(1).without_qk_norm(layer=0).emit()
    document = pair.graph
    attention = pair.tasks(tensor="nullptr")[0]
    document["all_tasks"] = [*document["all_tasks"][:3], attention, *document["all_tasks"][-3:]]
    document["all_events"] = document["all_events"][:3]
    return json.dumps(document, indent=2, sort_keys=True)


# -- changes ---------------------------------------------------------------------------------


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """The path of every value in a document."""
    yield path
    if isinstance(value, dict):
        for key, member in value.items():
            yield from places(member, (*path, key))
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from places(element, (*path, index))


EDGES = [0, 2**31, 2**32, 2**53, 2**63, 2**64, 10**40, 10**60]
INTEGERS = st.sampled_from([sign * (n + d) for n in EDGES for d in (-1, 0, 1) for sign in (1, -1)])
FLOATS = st.sampled_from([1.0, 0.0, -0.0, 1e3, 2.5, 1e18, 1e300, -1.0, 5e-324, 2.0**63, 2.0**53])
SCALARS = st.one_of(
    INTEGERS,
    FLOATS,
    st.none(),
    st.booleans(),
    st.sampled_from(["", "1", "nullptr", "né", "\x7f", "😀", "all_tasks"]),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=9),
    st.dictionaries(st.sampled_from(["offset", "dims", "~a/b", ""]), SCALARS, max_size=3),
    st.builds(lambda: [[[[{"a": [None]}]]]]),
)


@st.composite
def changed(draw: st.DrawFn) -> Any:
    """A small graph with a few random changes: replaced, removed, added, repeated."""
    document = json.loads(small_text())
    for _ in range(draw(st.integers(1, 3))):
        paths = list(places(document))
        path = draw(st.sampled_from(paths))
        if not path:
            document = draw(st.one_of(st.just(document), VALUES))
            continue
        parent: Any = document
        for part in path[:-1]:
            parent = parent[part]
        key: Any = path[-1]
        match draw(st.sampled_from(["replace", "replace", "remove", "add", "repeat"])):
            case "replace":
                parent[key] = draw(VALUES)
            case "remove":
                del parent[key]
            case "add" if isinstance(parent, dict):
                parent[draw(st.sampled_from(["comment", "offset", "", "ünknown"]))] = draw(VALUES)
            case "repeat" if isinstance(parent, list):
                parent.extend([parent[key]] * draw(st.integers(1, 8)))
    return document


LAYOUTS = [
    {"indent": 2, "sort_keys": True},
    {"indent": 2},
    {"separators": (",", ":")},
    {"indent": "\t", "ensure_ascii": False},
]


def listed(document: Any) -> set[tuple[str, str]]:
    """What the authority refuses, as (pointer, keyword)."""
    return {
        (pointer_text(error.absolute_path), str(error.validator))
        for error in VALIDATOR.iter_errors(document)
    }


# -- the two agree ---------------------------------------------------------------------------


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(changed(), st.sampled_from(LAYOUTS))
def test_both_accept_the_same_and_refuse_the_same(document: Any, layout: dict[str, Any]) -> None:
    text = json.dumps(document, **layout)
    expected = listed(document)
    with GraphText.of("task_graph_0.json", text.encode()) as source:
        loaded = load(source)
        if isinstance(loaded, Graph):
            assert not expected
            check_exact(loaded, document)
            return
        assert {(pointer_text(e.pointer), e.keyword) for e in loaded.errors} == expected
        assert loaded.more == 0
        check_order(loaded)
        scanned = scan(text)
        pointers = {pointer_text(error.pointer) for error in loaded.errors}
        for pointer, location in source.place(pointers).items():
            line, column = scanned[pointer]
            assert (location.line, location.column) == (line, column), pointer


def check_exact(loaded: Graph, document: Any) -> None:
    """A decoded graph says what the document says, to the last digit."""
    assert len(loaded.tasks) == len(document["all_tasks"])
    for task, raw in zip(loaded.tasks, document["all_tasks"], strict=True):
        for name in ("task_type", "variant_id", "trigger_event", "dependent_event"):
            assert exactly(getattr(task, name), raw[name])
        for name, value in zip(METADATA_FIELDS, task.metadata, strict=True):
            assert exactly(value, raw.get(name, ABSENT))
        for side in ("inputs", "outputs"):
            numbers = getattr(task, side)
            assert len(numbers) == len(raw[side] or ())
            for number, reference in zip(numbers, raw[side] or (), strict=True):
                tensor = loaded.tensors[number]
                assert tensor.base_ptr == reference["base_ptr"]
                assert exactly(tensor.offset, reference["offset"])
                assert exactly(tensor.data_type, reference["data_type"])
                assert tensor.dims == tuple(reference["dims"])
                assert tensor.strides == tuple(reference["strides"])
    events = [{**raw} for raw in document["all_events"]]
    for event, raw in zip(loaded.events, events, strict=True):
        for name in ("event_type", "num_triggers", "first_task_id", "last_task_id"):
            assert exactly(getattr(event, name), raw[name])
    assert loaded.first_tasks == document["first_tasks"]


def exactly(value: Any, raw: Any) -> bool:
    return type(value) is int and not isinstance(raw, bool) and value == raw


def check_order(refusal: Refusal) -> None:
    """Errors come array by array, and in each by index."""
    order = ["all_events", "all_tasks", "first_tasks"]
    keys = [
        (order.index(str(e.pointer[0])), *e.pointer[1:2]) if e.pointer else (-1,)
        for e in refusal.errors
    ]
    assert keys == sorted(keys)


@pytest.mark.parametrize("number", ["1.0", "1e0", "10e-1", "-0", "-0.0", "0e5", "1E+2", "100E-2"])
def test_a_whole_number_is_an_integer_however_it_is_written(number: str) -> None:
    document = small_text().replace('"variant_id": 0', f'"variant_id": {number}', 1)
    loaded = load(document.encode())
    assert isinstance(loaded, Graph)
    assert exactly(loaded.tasks[0].variant_id, int(float(number)))


def test_what_stands_in_fields_nobody_knows_does_not_matter() -> None:
    document = json.loads(small_text())
    document["all_tasks"][1] |= {"variant_id": 1.0, "note": [1e999, 0.5, 10**400, "\ud83d\ude00"]}
    assert isinstance(load(json.dumps(document).replace("Infinity", "1e999").encode()), Graph)


def test_of_a_repeated_key_the_last_one_counts() -> None:
    text = small_text()
    key = '"variant_id": 0'
    assert isinstance(load(text.replace(key, f'"variant_id": [], {key}', 1).encode()), Graph)
    refusal = load(text.replace(key, f'{key}, "variant_id": []', 1).encode())
    assert isinstance(refusal, Refusal)
    assert refusal.errors[0].pointer == ("all_tasks", 0, "variant_id")
    for repeated in ('"all_tasks": [],', '"all_tasks": 5,', '"\\u0061ll_tasks": [],'):
        loaded = load(text.replace('"all_tasks":', f'{repeated} "all_tasks":', 1).encode())
        assert isinstance(loaded, Graph)
        assert len(loaded.tasks) == 7
    at_the_end = text.rstrip("}\n") + ', "all_tasks": []}'
    loaded = load(at_the_end.encode())
    assert isinstance(loaded, Graph)
    assert len(loaded.tasks) == 0
    escaped = text.rstrip("}\n") + ', "\\u0061ll_tasks": []}'
    loaded = load(escaped.encode())
    assert isinstance(loaded, Graph)
    assert len(loaded.tasks) == 0


def test_all_tasks_deeper_down_are_not_the_tasks() -> None:
    text = small_text()
    nested = '{\n  "extra": {' + text.strip("{}") + "},\n" + text[1:]
    loaded = load(nested.encode())
    assert isinstance(loaded, Graph)
    assert len(loaded.tasks) == 7
    alone = load(('{\n  "extra": {' + text.strip("{}") + "}\n}").encode())
    assert isinstance(alone, Refusal)
    assert {error.keyword for error in alone.errors} == {"required"}


# -- no JSON ---------------------------------------------------------------------------------


def refused_as_malformed(data: bytes) -> Malformed:
    with pytest.raises(Malformed) as caught:
        load(data)
    error = caught.value
    assert error.location.line == data.count(b"\n", 0, error.offset) + 1
    return error


def test_a_text_cut_anywhere_is_unreadable_where_it_ends() -> None:
    data = small_text().encode()
    for cut in range(len(data)):
        error = refused_as_malformed(data[:cut])
        end = len(data[:cut].rstrip())
        assert end - 1 <= error.offset <= end
        if error.offset == end:
            assert str(error) == "the text ends too early"


@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "01",
        "-",
        "1.",
        ".5",
        "+1",
        "1e",
        "0x10",
        "1_000",
        "tru",
        "True",
        "[1,]",
        "[1 2]",
        "{1: 2}",
        "'a'",
        '"a\tb"',
        '"a\x00b"',
        r'"\x41"',
        r'"\u12g4"',
        r'"\ud800 and no second half"',
        r'"\udc00"',
        "/* 1 */ 1",
        "\x0b1",
    ],
)
@pytest.mark.parametrize("key", ["variant_id", "comment"])
def test_what_is_no_json_is_so_in_any_field(key: str, value: str) -> None:
    """In a field that is ignored, too: the loader's own reader would refuse all of these."""
    text = small_text().replace('"variant_id": 0', f'"{key}": {value}', 1)
    error = refused_as_malformed(text.encode())
    start = text.index(f'"{key}": {value}') + len(f'"{key}": ')
    assert start <= error.offset <= start + len(value) + 1
    assert error.location.line == text.count("\n", 0, start) + 1


@pytest.mark.parametrize(
    "tail", ["x", "}", "]", ",", "\x00", " {}", "\n\n//", "\n\n\n\n0", "\ufeff"]
)
def test_what_follows_the_graph_is_too_much(tail: str) -> None:
    text = small_text()
    error = refused_as_malformed((text + tail).encode())
    assert len(text) <= error.offset <= len((text + tail).encode())
    assert error.location.line == (text + tail.rstrip("/0")).count("\n") + 1


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80", b"\xc0\x80"])
def test_bytes_that_are_no_utf8_are_so_in_any_field(bad: bytes) -> None:
    data = small_text().encode()
    for key in (b"nullptr", b'"variant_id"'):
        at = data.index(key) + 1
        error = refused_as_malformed(data[:at] + bad + data[at:])
        assert error.offset == at
        assert "UTF-8" in str(error)


def test_a_byte_order_mark_is_welcome_and_counts_for_no_column() -> None:
    text = small_text()
    assert isinstance(load(b"\xef\xbb\xbf" + text.encode()), Graph)
    with GraphText.of("g", b"\xef\xbb\xbf{}") as source:
        assert isinstance(load(source), Refusal)
        assert source.place([""])[""].column == 1
    refused_as_malformed(text.encode("utf-16"))


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
@pytest.mark.parametrize("closed", [True, False])
def test_deep_nesting_is_refused_where_it_gets_deep(opening: str, closed: bool) -> None:
    deep = opening * 100_000
    if closed:
        ends = {"[": "]", "{": "}"}
        deep += "1" + "".join(ends[c] for c in reversed(deep) if c in ends)
    for before in ('"comment": ', '"inputs": ', ""):
        text = small_text()
        text = text.replace('"inputs": ', f"{before}{deep}, ", 1) if before else deep
        error = refused_as_malformed(text.encode())
        assert str(error) == "nested too deeply"
        start = text.index(deep)
        assert start < error.offset < start + 1000


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**9), st.integers(1, 4))
@example(0, 1)
def test_random_damage_is_never_a_traceback_and_never_a_silent_pass(seed: int, cuts: int) -> None:
    """Bytes flipped, dropped and doubled: JSON and schema decide alone what becomes of it."""
    chance = random.Random(seed)  # noqa: S311
    data = bytearray(small_text().encode())
    for _ in range(cuts):
        at = chance.randrange(len(data))
        match chance.randrange(3):
            case 0:
                data[at] = chance.choice(b'{}[]",:0123456789-eE.\\ntu \n\x00\x80\xff')
            case 1:
                del data[at : at + chance.randrange(1, 40)]
            case 2:
                data[at:at] = data[at : at + chance.randrange(1, 400)]
    try:
        document = json.loads(bytes(data).decode(), parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        refused_as_malformed(bytes(data))
        return
    loaded = load(bytes(data))
    assert isinstance(loaded, Graph) == (not listed(document))


# -- many errors, big graphs -----------------------------------------------------------------


@cache
def long_document() -> Any:
    """Tasks enough for several pieces."""
    document = qwen3(8).emit().graph
    document["all_tasks"] *= 6
    return document


def test_pieces_and_the_whole_give_the_same_graph() -> None:
    document = long_document()
    with GraphText.of("g", json.dumps(document, indent=2, sort_keys=True).encode()) as pretty:
        by_piece = load(pretty)
        assert len(pretty._pieces) > 3
    whole = load(json.dumps(document).encode())
    assert isinstance(by_piece, Graph)
    assert by_piece == whole
    check_exact(by_piece, document)


def test_places_in_pieces_are_those_in_the_whole() -> None:
    text = dump(long_document())
    scanned = scan(text)
    chance = random.Random(7)  # noqa: S311
    wanted = [*chance.sample(sorted(scanned), 400), "", "/all_tasks", "/first_tasks/0"]
    with GraphText.of("g", text.encode()) as source:
        assert isinstance(load(source), Graph)
        found = source.place(wanted)
        assert len(source.marks) > 3
        assert list(source.marks) == sorted(source.marks)
        for line, offset in source.marks:
            assert line == 1 + text.count("\n", 0, offset)
        count = len(long_document()["all_tasks"])
        assert (
            source.place([f"/all_tasks/{count}"])[f"/all_tasks/{count}"].line
            == (scanned["/all_tasks"][0])
        )
    for pointer in wanted:
        assert found[pointer].pointer == pointer
        assert (found[pointer].line, found[pointer].column) == scanned[pointer], pointer


@pytest.mark.parametrize("indent", [2, None])
def test_a_file_that_changed_has_no_places(tmp_path: pathlib.Path, indent: int | None) -> None:
    path = tmp_path / "task_graph_0.json"
    path.write_text(json.dumps(long_document(), indent=indent, sort_keys=True))
    with GraphText.open(str(path)) as source:
        assert isinstance(load(source), Graph)
        assert source.place(["/all_tasks/9"])["/all_tasks/9"].path == str(path)
        with path.open("ab") as file:
            file.write(b" ")
        with pytest.raises(Unreadable, match="changed while it was audited"):
            source.place(["/all_tasks/9"])


def test_errors_are_capped_and_counted() -> None:
    document = json.loads(json.dumps(long_document()))
    for task in document["all_tasks"]:
        task["variant_id"] = -1
    text = dump(document)
    with GraphText.of("g", text.encode()) as source:
        refusal = load(source)
        assert isinstance(refusal, Refusal)
        assert len(refusal.errors) == schema.COUNTED
        assert refusal.more == len(document["all_tasks"]) - schema.COUNTED
        check_order(refusal)
        pointers = [pointer_text(error.pointer) for error in refusal.errors]
        places = source.place(pointers)
    lines = [number for number, line in enumerate(text.split("\n"), 1) if "variant_id" in line]
    assert [places[pointer].line for pointer in pointers] == lines[: schema.COUNTED]


def test_an_element_of_a_megabyte_is_refused_unread() -> None:
    document = json.loads(small_text())
    document["all_tasks"][2] = [[]] * 400_000
    refusal = load(json.dumps(document).encode())
    assert isinstance(refusal, Refusal)
    (error,) = refusal.errors
    assert error.pointer == ("all_tasks", 2)
    assert "bytes" in error.found


# -- a scanner of its own --------------------------------------------------------------------

_BLANKS = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[^\s,\]}]+")


def scan(text: str) -> dict[str, tuple[int, int]]:
    """Line and column of every pointer: a member's is its key's, an element's its own.

    Of a repeated key the last one counts, with all below it.
    """
    found: dict[str, tuple[int, int]] = {}
    line, line_start, at = 1, 0, 0

    def blank() -> None:
        nonlocal line, line_start, at
        end = _BLANKS.match(text, at).end()  # type: ignore[union-attr]
        if lines := text.count("\n", at, end):
            line, line_start = line + lines, text.rindex("\n", at, end) + 1
        at = end

    def here() -> tuple[int, int]:
        return line, at - line_start + 1

    def string() -> str:
        nonlocal at
        start = at
        at += 1
        while text[at] != '"':
            at += 2 if text[at] == "\\" else 1
        at += 1
        value: str = json.loads(text[start:at])
        return value

    def value(pointer: str, place: tuple[int, int]) -> None:
        nonlocal at
        found[pointer] = place
        opening = text[at]
        if opening == '"':
            string()
        elif opening in "{[":
            at += 1
            blank()
            index = 0
            while text[at] not in "}]":
                member = here()
                if opening == "{":
                    name = string().replace("~", "~0").replace("/", "~1")
                    blank()
                    at += 1
                    blank()
                else:
                    name, index = str(index), index + 1
                value(f"{pointer}/{name}", member)
                blank()
                if text[at] == ",":
                    at += 1
                    blank()
            at += 1
        else:
            at = _SCALAR.match(text, at).end()  # type: ignore[union-attr]

    blank()
    value("", here())
    return found

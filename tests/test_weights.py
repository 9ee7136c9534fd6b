"""Reading a checkpoint's names and shapes, from any bytes."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage_gate.artifacts.weights import Weight, WeightsError, read
from tests.checkpoints import safetensors, write_index

TENSORS = {"model.embed_tokens.weight": ("BF16", [64, 8]), "model.norm.weight": ("F32", [8])}


def test_one_file(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(safetensors(TENSORS))
    checkpoint = read(str(file))
    assert checkpoint.weights == {
        "model.embed_tokens.weight": Weight("model.embed_tokens.weight", (64, 8), "BF16"),
        "model.norm.weight": Weight("model.norm.weight", (8,), "F32"),
    }
    assert read(str(tmp_path)) == checkpoint


def test_an_index_alone_gives_names(tmp_path: Path) -> None:
    index = write_index(tmp_path, dict.fromkeys(TENSORS, "model-00001-of-00001.safetensors"))
    checkpoint = read(str(index))
    assert list(checkpoint.weights) == list(TENSORS)
    assert checkpoint.shaped == 0
    assert read(str(tmp_path)) == checkpoint


def test_files_beside_an_index_give_shapes(tmp_path: Path) -> None:
    names = list(TENSORS)
    write_index(tmp_path, {names[0]: "a.safetensors", names[1]: "b.safetensors"})
    (tmp_path / "a.safetensors").write_bytes(safetensors({names[0]: TENSORS[names[0]]}))
    checkpoint = read(str(tmp_path))
    assert checkpoint.shaped == 1
    assert checkpoint.weights[names[0]].shape == (64, 8)
    assert checkpoint.weights[names[1]].shape is None


def test_a_folder_of_files_without_an_index(tmp_path: Path) -> None:
    for number, (name, tensor) in enumerate(TENSORS.items()):
        (tmp_path / f"part-{number}.safetensors").write_bytes(safetensors({name: tensor}))
    assert set(read(str(tmp_path)).weights) == set(TENSORS)


def _header(text: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\0", b"\0" * 8, b"\xff" * 8, b"\xff" * 64, _header(b"[]"), _header(b"{}", 3)),
        _header(b"{}"),
        *(_header(b"{}", 1 << 62), _header(b"null"), _header(b'{"a": 1}'), _header(b'{"a": {}}')),
        _header(b'{"a": {"dtype": "F32", "shape": [1.5]}}'),
        _header(b'{"a": {"dtype": "F32", "shape": [-1]}}'),
        _header(b'{"a": {"dtype": "F32", "shape": [1' + b"0" * 60 + b"]}}"),
        _header(b'{"a": {"dtype": 3, "shape": [1]}}'),
        _header(b'{"a": {"dtype": "F32", "shape": [true]}}'),
        _header(b"{" * 100_000),
        _header(b'{"a":' * 100_000),
        _header(b'{"\xff": 1}'),
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
    ],
    ids=lambda data: repr(data[:24]),
)
def test_what_is_no_safetensors_file_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(data)
    with pytest.raises(WeightsError, match=r"model\.safetensors: no "):
        read(str(file))


@pytest.mark.parametrize(
    "document",
    [
        *(None, [], {}, {"weight_map": []}, {"weight_map": {}}, {"weight_map": 3}),
        *({"weight_map": {"a": "../b.safetensors"}}, {"weight_map": {"a": "/b.safetensors"}}),
        *({"weight_map": {"a": ""}}, {"weight_map": {"a": "\0"}}),
    ],
    ids=str,
)
def test_what_is_no_index_is_refused(tmp_path: Path, document: Any) -> None:
    file = tmp_path / "model.safetensors.index.json"
    file.write_text(json.dumps(document))
    with pytest.raises(WeightsError, match=r"index\.json"):
        read(str(file))


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="No such file"):
        read(str(tmp_path / "model.safetensors.index.json"))
    with pytest.raises(WeightsError, match=r"No such file"):
        read(str(tmp_path / "model.safetensors"))
    with pytest.raises(WeightsError, match="no checkpoint"):
        read(str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_is_no_checkpoint(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(WeightsError):
        read(str(tmp_path / "model.safetensors"))


def test_a_name_of_ten_thousand_weights_is_read_once(tmp_path: Path) -> None:
    names = {f"model.layers.{n}.x.weight": ("BF16", [4, 4]) for n in range(10_000)}
    file = tmp_path / "model.safetensors"
    file.write_bytes(safetensors(names))
    assert len(read(str(file)).weights) == 10_000


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_give_weights_or_an_error(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name in ("model.safetensors", "model.safetensors.index.json"):
            file = Path(folder, name)
            file.write_bytes(data)
            with pytest.raises(WeightsError):
                read(str(file))

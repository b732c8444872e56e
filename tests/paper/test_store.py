import json
import logging
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from proxlin.paper.store import Store, pack, unpack

CONFIG = {"cell": "a", "p": 1.5, "settings": ("x", 1)}
RECORD = {"config": CONFIG, "metrics": {"1.5": {"f_obj": 0.1 + 0.2}}, "history": [1.0, 2.5]}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cells")


def test_a_record_comes_back_to_the_last_bit(store):
    store.write("a", RECORD)
    found = store.read("a", CONFIG)
    assert found["metrics"] == RECORD["metrics"]
    assert found["history"] == RECORD["history"]
    assert [path.name for path in store.folder.iterdir()] == ["a.json"]


def test_a_missing_record_is_no_reason_to_warn(store, caplog):
    assert store.read("a", CONFIG) is None
    assert not caplog.records


def spoil(text):
    yield "empty", b""
    yield "half", text[: len(text) // 2]
    yield "a digit changed", text.replace(b"2.5", b"2.6")
    yield "a line lost", text.replace(b"  1.0,\n", b"")
    yield "not UTF-8", b"\xff\xfe" + text
    yield "another type", b"[1, 2]"
    yield "no config", b'{"format": 1}'
    yield "another format", text.replace(b'"format": 1', b'"format": 99')
    yield "no checksum", json.dumps({**json.loads(text), "checksum": None}).encode()


def test_damaged_files_are_told_and_count_as_missing(store, caplog):
    store.write("a", RECORD)
    text = store.path("a").read_bytes()
    for what, content in spoil(text):
        assert content != text, what
        store.path("a").write_bytes(content)
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="proxlin"):
            assert store.read("a", CONFIG) is None, what
        assert "is damaged" in caplog.text, what
        assert "will be made anew" in caplog.text, what


@given(place=st.integers(min_value=0), bit=st.integers(0, 7))
def test_no_flipped_bit_gives_other_figures(tmp_path_factory, place, bit):
    store = Store(tmp_path_factory.mktemp("cells"))
    store.write("a", RECORD)
    content = bytearray(store.path("a").read_bytes())
    content[place % len(content)] ^= 1 << bit
    store.path("a").write_bytes(content)
    found = store.read("a", CONFIG)
    assert found is None or found["metrics"] == RECORD["metrics"]


def test_a_record_of_other_settings_is_told_and_counts_as_missing(store, caplog):
    store.write("a", RECORD)
    assert store.read("a", {**CONFIG, "p": 2.0}) is None
    assert "comes from other settings" in caplog.text


def test_a_write_that_fails_leaves_the_old_record(store, monkeypatch):
    store.write("a", RECORD)

    def fail(*_):
        raise OSError(28, "No space left on device")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, fail)
            with pytest.raises(OSError, match="No space left"):
                store.write("a", {**RECORD, "history": []})
        assert store.read("a", CONFIG)["history"] == RECORD["history"]
        assert [path.name for path in store.folder.iterdir()] == ["a.json"]


def test_parameters_survive_as_text():
    theta = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(unpack(pack(theta)), theta)


def test_numbers_that_json_lacks_become_null(store):
    store.write("a", {"config": {}, "stationarity": float("nan"), "x": float("inf")})
    found = store.read("a", {})
    assert found["stationarity"] is None
    assert found["x"] is None

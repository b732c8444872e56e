"""Downloads, from a server on this machine."""

from __future__ import annotations

import gzip
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from proxlin.data import DataFile, load_dataset
from proxlin.data.registry import REGISTRY
from proxlin.errors import DataError
from tests.data.conftest import Answer, Server, Small, files_below
from tests.data.ways import DAMAGES, IMAGE_FILES, damage, first_cell, served, variant


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_in_the_cache_is_replaced_by_a_download(
    images: Small, cache: Path, server: Server, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    images.put(cache)
    images.serve(server)
    path = cache / "tiny/t10k-images.gz"
    path.write_bytes(damage(kind, images.contents["tiny/t10k-images"]))
    with caplog.at_level(logging.WARNING, logger="proxlin"):
        load_dataset("tiny-images")
    assert f"{path} is damaged" in caplog.text
    assert server.asked == ["/tiny/t10k-images.gz"]
    assert gzip.decompress(path.read_bytes()) == images.contents["tiny/t10k-images"]
    assert files_below(cache) == IMAGE_FILES


@pytest.mark.parametrize("kind", [*DAMAGES, "body cut off"])
def test_damaged_downloads_are_not_kept(
    images: Small, cache: Path, server: Server, kind: str
) -> None:
    images.serve(server)
    content = images.contents["tiny/train-images"]
    whole = gzip.compress(content)
    cut_off = Answer(whole[:-5], announced=len(whole))
    server.answers["/tiny/train-images.gz"] = (
        cut_off if kind == "body cut off" else Answer(damage(kind, content))
    )
    with pytest.raises(DataError, match=r"\(4\) Download: http.*(is damaged|no complete answer)"):
        load_dataset("tiny-images")
    assert not cache.exists() or files_below(cache) == []


def test_second_mirror_serves_when_the_first_is_damaged(
    images: Small, cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    images.serve(server, "/good/")
    server.answers["/bad/tiny/train-images.gz"] = Answer(b"garbage")
    files = tuple(
        replace(f, urls=tuple(f"{server.url}/{m}/{f.path}.gz" for m in ("bad", "good")))
        for f in images.entry.files
    )
    monkeypatch.setitem(REGISTRY, "tiny-images", replace(images.entry, files=files))
    source = load_dataset("tiny-images").source
    assert f"{server.url}/good/tiny/train-images.gz (download)" in source
    assert files_below(cache) == IMAGE_FILES


def test_file_that_the_transport_unpacked_is_stored_packed(
    table: Small, cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = replace(table.entry, files=(served(server, variant(7)),))
    monkeypatch.setitem(REGISTRY, "tiny-table", entry)
    packed = gzip.compress(variant(7))
    server.answers["/tables/tiny.arff.gz"] = Answer(packed, headers={"Content-Encoding": "gzip"})
    assert first_cell() == 7
    stored = (cache / "tables/tiny.arff.gz").read_bytes()
    assert gzip.decompress(stored) == variant(7)


def test_a_file_without_a_known_checksum_is_never_downloaded(
    table: Small, cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="must have a known sha256"):
        DataFile(path="tables/tiny.arff", urls=(f"{server.url}/file.arff",))
    file = DataFile(path="tables/tiny.arff", page=f"{server.url}/page")
    monkeypatch.setitem(REGISTRY, "tiny-table", replace(table.entry, files=(file,)))
    with pytest.raises(DataError, match=f"no address with a known checksum; see {server.url}/page"):
        first_cell()
    assert server.asked == []
    assert not cache.exists()

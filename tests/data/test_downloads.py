"""Downloads, from a server on this machine."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from proxlin.data import DataFile, load_dataset, registry
from proxlin.data.registry import REGISTRY
from proxlin.errors import DataError
from tests.data.conftest import ARFF, Answer, Server, Small, files_below
from tests.data.ways import DAMAGES, IMAGE_FILES, damage, first_cell, variant


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
    table: Small, cache: Path, server: Server
) -> None:
    packed = gzip.compress(variant(7))
    server.answers["/tables/tiny.arff.gz"] = Answer(packed, headers={"Content-Encoding": "gzip"})
    assert first_cell() == 7
    stored = (cache / "tables/tiny.arff.gz").read_bytes()
    assert gzip.decompress(stored) == variant(7)


class TestOpenML:
    @pytest.fixture(autouse=True)
    def _registered(self, table: Small, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        file = DataFile(path="tables/tiny.arff", openml_id=12)
        monkeypatch.setitem(REGISTRY, "tiny-table", replace(table.entry, files=(file,)))
        monkeypatch.setattr(registry, "OPENML_API", f"{server.url}/data")
        content = table.contents["tables/tiny.arff"]
        server.answers["/file.arff"] = Answer(content)
        self.describe(server, hashlib.md5(content).hexdigest())

    def describe(self, server: Server, md5: str) -> None:
        description = {"url": f"{server.url}/file.arff", "md5_checksum": md5}
        body = json.dumps({"data_set_description": description}).encode()
        server.answers["/data/12"] = Answer(body)

    def test_address_and_checksum_come_from_the_description(
        self, cache: Path, server: Server
    ) -> None:
        assert first_cell() == 1
        assert server.asked == ["/data/12", "/file.arff"]
        assert files_below(cache) == ["tables/tiny.arff.gz"]
        assert first_cell() == 1
        assert len(server.asked) == 2

    def test_other_checksum_is_refused(self, cache: Path, server: Server) -> None:
        self.describe(server, "0" * 32)
        with pytest.raises(DataError, match="its md5 must be 000"):
            first_cell()
        assert not cache.exists()

    @pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"data_set_description": {}}'])
    def test_unexpected_description_is_refused(self, server: Server, body: bytes) -> None:
        server.answers["/data/12"] = Answer(body)
        with pytest.raises(DataError, match="without address and checksum"):
            first_cell()

    def test_wrong_data_set_is_refused(self, server: Server) -> None:
        other = ARFF.replace("y2", "z").encode()
        server.answers["/file.arff"] = Answer(other)
        self.describe(server, hashlib.md5(other).hexdigest())
        with pytest.raises(DataError, match="each target once; not so for y2"):
            first_cell()

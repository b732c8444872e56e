from __future__ import annotations

import errno
import gzip
import hashlib
import json
import logging
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from proxlin.data import DataFile, load_dataset, registry
from proxlin.data.registry import REGISTRY
from proxlin.errors import DataError
from tests.data.conftest import ARFF, Answer, Server, Small, files_below, sha256

IMAGE_FILES = [
    "tiny/t10k-images.gz",
    "tiny/t10k-labels.gz",
    "tiny/train-images.gz",
    "tiny/train-labels.gz",
]


def variant(shift: float) -> bytes:
    """The table with another first cell, to tell the places apart."""
    return ARFF.replace("1.0, 10", f"{shift}, 10").encode()


def first_cell(**options: bool) -> float:
    data = load_dataset("tiny-table", standardize=False, **options)
    return float(data.x_train[0, 0])


def test_places_are_tried_in_order(
    table: Small, tmp_path: Path, cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, system = tmp_path / "own", tmp_path / "system"
    entry = replace(table.entry, system_folder=str(system), system_package="tiny-data")
    monkeypatch.setitem(REGISTRY, "tiny-table", entry)
    monkeypatch.setenv("PROXLIN_DATA", str(own))
    path = "tables/tiny.arff"
    Small(entry, {path: variant(101)}).put(own)
    Small(entry, {path: variant(102)}).put(cache)
    Small(entry, {path: variant(103)}).put(system, packed=False)
    Small(entry, {path: variant(104)}).serve(server)

    assert first_cell() == 101
    assert load_dataset("tiny-table").source == f"tiny-table was read from {own} (PROXLIN_DATA)."
    (own / "tables/tiny.arff.gz").unlink()
    assert first_cell() == 102
    (cache / "tables/tiny.arff.gz").unlink()
    assert first_cell() == 103
    assert "tiny-data" in load_dataset("tiny-table").source
    (system / path).unlink()
    assert server.asked == []
    assert first_cell() == 104
    assert server.url in REGISTRY["tiny-table"].files[0].urls[0]
    # The download is in the cache now, and is not asked for again.
    assert first_cell() == 104
    assert len(server.asked) == 1


@pytest.mark.parametrize("packed", [True, False])
def test_plain_and_gzipped_files_give_the_same(
    images: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setenv("PROXLIN_DATA", str(images.put(tmp_path / "own", packed=packed)))
    data = load_dataset("tiny-images")
    expected = torch.frombuffer(
        bytearray(images.contents["tiny/train-images"][16:]), dtype=torch.uint8
    )
    assert torch.equal(data.x_train, expected.reshape(7, 1, 4, 4) / 255)


def test_one_error_lists_the_four_ways(images: Small, cache: Path, server: Server) -> None:
    with pytest.raises(DataError) as error:
        load_dataset("tiny-images")
    message = str(error.value)
    for part in (
        "four ways were tried for tiny/train-images[.gz]",
        "(1) PROXLIN_DATA: not set.",
        f"(2) Cache: no such file in {cache}.",
        "(3) System package: none is known for this data set.",
        f"(4) Download: {server.url}/tiny/train-images.gz gave no complete answer"
        " (HTTP status 404).",
    ):
        assert part in message
    assert "\n" not in message


def test_error_for_a_server_that_does_not_answer(
    table: Small, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = replace(table.entry.files[0], urls=("http://127.0.0.1:9/tiny.arff",))
    monkeypatch.setitem(REGISTRY, "tiny-table", replace(table.entry, files=(file,)))
    monkeypatch.setenv("PROXLIN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"gave no complete answer \(ConnectionError\)") as error:
        load_dataset("tiny-table")
    assert f"(1) PROXLIN_DATA: no such file in {tmp_path}." in str(error.value)


def test_error_without_any_address(table: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    file = replace(table.entry.files[0], urls=())
    monkeypatch.setitem(REGISTRY, "tiny-table", replace(table.entry, files=(file,)))
    with pytest.raises(DataError, match=r"\(4\) Download: no address with a known checksum"):
        load_dataset("tiny-table")


def damage(kind: str, content: bytes) -> bytes:
    packed = gzip.compress(content)
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    return {
        "empty": b"",
        "gzip cut off": packed[:-20],
        "gzip header only": packed[:6],
        "gzip bit flip": bytes(flipped),
        "gzip with a tail": packed + b"tail",
        "not gzip": b"<html>not found</html>",
        "wrong magic": gzip.compress(b"\x00\x00\x08\x07" + content[4:]),
        "short payload": gzip.compress(content[:-1]),
        "one byte changed": gzip.compress(content[:-1] + bytes([content[-1] ^ 1])),
    }[kind]


DAMAGES = [
    "empty",
    "gzip cut off",
    "gzip header only",
    "gzip bit flip",
    "gzip with a tail",
    "not gzip",
    "wrong magic",
    "short payload",
    "one byte changed",
]


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_in_own_folder_is_told_at_once(
    images: Small, tmp_path: Path, cache: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = images.put(tmp_path / "own")
    images.put(cache)  # an intact copy elsewhere must not hide it
    monkeypatch.setenv("PROXLIN_DATA", str(own))
    path = own / "tiny/t10k-images.gz"
    path.write_bytes(damage(kind, images.contents["tiny/t10k-images"]))
    with pytest.raises(DataError) as error:
        load_dataset("tiny-images")
    assert str(error.value).startswith(f"{path} is damaged: ")


@pytest.mark.parametrize("kind", ["wrong magic", "short payload"])
def test_damage_is_seen_without_a_checksum(
    images: Small, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = images.put(tmp_path / "own")
    monkeypatch.setenv("PROXLIN_DATA", str(own))
    path = own / "tiny/t10k-images.gz"
    path.write_bytes(damage(kind, images.contents["tiny/t10k-images"]))
    with pytest.raises(DataError, match=r"must begin with|bytes of payload"):
        load_dataset("tiny-images", verify=False)


def test_verify_false_accepts_another_edition_but_not_from_the_network(
    images: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    content = images.contents["tiny/t10k-images"]
    other = damage("one byte changed", content)
    own = images.put(tmp_path / "own")
    (own / "tiny/t10k-images.gz").write_bytes(other)
    monkeypatch.setenv("PROXLIN_DATA", str(own))
    data = load_dataset("tiny-images", verify=False)
    assert int(data.x_test.flatten()[-1] * 255 + 0.5) == content[-1] ^ 1

    monkeypatch.delenv("PROXLIN_DATA")
    images.serve(server)
    server.answers["/tiny/t10k-images.gz"] = Answer(other)
    with pytest.raises(DataError, match="sha256"):
        load_dataset("tiny-images", verify=False)


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


class TestFullDisk:
    """Nothing half-written stays, and the sentence says what to do."""

    @pytest.fixture(autouse=True)
    def _served(self, images: Small, server: Server) -> None:
        images.serve(server)

    def fails(self) -> str:
        with pytest.raises(DataError, match="cannot be stored in the cache folder") as error:
            load_dataset("tiny-images")
        assert "set PROXLIN_CACHE to another folder" in str(error.value)
        return str(error.value)

    def test_no_space_at_the_end_of_writing(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        assert "No space left on device" in self.fails()
        assert files_below(cache) == []

    def test_failing_to_take_the_place_leaves_what_was_there(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = cache / "tiny/train-images.gz"
        old.parent.mkdir(parents=True)
        old.write_bytes(b"old and damaged")

        def refuse(*_: object) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "replace", refuse)
        assert "Input/output error" in self.fails()
        assert files_below(cache) == ["tiny/train-images.gz"]
        assert old.read_bytes() == b"old and damaged"

    def test_file_size_limit_in_the_middle_of_writing(self, cache: Path) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        try:
            message = self.fails()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "File too large" in message
        assert files_below(cache) == []

    def test_real_disk_without_space(self, cache: Path) -> None:
        cache.mkdir()
        page = os.sysconf("SC_PAGE_SIZE")
        mount = ["mount", "-t", "tmpfs", "-o", f"size={2 * page}", "tmpfs", str(cache)]
        try:
            mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        except OSError:
            mounted = False
        if not mounted:
            pytest.skip("a small file system cannot be mounted here")
        try:
            (cache / "filler").write_bytes(b"x" * page)
            assert "No space left on device" in self.fails()
            # The one page that was left took the first file, and that one is whole.
            assert files_below(cache) == ["filler", "tiny/train-images.gz"]
            gzip.decompress((cache / "tiny/train-images.gz").read_bytes())
        finally:
            subprocess.run(["umount", str(cache)], check=True)

    def test_interruption_removes_the_temporary_file(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(_: int) -> None:
            assert [f for f in files_below(cache) if f.endswith(".part")]
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            load_dataset("tiny-images")
        assert files_below(cache) == []

    def test_cache_that_is_a_file(self, cache: Path) -> None:
        cache.write_bytes(b"")
        assert "File exists" in self.fails() or "Not a directory" in self.fails()

    def test_cache_without_permission(self, cache: Path) -> None:
        cache.mkdir(mode=0o500)
        with unprivileged():
            assert "Permission denied" in self.fails()
        assert files_below(cache) == []


@contextmanager
def unprivileged() -> Iterator[None]:
    """File permissions do not bind root, so root steps down for a moment."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("kind", ["missing", "file", "unreadable"])
def test_own_folder_that_cannot_be_read(
    table: Small, tmp_path: Path, cache: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.put(cache)  # a typing error in PROXLIN_DATA must not pass unnoticed
    own = tmp_path / "own"
    if kind == "file":
        own.write_bytes(b"")
    elif kind == "unreadable":
        own.mkdir(mode=0o000)
    monkeypatch.setenv("PROXLIN_DATA", str(own))
    with (
        unprivileged(),
        pytest.raises(DataError, match="PROXLIN_DATA must name a folder that can be read; "),
    ):
        load_dataset("tiny-table")


def test_own_file_that_cannot_be_read(
    table: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own/tables/tiny.arff.gz"
    path.mkdir(parents=True)  # a folder in place of the file
    monkeypatch.setenv("PROXLIN_DATA", str(tmp_path / "own"))
    with pytest.raises(DataError, match=r"tiny.arff.gz cannot be read \(Is a directory\)"):
        load_dataset("tiny-table")


def test_first_alternative_wins(
    table: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    csv = b"y1,f,y2,g\n" + b"1,2,3,4\n" * 4 + b"1,2,3,5\n"
    second = DataFile(path="tables/other.csv", sha256=sha256(csv), note="Not an original file.")
    entry = replace(table.entry, files=(*table.entry.files, second))
    monkeypatch.setitem(REGISTRY, "tiny-table", entry)
    own = tmp_path / "own"
    Small(entry, {"tables/other.csv": csv}).put(own)
    monkeypatch.setenv("PROXLIN_DATA", str(own))
    assert first_cell() == 2
    assert load_dataset("tiny-table").notes[0] == "Not an original file."
    table.put(own)
    assert first_cell() == 1
    assert "Not an original file." not in load_dataset("tiny-table").notes

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from proxlin.data import DataFile, load_dataset
from proxlin.data.registry import REGISTRY
from proxlin.errors import DataError
from tests.data.conftest import Answer, Server, Small, sha256
from tests.data.ways import DAMAGES, damage, first_cell, served, unprivileged, variant


def test_places_are_tried_in_order(
    table: Small, tmp_path: Path, cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, system = tmp_path / "own", tmp_path / "system"
    entry = replace(
        table.entry,
        files=(served(server, variant(104)),),
        system_folder=str(system),
        system_package="tiny-data",
    )
    monkeypatch.setitem(REGISTRY, "tiny-table", entry)
    monkeypatch.setenv("PROXLIN_DATA", str(own))
    path = "tables/tiny.arff"
    Small(entry, {path: variant(101)}).put(own)
    Small(entry, {path: variant(102)}).put(cache)
    Small(entry, {path: variant(103)}).put(system, packed=False)
    Small(entry, {path: variant(104)}).serve(server)

    assert first_cell(verify=False) == 101
    assert (
        load_dataset("tiny-table", verify=False).source
        == f"tiny-table was read from {own} (PROXLIN_DATA)."
    )
    (own / "tables/tiny.arff.gz").unlink()
    assert first_cell(verify=False) == 102
    (cache / "tables/tiny.arff.gz").unlink()
    assert first_cell(verify=False) == 103
    assert "tiny-data" in load_dataset("tiny-table", verify=False).source
    (system / path).unlink()
    assert server.asked == []
    assert first_cell() == 104
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
    file = replace(served(server, b""), urls=("http://127.0.0.1:9/tiny.arff",))
    monkeypatch.setitem(REGISTRY, "tiny-table", replace(table.entry, files=(file,)))
    monkeypatch.setenv("PROXLIN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"gave no complete answer \(ConnectionError\)") as error:
        load_dataset("tiny-table")
    assert f"(1) PROXLIN_DATA: no such file in {tmp_path}." in str(error.value)


def test_error_without_any_address(table: Small) -> None:
    with pytest.raises(DataError, match=r"\(4\) Download: no address with a known checksum\. Put"):
        load_dataset("tiny-table")


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

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from proxlin.data import list_datasets, load_dataset
from proxlin.data.registry import REGISTRY
from proxlin.errors import DataError, InvalidInputError
from tests.data.conftest import ARFF, Small, encode_idx, sha256

NAN = np.nan
FEATURES = np.array([[1, 1], [2, NAN], [3.5, 3], [NAN, 4], [5, 6]])
TARGETS = np.array([[5, 10], [5, 20], [5, 30], [5, 40], [5, 50.0]])  # y2 is constant


@pytest.fixture
def own(table: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = table.put(tmp_path / "own", packed=False)
    monkeypatch.setenv("PROXLIN_DATA", str(folder))
    return folder


def test_digits_are_scikit_learns_over_sixteen() -> None:
    data = load_dataset("digits")
    images = torch.cat([data.x_train, data.x_test])
    expected = torch.from_numpy(load_digits().images / 16).float().unsqueeze(1)
    assert torch.equal(images, expected)
    labels = torch.cat([data.y_train, data.y_test])
    assert labels.tolist() == load_digits().target.tolist()
    assert (labels.dtype, images.dtype) == (torch.int64, torch.float32)
    assert data.feature_names[9] == "pixel_1_1"
    assert len(data.feature_names) == 64
    assert data.target_names == tuple("0123456789")


def test_standardised_table_agrees_with_scikit_learn(own: Path) -> None:
    data = load_dataset("tiny-table")
    oracle = np.nan_to_num(StandardScaler().fit_transform(FEATURES), nan=0.0)
    x = torch.cat([data.x_train, data.x_test])
    torch.testing.assert_close(x, torch.from_numpy(oracle).float())
    y = torch.cat([data.y_train, data.y_test])
    torch.testing.assert_close(y, torch.from_numpy(StandardScaler().fit_transform(TARGETS)).float())
    assert data.x_train.shape == (4, 2)
    assert data.feature_names == ("first feature", "second")
    assert data.target_names == ("y2", "y1")  # in the order of the registry, not of the file


def test_unknown_cells_become_the_mean(own: Path) -> None:
    data = load_dataset("tiny-table", standardize=False)
    x = torch.cat([data.x_train, data.x_test]).numpy()
    expected = np.where(np.isnan(FEATURES), np.nanmean(FEATURES, axis=0), FEATURES)
    np.testing.assert_allclose(x, expected, rtol=1e-6)
    assert data.y_train.tolist() == TARGETS[:4].tolist()


def test_notes_tell_what_was_done(own: Path) -> None:
    assert load_dataset("tiny-table").notes == (
        "2 of 20 cells are unknown (2 of features, 0 of targets; most in 'first feature': 1 of 5);"
        " the mean of their column's known cells stands in.",
        "Each column has mean 0 and standard deviation 1 over the known cells.",
        "1 columns are constant and became 0.",
        "The first 4 rows train, the other 1 test.",
    )


def test_constant_column_that_rounding_would_scale_up(own: Path) -> None:
    assert np.std([1.74] * 5) > 0  # the mean of five times 1.74 is not 1.74 in binary
    (own / "tables/tiny.arff").write_text(ARFF.replace(", 5\n", ", 1.74\n"))
    assert load_dataset("tiny-table").y_train[:, 0].tolist() == [0, 0, 0, 0]


def test_nominal_columns_are_mentioned(own: Path) -> None:
    text = ARFF.replace("second Integer", "second {1,3,4,6}")
    (own / "tables/tiny.arff").write_text(text)
    data = load_dataset("tiny-table", standardize=False)
    assert data.x_train[:, 1].tolist() == [0, 1.5, 1, 2]  # known codes are 0, 1, 2, 3
    assert "Nominal columns became numbers: second." in data.notes


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("5.0, 50, 6, 5", "5.0, 50, 6", "line 13 must have 4 cells; got 3"),
        ("5.0, 50, 6, 5\n", "", r"rows x columns \(5, 4\); got \(4, 4\)"),
        ("y1", "z1", "each target once; not so for y1"),
        ('"first feature"', "y1", "each target once; not so for y1"),
        ("20", "twenty", "line 10: 'y1' must be a number; got 'twenty'"),
    ],
)
def test_damaged_table(own: Path, old: str, new: str, reason: str) -> None:
    assert old in ARFF
    (own / "tables/tiny.arff").write_text(ARFF.replace(old, new))
    with pytest.raises(DataError, match=f"tiny.arff is damaged: .*{reason}"):
        load_dataset("tiny-table")


def test_column_without_a_known_cell(own: Path) -> None:
    lines = [line.split(",") for line in ARFF.splitlines()]
    text = "\n".join(",".join(["?", *c[1:]]) if len(c) == 4 else c[0] for c in lines)
    (own / "tables/tiny.arff").write_text(text)
    with pytest.raises(DataError, match="column 'first feature' must have a known cell"):
        load_dataset("tiny-table")


def test_images_are_bytes_over_255_with_their_labels(
    images: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXLIN_DATA", str(images.put(tmp_path)))
    data = load_dataset("tiny-images")
    assert data.x_train.shape == (7, 1, 4, 4)
    assert data.x_test.shape == (3, 1, 4, 4)
    assert data.x_train.dtype == torch.float32
    assert 0 <= float(data.x_train.min()) <= float(data.x_train.max()) <= 1
    assert data.y_train.tolist() == list(images.contents["tiny/train-labels"][8:])
    assert data.y_test.dtype == torch.int64
    assert data.target_names == ("a", "b", "c")
    data.x_train.zero_()  # writable, and not shared between loads
    assert float(load_dataset("tiny-images").x_train.max()) > 0


@pytest.mark.parametrize(
    ("path", "array", "reason"),
    [
        ("tiny/train-labels", np.zeros(6), "number of train labels must be 7; got 6"),
        ("tiny/train-labels", np.full(7, 3), "labels must be below 3; got 3"),
        ("tiny/t10k-images", np.zeros((3, 4, 5)), "pixels of a test image must be 16; got 20"),
    ],
)
def test_images_and_labels_that_do_not_fit(
    images: Small,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    path: str,
    array: np.ndarray,
    reason: str,
) -> None:
    content = encode_idx(array)
    files = tuple(
        replace(f, sha256=sha256(content)) if f.path == path else f for f in images.entry.files
    )
    monkeypatch.setitem(REGISTRY, "tiny-images", replace(images.entry, files=files))
    Small(images.entry, {**images.contents, path: content}).put(tmp_path)
    monkeypatch.setenv("PROXLIN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=reason):
        load_dataset("tiny-images")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("mnst", "'mnist'"),
        ("fashion", "'fashion-mnist'"),
        ("scm20d", "'scm1d'"),
        ("digit", "digits"),
    ],
)
def test_unknown_name_gets_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"got '{name}'. Did you mean .*{nearest}"):
        load_dataset(name)


@pytest.mark.parametrize("name", [None, 3, "", "zzz"])
def test_other_nonsense_is_refused(name: object) -> None:
    with pytest.raises(InvalidInputError, match="must be one of 'andro'"):
        load_dataset(name)  # type: ignore[arg-type]


def test_spelling_of_names_is_forgiving() -> None:
    assert load_dataset("Digits").name == "digits"


def test_data_sets_are_frozen_and_print_shapes_only() -> None:
    data = load_dataset("digits")
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.name = "other"  # type: ignore[misc]
    assert repr(data) == (
        "DataSet('digits', x_train=(1437, 1, 8, 8), y_train=(1437,),"
        " x_test=(360, 1, 8, 8), y_test=(360,))"
    )


def test_list_of_data_sets_is_complete_and_consistent() -> None:
    entries = {entry.name: entry for entry in list_datasets()}
    wanted = ["digits", "mnist", "fashion-mnist", "scm1d", "rf1", "atp1d", "oes97", "enb"]
    assert set(wanted) <= set(entries)
    for entry in entries.values():
        assert len(entry.target_names) == entry.targets == len(set(entry.target_names))
        assert entry.description
        assert entry.licence
        assert entry.where
        assert all(f.sha256 is None or len(f.sha256) == 64 for f in entry.files)
        assert all(f.sha256 is not None for f in entry.files if f.urls)
        assert entry.kind == "embedded" or any(f.urls or f.page for f in entry.files)
    # The original of SCM1d is the one file whose checksum is not known; nothing downloads it.
    unpinned = [file.path for entry in entries.values() for file in entry.files if not file.sha256]
    assert unpinned == ["multi-target/scm1d.arff"]
    assert entries["scm1d"].where[-1] == "by hand from https://www.openml.org/d/41485"
    assert any("Debian" in place for place in entries["fashion-mnist"].where)

"""Checks on the real files, where PROXLIN_DATA names a folder that has them."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import arff

from proxlin.data import add_outliers, list_datasets, load_dataset
from proxlin.data.formats import parse_table

pytestmark = pytest.mark.usefixtures("real_data")

UNKNOWN = {"scm1d": 15_280, "rf1": 3264}  # cells without a value
TABLES = [entry.name for entry in list_datasets() if entry.kind == "table"]


def test_zero_output_on_mnist_scores_what_the_paper_shows() -> None:
    """Table 1 has 102.44 (p = 1) and 9.215 (p = 2) for a net whose output is all zero."""
    x = load_dataset("mnist").x_train.flatten(1).double()
    assert float(x.norm(p=1, dim=1).mean()) == pytest.approx(102.44, abs=0.005)
    assert float(x.norm(p=2, dim=1).mean()) == pytest.approx(9.215, abs=0.0005)


def test_published_outliers_on_mnist_score_what_the_paper_shows() -> None:
    """0.7 * 102.44 + 0.3 * 784 * 3.54 = 905; Table 1 has 910.68 for its own draw."""
    data = load_dataset("mnist")
    corrupted, mask = add_outliers(data.x_train, 0.3, seed=1)
    noise = corrupted[mask].double()
    assert float(noise.mean()) == pytest.approx(3.54, abs=0.01)
    assert float(noise.std()) == pytest.approx(0.94, abs=0.005)
    score = corrupted.flatten(1).double().norm(p=1, dim=1).mean()
    # A row adds about 2779 or 102: over 60,000 rows the mean has a standard deviation of 5.
    assert float(score) == pytest.approx(905, abs=15)
    by_share = 102.44 + float(mask.double().mean()) * (784 * 3.544 - 102.44)
    assert float(score) == pytest.approx(by_share, rel=2e-3)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_image_sets_have_their_known_shape(name: str) -> None:
    data = load_dataset(name)
    assert data.x_train.shape == (60_000, 1, 28, 28)
    assert data.x_test.shape == (10_000, 1, 28, 28)
    assert torch.bincount(data.y_test).tolist()[:2] == (
        [980, 1135] if name == "mnist" else [1000] * 2
    )
    assert (float(data.x_train.min()), float(data.x_train.max())) == (0, 1)


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_their_known_shape_and_are_standardised(name: str) -> None:
    entry = next(entry for entry in list_datasets() if entry.name == name)
    data = load_dataset(name)
    x, y = torch.cat([data.x_train, data.x_test]), torch.cat([data.y_train, data.y_test])
    assert x.shape == (entry.rows, entry.features)
    assert y.shape == (entry.rows, entry.targets)
    assert len(data.x_train) == int(0.8 * entry.rows)
    table = torch.hstack([x, y]).double()
    assert float(table.mean(0).abs().max()) < 1e-6
    # Known cells have variance 1 and unknown ones are 0, so n * (1 - variance) counts the latter.
    variance = table.var(0, correction=0)
    unknown = entry.rows * (1 - variance[variance > 0])
    torch.testing.assert_close(unknown, unknown.round(), atol=0.02, rtol=0)
    assert int(unknown.round().sum()) == UNKNOWN.get(name, 0)
    constant = int((variance == 0).sum())
    assert constant == (41 if name == "atp1d" else 0)


@pytest.mark.parametrize(("name", "of_targets"), [("scm1d", 1188), ("rf1", 0)])
def test_unknown_cells_are_counted_in_the_notes(name: str, of_targets: int) -> None:
    data = load_dataset(name)
    notes = " ".join(data.notes)
    assert f"{UNKNOWN[name]} of " in notes
    assert f"{of_targets} of targets" in notes
    assert ("SCM1d (reconstructed)" in notes) is (name == "scm1d")


@pytest.mark.parametrize("name", ["jura", "atp1d", "rf1"])
def test_arff_files_read_as_scipy_reads_them(name: str) -> None:
    path = Path(os.environ["PROXLIN_DATA"]) / f"multi-target/{name}.arff.gz"
    content = gzip.decompress(path.read_bytes())
    oracle, _ = arff.loadarff(io.StringIO(content.decode()))
    columns = np.array([oracle[column] for column in oracle.dtype.names]).T
    values = parse_table(content, path.name).values
    np.testing.assert_allclose(values, columns, rtol=1e-15, atol=0)

"""RobustPCA beside R: PcaHubert and PcaGrid of rrcov, covMcd of robustbase.

`Rscript benchmarks/r/rrcov_tables.R tests/estimators/low_rank/rrcov` writes tables and answers.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from proxlin.estimators.low_rank.pca import RobustPCA

FOLDER = Path(__file__).parent / "rrcov"
ANSWERS = pd.read_csv(FOLDER / "answers.csv")


def table(name: str) -> np.ndarray:
    return np.loadtxt(FOLDER / f"{name}.csv", delimiter=",")


def r_axes(name: str, method: str) -> np.ndarray:
    lines = ANSWERS.query("table == @name and method == @method and kind == 'loading'")
    return lines.pivot_table(index="i", columns="j", values="value").to_numpy()


def r_flags(name: str, method: str) -> set[int]:
    return set(ANSWERS.query("table == @name and method == @method and kind == 'flag'")["i"])


def degrees(a: np.ndarray, b: np.ndarray) -> float:
    """The largest angle between the planes of two orthonormal sets of rows."""
    return float(np.degrees(np.arcsin(min(1.0, np.linalg.norm(a - a @ b.T @ b, 2)))))


@pytest.mark.parametrize("name", ["planted00", "shifted10", "shifted30", "scattered10"])
def test_planted_rows_give_the_plane_of_the_minimum_covariance_determinant(name: str) -> None:
    model = RobustPCA(3).fit(table(name))
    assert degrees(model.components_, r_axes(name, "covMcd")) < 2


@pytest.mark.parametrize(
    ("name", "count"),
    [("planted", 0), ("shifted", 20), ("shifted", 60), ("scattered", 20), ("scattered", 60)],
)
def test_planted_wrong_rows_are_left_out_and_the_others_decide(name: str, count: int) -> None:
    x = table(f"{name}{count // 2:02}")
    model, plain = RobustPCA(3).fit(x), PCA(3).fit(x[count:])
    assert model.outliers_[:count].all()
    assert model.outliers_[count:].mean() <= 0.01
    assert degrees(model.components_, plain.components_) < 0.5
    np.testing.assert_allclose(model.explained_variance_, plain.explained_variance_, rtol=0.05)


@pytest.mark.parametrize(
    ("name", "k", "method"),
    [("hbk", 2, "covMcd"), ("octane", 2, "PcaHubert"), ("wood", 2, "PcaHubert")],
)
def test_tables_with_known_outliers_agree_with_r(name: str, k: int, method: str) -> None:
    model = RobustPCA(k).fit(table(name))
    assert degrees(model.components_, r_axes(name, method)) < 1
    flags = set(np.flatnonzero(model.outliers_))
    assert flags <= r_flags(name, method)
    if name != "wood":  # of whose twenty rows PcaHubert flags two more
        assert flags == r_flags(name, method)


@pytest.mark.parametrize("name", ["milk", "rice", "bushfire", "diabetes"])
def test_other_tables_are_as_near_to_r_as_its_methods_to_each_other(name: str) -> None:
    axes = RobustPCA(3 if name == "milk" else 2).fit(table(name)).components_
    methods = ("PcaHubert", "PcaGrid", "covMcd")
    found = {method: r_axes(name, method) for method in methods}
    apart = max(degrees(found[a], found[b]) for a in methods for b in methods)
    assert min(degrees(axes, found[method]) for method in methods) < apart
    assert max(degrees(axes, found[method]) for method in methods) < 1.1 * apart

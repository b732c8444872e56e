"""RobustFeatureSelector on sparse tables: the dense problem, solved on few of its columns."""

import numpy as np
import pytest
from scipy import sparse

from proxlin import RobustFeatureSelector
from proxlin.errors import CombinationError, MemoryBudgetError
from proxlin.estimators.selection import sparse_selection


def planted(targets, seed=0):
    rng = np.random.default_rng(seed)
    x = sparse.random_array((300, 50), density=0.15, rng=rng, format="csr")
    x.data = rng.normal(size=x.nnz)
    coef = np.zeros((50, targets))
    coef[[3, 7, 20]] = 3.0 * rng.normal(size=(3, targets))
    y = x @ coef + 0.1 * rng.normal(size=(300, targets))
    y[:60] = 50.0
    return x, y[:, 0] if targets == 1 else y


@pytest.mark.parametrize("targets", [1, 2])
def test_the_same_features_and_coefficients_as_on_the_dense_table(targets):
    x, y = planted(targets)
    by_columns = RobustFeatureSelector(5).fit(x, y)
    dense = RobustFeatureSelector(5).fit(x.toarray(), y)
    assert by_columns.alpha_max_ == pytest.approx(dense.alpha_max_, rel=1e-9)
    np.testing.assert_array_equal(by_columns.get_support(), dense.get_support())
    assert {3, 7, 20} <= set(by_columns.get_support(indices=True))
    np.testing.assert_allclose(by_columns.coef_, dense.coef_, atol=1e-4)
    assert by_columns.result_.objective == pytest.approx(dense.result_.objective, rel=1e-5)
    assert by_columns.result_.certificate.value < 1e-3
    assert by_columns.transform(x).shape == (300, 5)


def test_what_would_not_fit_or_has_no_targets_is_refused(monkeypatch):
    x, y = planted(1)
    with pytest.raises(CombinationError, match="a sparse X needs y"):
        RobustFeatureSelector(5).fit(x)
    monkeypatch.setattr(sparse_selection, "_MOST_BYTES", 1000)
    with pytest.raises(MemoryBudgetError, match="Keep fewer"):
        RobustFeatureSelector(5).fit(x, y)

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from proxlin.estimators.families.family_search import fit_families
from proxlin.estimators.families.folds import ColumnRoles
from proxlin.estimators.families.forest import Forest


@pytest.fixture(scope="module")
def steps():
    """A target that two columns look up: one value for each of 60 cells of a grid."""
    generator = np.random.default_rng(0)
    x = np.column_stack([generator.integers(10, size=900), generator.integers(6, size=900)])
    values = generator.normal(size=(10, 6))
    truth = values[x[:, 0], x[:, 1]]
    return x.astype(np.float64), truth, truth + 0.05 * generator.normal(size=900)


def grown(x, z, redescending=True):
    return Forest.fit(x, z, np.zeros(len(z)), redescending=redescending, seed=0)


def test_it_answers_as_the_trees_of_scikit_learn_do(steps):
    x, _, z = steps
    trees = ExtraTreesRegressor(7, random_state=0).fit(x, z)
    ours = Forest._of([tree.tree_ for tree in trees.estimators_])
    np.testing.assert_allclose(ours.predict(x), trees.predict(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("redescending", [True, False])
def test_steps_are_looked_up_and_wrong_rows_are_not(steps, redescending):
    x, truth, z = steps
    assert np.abs(grown(x, z, redescending).predict(x) - truth).mean() < 0.05
    wrong = z.copy()
    wrong[::5] += 1e6
    away = np.abs(grown(x, wrong, redescending).predict(x) - truth)
    assert np.median(away) < (0.05 if redescending else 1.0)
    assert away.max() < 10


def test_the_largest_seed_and_rows_that_every_tree_has_seen(monkeypatch):
    monkeypatch.setattr("proxlin.estimators.families.forest._TREES", 4)
    x = np.arange(100.0)[:, None]
    z = 1e6 + x[:, 0]
    forest = Forest.fit(x, z, z, redescending=False, seed=2**32 - 1)
    assert np.abs(forest.predict(x) - z).max() < 50


def test_where_columns_look_the_target_up_a_forest_takes_part(steps):
    x, truth, z = steps
    model = fit_families(x, z[:, None], ColumnRoles(np.arange(2)))
    assert "forest" in model.taking_part
    assert np.abs(model.predict(x)[:, 0] - truth).mean() < 0.1


def test_what_was_saved_predicts_the_same_bits_and_must_lead_to_leaves(steps):
    x, _, z = steps
    forest = grown(x, z)
    np.testing.assert_array_equal(Forest.restore(forest.state()).predict(x), forest.predict(x))
    circle = forest.right.copy()
    circle[np.flatnonzero(forest.columns >= 0)[3]] = 0
    for broken in ({"right": circle}, {"columns": forest.columns + 2}, {"cuts": forest.cuts[1:]}):
        with pytest.raises(ValueError, match="leaves"):
            Forest.restore({**forest.state(), **broken})
    with pytest.raises(ValueError, match="2 columns"):
        forest.predict(x[:, :1])

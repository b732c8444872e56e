import numpy as np
import pytest
import torch

from proxlin.estimators.families.additive import Ramps
from proxlin.estimators.families.family_search import fit_families
from proxlin.estimators.families.folds import ColumnRoles, FoldedTable
from proxlin.estimators.families.held_out_error import HeldOutError
from proxlin.estimators.families.regressor_state import regressor_state, restore_regressor
from proxlin.estimators.families.shrinkage import Shrinkage, ShrinkageSearch
from proxlin.estimators.families.table_regressor import mean_prediction
from proxlin.estimators.families.usual_values import scale_floor, usual_ranges


def roles(count):
    return ColumnRoles(np.arange(count))


@pytest.fixture(scope="module")
def product():
    generator = np.random.default_rng(0)
    x = generator.uniform(-2, 2, size=(400, 3))
    truth = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2])
    z = truth + 0.1 * generator.normal(size=400)
    z[:80] += 50
    return x, z[:, None], truth[:, None]


@pytest.fixture(scope="module")
def model(product):
    x, z, _ = product
    return fit_families(x, z, roles(3))


def test_held_out_rows_choose_what_can_say_it(model, product):
    x, _, truth = product
    figures = {figure.family: figure for figure in model.figures}
    assert set(figures) == {"linear", "additive", "kernel", "trees", "forest"}
    assert figures["trees"].held_out_error < figures["additive"].held_out_error
    assert figures["additive"].held_out_error < figures["linear"].held_out_error
    assert sum(model.weights.values()) == pytest.approx(1)
    assert model.weights["kernel"] + model.weights.get("trees", 0) > 0.5
    assert np.abs(model.predict(x) - truth).mean() < 0.2


def test_a_line_is_left_a_line():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, 4))
    z = x @ [[1.0], [2.0], [0.0], [-1.0]] + 0.5 * generator.normal(size=(200, 1))
    model = fit_families(x, z, roles(4))
    assert np.abs(model.predict(x) - x @ [[1.0], [2.0], [0.0], [-1.0]]).mean() < 0.15


def test_levels_change_what_numbers_do():
    """A slope that differs from level to level, of a category that adds nothing by itself."""
    generator = np.random.default_rng(0)
    levels = generator.integers(4, size=600)
    number = generator.normal(size=600)
    truth = np.array([-2.0, -1.0, 1.0, 2.0])[levels] * number
    x = np.column_stack([number, np.eye(4)[levels]])
    z = truth + 0.1 * generator.normal(size=600)
    model = fit_families(x, z[:, None], ColumnRoles(np.array([0]), (np.arange(1, 5),)))
    assert np.abs(model.predict(x)[:, 0] - truth).mean() < 0.15


def test_a_straight_column_costs_an_additive_model_one_coefficient():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(1200, 20))
    truth = x[:, :5] @ [3.0, -2.0, 1.5, 1.0, 0.5]
    z = (truth + generator.normal(size=1200))[:, None]
    table = FoldedTable(x[:600], z[:600], roles(20), units=lambda z: z, seed=0, seconds=None)
    curved = ShrinkageSearch(table, Ramps.fit(x[:600], np.ones(20, dtype=bool))).fit().of_all
    assert np.abs(curved.predict(x[600:])[:, 0] - truth[600:]).mean() < 0.35


def test_huge_cells_count_as_the_outermost_usual_ones():
    size = 1e12
    generator = np.random.default_rng(0)
    x = generator.normal(size=(400, 3))
    truth = x @ [1.0, 2.0, 0.0] + x[:, 0] * x[:, 1]
    wrong = x.copy()
    wrong[generator.random(x.shape) < 0.07] = size
    model = fit_families(wrong, truth[:, None], roles(3))
    right = (wrong == x).all(axis=1)
    assert np.abs(model.predict(x)[right, 0] - truth[right]).mean() < 0.25
    assert np.abs(model.predict(np.full((1, 3), size))).max() < 100


def test_usual_ranges_leave_rare_levels_and_long_tails_alone():
    generator = np.random.default_rng(0)
    columns = [generator.normal(size=1000), np.zeros(1000), np.zeros(1000)]
    columns[1][::100], columns[2][::20] = 1, generator.lognormal(size=50)
    x = np.column_stack(columns)
    low, high = usual_ranges(x)
    assert (np.clip(x, low, high) == x).mean() > 0.999
    x[:90, 0] = 1e12
    assert usual_ranges(x)[1][0] < 20


def test_wrong_rows_have_no_vote():
    generator = np.random.default_rng(0)
    good, worse = generator.normal(size=(2, 1000, 1)) * [[[1.0]], [[1.2]]]
    error = HeldOutError.over([good, worse])
    before = error.of(good), error.of(worse)
    assert before[0] < before[1]
    for residuals in (good, worse):
        residuals[:300] += 1e6
    worse[:300] -= 1e3  # the worse candidate is nearer to the wrong rows
    error = HeldOutError.over([good, worse])
    assert error.of(good) == pytest.approx(before[0], rel=0.1)
    assert error.of(good) < error.of(worse)


def test_bounds_hold_the_share_of_good_rows_that_they_say(model, product):
    generator = np.random.default_rng(7)
    x = generator.uniform(-2, 2, size=(1000, 3))
    z = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.1 * generator.normal(size=1000)
    low, high = model.bounds(x, 0.9)
    assert 0.8 < np.mean((low[:, 0] <= z) & (z <= high[:, 0])) < 0.99
    narrow = model.bounds(x, 0.5)
    assert (low <= narrow[0]).all()
    assert (narrow[1] <= high).all()


def test_wrong_rows_are_flagged_by_members_that_had_not_seen_them(model, product):
    _, z, _ = product
    scores = model.outlier_scale_.scores(np.abs(z - model.held_out).sum(axis=1))
    flags = model.outlier_scale_.flags(scores)
    assert flags[:80].all()
    assert flags[80:].mean() < 0.1


def test_what_was_saved_predicts_the_same_bits(model, product):
    x, _, _ = product
    values, arrays = regressor_state(model)
    restored = restore_regressor(values, {k: torch.as_tensor(v) for k, v in arrays.items()})
    np.testing.assert_array_equal(restored.predict(x), model.predict(x))
    np.testing.assert_array_equal(restored.bounds(x, 0.8), model.bounds(x, 0.8))
    assert restored.figures == model.figures


def test_a_level_that_was_seen_seldom_is_shrunk_towards_the_rest():
    generator = np.random.default_rng(0)
    levels = generator.choice(2, size=300)
    levels[0] = 2
    x = np.eye(3)[levels]
    z = 0.5 * (levels[:, None] == 1) + 0.3 * generator.normal(size=(300, 1))
    z[0] = 5  # the one row of its level
    model = fit_families(x, z, ColumnRoles(np.empty(0, dtype=int), (np.arange(3),)))
    (rare,) = model.predict(np.array([[0.0, 0.0, 1.0]]))
    assert abs(float(rare[0])) < 1.5
    (unseen,) = model.predict(np.zeros((1, 3)))
    assert abs(float(unseen[0])) < 0.3


def test_levels_that_say_nothing_are_charged_more_than_curves_that_do():
    generator = np.random.default_rng(0)
    levels = np.eye(60)[generator.integers(60, size=300)]
    number = generator.normal(size=(300, 1))
    z = 3 * number + generator.normal(size=(300, 1))
    columns = ColumnRoles(np.array([0]), (np.arange(1, 61),))
    table = FoldedTable(
        np.hstack([number, levels]), z, columns, units=lambda z: z, seed=0, seconds=None
    )
    straight = Ramps(tuple(np.empty(0) for _ in range(61)))
    model = ShrinkageSearch(table, straight).fit().of_all
    assert model.levels < 1
    assert np.abs(model.coef[1:]).max() < 0.2
    assert model.coef[0, 0] == pytest.approx(3, abs=0.2)


def test_a_few_columns_of_many_are_found_by_their_ranks():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(350, 300))
    truth = 2 * x[:, 0] - x[:, 1]
    z = truth + 0.3 * generator.normal(size=350)
    z[:30] += 40
    table = FoldedTable(x[:150], z[:150, None], roles(300), units=lambda z: z, seed=0, seconds=None)
    straight = Ramps(tuple(np.empty(0) for _ in range(300)))
    search = ShrinkageSearch(table, straight)
    model = search.fit().of_all
    assert model.focus > 0
    even = search.fit(Shrinkage(model.redescending, 0.1)).of_all
    errors = [np.abs(m.predict(x[150:])[:, 0] - truth[150:]).mean() for m in (model, even)]
    assert errors[0] < 0.5 * errors[1]


def test_who_earns_anything_is_no_outlier_where_half_earn_nothing():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(500, 2))
    truth = np.where(x[:, 0] > 0.1, 5 + x[:, 1], 0.0)
    model = fit_families(x, truth[:, None], roles(2))
    by_median = np.abs(truth - np.median(truth)).mean()  # who says zero to all
    assert np.abs(model.predict(x)[:, 0] - truth).mean() < 0.25 * by_median
    assert all(figures.held_out_error < 5 for figures in model.figures)
    assert scale_floor(truth[:, None]) == pytest.approx(2.5, rel=0.1)
    assert scale_floor(generator.normal(size=(500, 1))) == 0


def test_a_second_fit_takes_the_shrinkage_of_the_first(model, product):
    x, z, _ = product
    again = fit_families(x[:300], z[:300], roles(3), families=model.taking_part, like=model)
    for name, member in again.straight.items():
        assert Shrinkage.of(member) == Shrinkage.of(model.straight[name])


@pytest.mark.slow
def test_a_net_takes_part_when_there_is_time_for_it(monkeypatch):
    monkeypatch.setattr("proxlin.estimators.families.family_search._NET_FOLDS", 2)
    generator = np.random.default_rng(0)
    x = generator.uniform(-2, 2, size=(250, 2))
    z = np.sin(x[:, :1] * x[:, 1:]) + 0.05 * generator.normal(size=(250, 1))
    model = fit_families(x, z, roles(2), families=("net",))
    values, arrays = regressor_state(model)
    restored = restore_regressor(values, {k: torch.as_tensor(v) for k, v in arrays.items()})
    np.testing.assert_array_equal(restored.predict(x), model.predict(x))
    assert np.abs(model.predict(x) - np.sin(x[:, :1] * x[:, 1:])).mean() < 0.3


@pytest.mark.parametrize("count", [45, 60, 80])
def test_a_code_for_unknown_targets_teaches_and_judges_nothing(count):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, 1))
    z = 3 * x + 0.3 * generator.normal(size=(200, 1))
    z[:count] = 1e12
    model = fit_families(x, z, roles(1), families=("linear", "additive"))
    assert np.abs(model.predict(x) - 3 * x).max() < 0.5
    assert np.isfinite(model.held_out).all()
    assert max(figure.held_out_error for figure in model.figures) < 1


def test_a_forest_that_is_late_is_left_out_and_alone_it_is_not(product, monkeypatch):
    x, z, _ = product
    monkeypatch.setattr(FoldedTable, "late", lambda table, share: share == 1.0)
    model = fit_families(x, z, roles(3), families=("linear", "forest"))
    assert model.taking_part == ["linear"]
    assert fit_families(x, z, roles(3), families=("forest",)).taking_part == ["forest"]


def test_a_member_that_follows_wrong_rows_of_its_fold_moves_the_mean_no_farther_than_the_next():
    class Member:
        def __init__(self, answer):
            self.answer = answer

        def predict(self, x):
            return np.full((len(x), 1), self.answer)

    def mean(*answers):
        return mean_prediction([Member(answer) for answer in answers], np.empty((3, 2)))[:, 0]

    np.testing.assert_array_equal(mean(1.0, 3.0, 2.0, 0.0, 1e12), [2.0] * 3)
    np.testing.assert_array_equal(mean(1.0, 3.0, 2.0, -1e12, 1e12), [2.0] * 3)
    np.testing.assert_array_equal(mean(5.0, 1e12, 5.0), [5.0] * 3)
    np.testing.assert_array_equal(mean(1.0, 2.0), [1.5] * 3)

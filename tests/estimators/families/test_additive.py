import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxlin.estimators.families.additive import AdditiveModel, Ramps
from proxlin.estimators.families.huber_ridge import HuberRidge
from proxlin.estimators.robust_scale import residual_scale


def huber(residuals, bend):
    sizes = np.abs(residuals)
    return np.where(sizes <= bend, sizes**2 / (2 * bend), sizes - bend / 2)


def test_ramps_add_up_to_any_piecewise_linear_curve():
    x = np.random.default_rng(0).uniform(size=(400, 1))
    ramps = Ramps.fit(x, np.array([True]))
    (knots,) = ramps.knots
    heights = np.sin(7 * knots)
    curve = heights[0] + ramps.apply(x)[:, :-1] @ np.diff(heights)
    np.testing.assert_allclose(curve, np.interp(x[:, 0], knots, heights), atol=1e-12)


def test_far_cells_do_not_stretch_the_ramps():
    x = np.random.default_rng(0).normal(size=(500, 1))
    clean = Ramps.fit(x, np.array([True])).knots[0]
    x[:3] = 1e6
    dirty = Ramps.fit(x, np.array([True]))
    assert dirty.knots[0][-1] < 3 * clean[-1]
    far, outermost = dirty.apply(np.array([[1e9], [dirty.knots[0][-1]]]))
    np.testing.assert_array_equal(far, outermost)
    assert (far[:-1] == 1).all()


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 99), strength=st.sampled_from([1e-3, 0.1, 1.0]))
def test_the_gap_bounds_the_distance_from_the_minimum(seed, strength):
    generator = np.random.default_rng(seed)
    a, weights = generator.normal(size=(60, 4)), generator.uniform(0.1, 1, size=60)
    z = a @ generator.normal(size=(4, 1)) + generator.standard_t(2, size=(60, 1))
    problem = HuberRidge(a, z, weights, strength, 0.5)
    share = weights / weights.sum()

    def objective(beta):
        loss = share @ huber(z - a @ beta[:-1] - beta[-1], 0.5)
        return loss[0] + strength / 2 * (beta[:-1] ** 2).sum()

    start = np.zeros((5, 1))
    best, tiny = problem.solve(start, 1e-6)
    rough, gap = problem.solve(start, 1e-1)
    assert tiny <= 1e-6
    assert gap <= 1e-1
    assert objective(rough) * (1 - gap) <= objective(best)
    # First-order condition of the convex problem.
    slope = np.clip((z - a @ best[:-1] - best[-1]) / 0.5, -1, 1)
    np.testing.assert_allclose(a.T @ (share[:, None] * slope), strength * best[:-1], atol=1e-3)


def test_fewer_rows_than_columns_give_the_same_as_a_ridge_on_all_of_them():
    generator = np.random.default_rng(0)
    x, z = generator.normal(size=(20, 50)), generator.normal(size=(20, 1))
    straight = Ramps(tuple(np.empty(0) for _ in range(50)))
    (model,) = AdditiveModel.path(x, z, straight, (0.1,), redescending=False, fine=True)
    bend = residual_scale(z - model.predict(x))
    start = np.vstack([model.coef, model.intercept])
    beta, _ = HuberRidge(x, z, np.ones(20), 0.1, bend).solve(start, 1e-6)
    np.testing.assert_allclose(x @ beta[:-1] + beta[-1], model.predict(x), atol=0.05)


@pytest.mark.parametrize("kind", ["one side", "both sides"])
def test_curves_of_a_planted_truth_under_wrong_targets(kind):
    """30 % of the targets wrong: each curve is within a tenth of the range of the truth."""
    generator = np.random.default_rng(1)
    x = generator.uniform(-2, 2, size=(900, 3))
    truths = [np.sin(2 * x[:, 0]), np.abs(x[:, 1]), 0 * x[:, 2]]
    z = sum(truths) + 0.1 * generator.normal(size=900)
    wrong = generator.choice(900, 270, replace=False)
    z[wrong] += 20 if kind == "one side" else 20 * generator.normal(size=270)
    ramps = Ramps.fit(x, np.ones(3, dtype=bool))
    (model,) = AdditiveModel.path(x, z[:, None], ramps, (1e-3,), fine=True)
    assert model.gap <= 1e-5
    for column, truth in enumerate(truths):
        curve = model.effects(x, np.array([column]))[:, 0]
        away = curve - truth
        assert np.abs(away - np.median(away)).max() < 0.2


def test_forty_percent_at_one_place_do_not_take_the_fit_along():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(500, 2))
    truth = x @ [1.0, -2.0]
    z = truth + 0.1 * generator.normal(size=500)
    z[:200] = 15 + 0.1 * generator.normal(size=200)
    straight = Ramps((np.empty(0), np.empty(0)))
    (model,) = AdditiveModel.path(x, z[:, None], straight, (1e-4,), fine=True)
    assert np.abs(model.predict(x)[:, 0] - truth).max() < 0.2


def test_the_scale_forgets_what_lies_far_out():
    generator = np.random.default_rng(0)
    residuals = generator.normal(size=10_000)
    assert residual_scale(residuals) == pytest.approx(1, abs=0.03)
    residuals[:4000] += 1e6
    assert residual_scale(residuals) == pytest.approx(1, abs=0.05)

from dataclasses import replace

import pytest
import torch

from proxlin.errors import InvalidInputError
from proxlin.methods.subproblem import ADMM, SADM, InnerADMM
from proxlin.methods.subproblem.metric import Diagonal, Euclidean
from proxlin.terms import Ball, Lasso, NonNegative, Penalty, Ridge
from tests.methods.subproblem.linear_model import LAYOUT, LinearModel, random_model

EXACT = InnerADMM(tolerance=1e-8, floor=1e-12, max_steps=20_000)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def least_value(model):
    return model.value(ADMM(tolerance=1e-9, floor=1e-12, max_steps=20_000).solve(model).theta)


class TestOneStep:
    """Eq. 10, each line by its own optimality condition."""

    model = random_model(1, p=1.5, penalty=Penalty(LAYOUT, Ridge(0.4)), metric=Euclidean(0.7))
    index = torch.tensor([3, 3, 0, 7])

    def states(self, solver, count):
        state = solver.begin(self.model)
        states = [state]
        for _ in range(count):
            state = solver.step(self.model, state, self.index)
            states.append(state)
        return states

    @pytest.mark.parametrize("rescale", [True, False])
    def test_theta1_minimises_its_line(self, rescale):
        solver = SADM(inner=EXACT, growth=1.3, coupling=0.9, rescale=rescale)
        before, after = self.states(solver, 3)[-2:]
        rho, gamma = 0.9 * 3, 0.7 * 1.3 * 3
        # u^t: y / rho_t with y kept, or y / rho_(t-1) as printed.
        dual = before.multiplier / (rho if rescale else 0.9 * 2)

        def line(theta):
            loss = self.model.value(theta, self.index) - float(self.model.penalty.value(theta))
            coupling = (theta - before.theta2 + dual).square().sum()
            memory = (theta - before.theta1).square().sum()
            return loss + float(0.5 * rho * coupling + 0.5 * gamma * memory)

        least = line(after.theta1)
        for seed in range(20):
            nudge = 1e-3 * torch.randn(12, generator=generator(seed), dtype=torch.float64)
            # Strong convexity: every other point is higher by at least half the modulus.
            modulus = rho + gamma + 0.7
            excess = 0.5 * modulus * float(nudge.square().sum())
            assert line(after.theta1 + nudge) >= least + 0.99 * excess

    def test_theta2_and_the_multiplier_follow(self):
        before, after = self.states(SADM(inner=EXACT), 2)[-2:]
        rho = 0.4 * 2
        dual = before.multiplier / rho
        expected = self.model.penalty.prox(after.theta1 + dual, 1 / rho)
        torch.testing.assert_close(after.theta2, expected)
        torch.testing.assert_close(
            after.multiplier / rho, dual + after.theta1 - after.theta2, rtol=1e-9, atol=1e-12
        )
        assert after.primal == pytest.approx(float((after.theta1 - after.theta2).norm()))
        assert after.dual == pytest.approx(rho * float((after.theta2 - before.theta2).norm()))

    def test_averages_are_averages(self):
        states = self.states(SADM(), 5)[1:]
        for name in ("1", "2"):
            mean = torch.stack([getattr(state, f"theta{name}") for state in states]).mean(0)
            torch.testing.assert_close(getattr(states[-1], f"mean{name}"), mean)


@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize(
    "penalty",
    [
        Penalty(LAYOUT, Ridge(0.5)),
        Penalty(LAYOUT, Ridge(0.1) + Lasso(0.2), NonNegative()),
        Penalty(LAYOUT, Lasso(0.3)),
        Penalty(LAYOUT, None, Ball(1.0)),
    ],
    ids=["ridge", "elastic net >= 0", "lasso", "ball"],
)
def test_approaches_the_optimal_value(p, penalty):
    model = random_model(4, p=p, penalty=penalty)
    solver = SADM(max_steps=300, batch_size=12, tolerance=1e-12)
    found = solver.solve(model, generator=generator())
    least, first = least_value(model), model.value(model.anchor)
    assert penalty.contains(found.theta)
    assert found.steps == 300
    assert first > 1.04 * least
    assert model.value(found.theta) <= 1.005 * least


@pytest.mark.parametrize("rescale", [True, False])
def test_one_row_of_data_leaves_no_noise_and_the_answer_is_exact(rescale):
    model = random_model(5, p=2.0, rows=1, penalty=Penalty(LAYOUT, Ridge(0.5)))
    solver = SADM(max_steps=100, batch_size=1, growth=0.01, inner=EXACT, rescale=rescale)
    *_, last = solver.iterate(model, generator=generator())
    exact = ADMM(tolerance=1e-10, floor=1e-13).solve(model).theta
    torch.testing.assert_close(last.theta1, exact, rtol=0, atol=1e-3)
    torch.testing.assert_close(last.theta2, exact, rtol=0, atol=1e-3)


def test_multiplier_starts_at_a_subgradient_of_g():
    model = random_model(6, penalty=Penalty(LAYOUT, Ridge(0.5)), dtype=torch.float32)
    state = SADM().begin(model)
    torch.testing.assert_close(state.multiplier, 0.5 * model.anchor, rtol=1e-3, atol=1e-6)
    zero = SADM(start="zero").begin(model)
    assert not zero.theta1.any()
    assert not zero.multiplier.any()


def test_the_anchor_is_a_better_start_than_zero():
    model = random_model(7, penalty=Penalty(LAYOUT, Ridge(1e-3)), scale=10.0)
    values = {
        start: model.value(
            SADM(max_steps=20, start=start).solve(model, generator=generator()).theta
        )
        for start in ("anchor", "zero")
    }
    assert values["anchor"] < values["zero"]


def test_stops_at_the_first_state_with_both_residuals_small():
    model = random_model(8, penalty=Penalty(LAYOUT, Ridge(0.01)))
    for iteration in (0, 20, 60):
        solver = SADM(max_steps=500, min_steps=1, tolerance=0.1, decay=0.95)
        found = solver.solve(model, iteration=iteration, generator=generator())
        goal = 0.1 * 0.95**iteration
        states = list(replace(solver, max_steps=found.steps).iterate(model, generator=generator()))
        small = [max(state.primal, state.dual) <= goal for state in states]
        assert found.converged
        assert small == [False] * (found.steps - 1) + [True]


def test_takes_min_steps():
    model = random_model(8, penalty=Penalty(LAYOUT, Ridge(0.5)))
    solver = SADM(max_steps=50, min_steps=17, tolerance=1e6)
    assert solver.solve(model, generator=generator()).steps == 17


def test_same_seed_same_bits_other_seed_other_bits():
    model = random_model(9, penalty=Penalty(LAYOUT, Ridge(0.5)))
    one, two, other = (
        SADM(max_steps=5).solve(model, generator=generator(seed)).theta for seed in (0, 0, 1)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_type_is_kept_and_the_anchor_untouched(dtype):
    model = random_model(10, penalty=Penalty(LAYOUT, Ridge(0.5)), dtype=dtype)
    before = model.anchor.clone()
    found = SADM(max_steps=5).solve(model, generator=generator())
    assert found.theta.dtype == dtype
    assert torch.equal(model.anchor, before)


def test_diagonal_metric_with_equal_weights_is_euclidean():
    equal = Diagonal(torch.full((LAYOUT.size,), 0.7, dtype=torch.float64))
    points = [
        SADM(max_steps=10, inner=EXACT)
        .solve(
            random_model(11, penalty=Penalty(LAYOUT, Ridge(0.2)), metric=metric),
            generator=generator(),
        )
        .theta
        for metric in (equal, Euclidean(0.7))
    ]
    torch.testing.assert_close(points[0], points[1], rtol=1e-6, atol=1e-7)


def test_says_which_rate_is_lost_without_strong_convexity():
    lasso = random_model(12, penalty=Penalty(LAYOUT, Lasso(0.1)), metric=Euclidean(0.25))
    (remark,) = SADM(max_steps=2).solve(lasso, generator=generator()).remarks
    assert "log(T)/T" in remark
    assert "rho_t = 0.25 t" in remark
    ridge = random_model(12, penalty=Penalty(LAYOUT, Ridge(0.1)))
    assert SADM(max_steps=2).solve(ridge, generator=generator()).remarks == ()


class Countdown:
    """Expires at the given look."""

    def __init__(self, looks):
        self.looks = looks

    def expired(self):
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("looks", [0, 4])
def test_deadline_is_kept(looks):
    model = random_model(13, penalty=Penalty(LAYOUT, Ridge(0.5), Ball(1.0)))
    solver = SADM(tolerance=1e-12)
    found = solver.solve(model, generator=generator(), deadline=Countdown(looks))
    assert found.steps == looks
    assert model.penalty.contains(found.theta)


class Interrupted(LinearModel):
    """Ctrl-C arrives while the rows of the third batch are made."""

    calls = 0

    def linearization(self, index=None):
        type(self).calls += 1
        if type(self).calls == 3:
            raise KeyboardInterrupt
        return super().linearization(index)


def test_interruption_reaches_the_caller_and_leaves_the_last_state():
    plain = random_model(14, penalty=Penalty(LAYOUT, Ridge(0.5)))
    model = Interrupted(**vars(plain))
    seen = []

    def watch():
        for state in SADM().iterate(model, generator=generator()):
            seen.append(state)

    with pytest.raises(KeyboardInterrupt):
        watch()
    undisturbed = list(SADM(max_steps=2).iterate(plain, generator=generator()))
    assert len(seen) == 2
    assert torch.equal(seen[-1].theta1, undisturbed[-1].theta1)


@pytest.mark.parametrize(
    "setting",
    [
        {"max_steps": 0},
        {"min_steps": 0},
        {"batch_size": 0},
        {"tolerance": 0.0},
        {"decay": 1.5},
        {"coupling": -1.0},
        {"growth": 0.0},
        {"start": "centre"},
    ],
)
def test_refuses_settings(setting):
    with pytest.raises(InvalidInputError, match=rf"SADM\({next(iter(setting))}"):
        SADM(**setting)

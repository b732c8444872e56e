import pytest
import torch

from proxlin.errors import InvalidInputError
from proxlin.methods.subproblem import ADMM, Subgradient
from proxlin.prox import norm_subgradient
from proxlin.terms import Ball, Lasso, Penalty, Ridge
from tests.methods.subproblem.linear_model import LAYOUT, random_model


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_three_steps_are_the_formula():
    model = random_model(1, p=1.5, rows=1, penalty=Penalty(LAYOUT, Lasso(0.3)))
    found = Subgradient(learning_rate=0.01, momentum=0.5, max_steps=3, batch_size=1).solve(
        model, generator=generator()
    )
    theta = before = model.anchor
    for _ in range(3):
        shift = theta - model.anchor
        image = model.residual[0] + model.jacobian[0] @ shift
        slope = model.jacobian[0].T @ norm_subgradient(image, p=1.5) + shift
        target = theta - 0.01 * slope + 0.5 * (theta - before)
        before, theta = theta, model.penalty.prox(target, 0.01)
    torch.testing.assert_close(found.theta, theta)
    assert found.steps == 3


def test_without_g_it_is_the_momentum_of_torch():
    model = random_model(7, p=2.0, rows=1)
    found = Subgradient(learning_rate=0.01, max_steps=10, batch_size=1).solve(
        model, generator=generator()
    )
    theta = model.anchor.clone().requires_grad_(True)
    optimizer = torch.optim.SGD([theta], lr=0.01, momentum=0.9)
    for _ in range(10):
        optimizer.zero_grad()
        image = model.residual[0] + model.jacobian[0] @ (theta - model.anchor)
        (image.norm() + model.metric.distance(theta, model.anchor)).backward()
        optimizer.step()
    torch.testing.assert_close(found.theta, theta.detach())


@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_approaches_the_optimal_value(p, momentum):
    model = random_model(2, p=p, penalty=Penalty(LAYOUT, Ridge(0.5)))
    rate = 0.03 * (1 - momentum)
    solver = Subgradient(learning_rate=rate, momentum=momentum, max_steps=800, batch_size=12)
    found = solver.solve(model, generator=generator())
    least = model.value(ADMM().solve(model).theta)
    first = model.value(model.anchor)
    assert model.value(found.theta) - least <= 0.05 * (first - least)


def test_stays_in_the_set_keeps_the_type_and_the_anchor():
    penalty = Penalty(LAYOUT, None, Ball(0.5))
    model = random_model(3, penalty=penalty, dtype=torch.float32)
    before = model.anchor.clone()
    found = Subgradient(learning_rate=0.5, max_steps=20).solve(model, generator=generator())
    assert penalty.contains(found.theta)
    assert found.theta.dtype == torch.float32
    assert torch.equal(model.anchor, before)
    assert not torch.equal(found.theta, before)


def test_same_seed_same_bits():
    model = random_model(4)
    one, two = (Subgradient(max_steps=5).solve(model, generator=generator()) for _ in range(2))
    assert torch.equal(one.theta, two.theta)


def test_zero_residual_moves_nothing():
    model = random_model(5, p=1.0)
    still = type(model)(**{**vars(model), "residual": torch.zeros_like(model.residual)})
    found = Subgradient(learning_rate=0.1, max_steps=3).solve(still, generator=generator())
    assert torch.equal(found.theta, still.anchor)


def test_deadline_is_kept():
    class Past:
        def expired(self):
            return True

    model = random_model(6)
    found = Subgradient().solve(model, generator=generator(), deadline=Past())
    assert found.steps == 0
    assert torch.equal(found.theta, model.anchor)


@pytest.mark.parametrize(
    "setting", [{"learning_rate": 0.0}, {"momentum": 1.0}, {"max_steps": 0}, {"batch_size": -1}]
)
def test_refuses_settings(setting):
    with pytest.raises(InvalidInputError, match=rf"Subgradient\({next(iter(setting))}"):
        Subgradient(**setting)

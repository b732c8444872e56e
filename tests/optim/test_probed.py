"""The optimiser: optima with a known value, resumption bit for bit, terms, and bad input."""

import io

import pytest
import torch
from torch import nn
from torch.func import functional_call

from proxlin import Lasso, NonNegative, Problem, Ridge, minimize
from proxlin import Probed as Settings
from proxlin.errors import InvalidInputError
from proxlin.linearize import linearize
from proxlin.optim import Probed


def table(n=512, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=generator)
    y = torch.sin(x[:, :2]) + x[:, 2:4] + 0.1 * torch.randn(n, 2, generator=generator)
    y[::5] += 10
    return x, y


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))


def train(optimizer, module, data, steps, first=0):
    x, y = data
    for step in range(first, first + steps):
        rows = slice(step % 4 * 128, step % 4 * 128 + 128)
        optimizer.step(lambda rows=rows: module(x[rows]) - y[rows])


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_a_plain_loop_reaches_what_minimize_does(p):
    x, y = table()
    module = net()
    problem = Problem(net(), (x, y), p)
    best = minimize(problem, Settings(batch_size=128), max_iter=300).objective
    optimizer = Probed(module.named_parameters(), p, total_steps=300)
    train(optimizer, module, (x, y), 300)
    points = [dict(module.named_parameters()), optimizer.averaged()]  # of which minimize chooses
    residuals = [functional_call(module, point, x).detach() - y for point in points]
    reached = min(float(problem.loss(residual).mean()) for residual in residuals)
    assert reached <= 1.05 * best


def test_slopes_are_those_of_the_problem():
    x, y = table(64)
    module = net()
    optimizer = Probed(module.named_parameters())
    closure_problem = optimizer._problem
    closure_problem.closure = lambda: module(x) - y
    batch = closure_problem.take(slice(None))
    theta, u = closure_problem.theta(), torch.randn(64, 2)
    problem = Problem(net(), (x, y))
    expected = linearize(problem, theta, (x, y))
    found = linearize(closure_problem, theta, batch.tensors)
    torch.testing.assert_close(found.residual, expected.residual)
    torch.testing.assert_close(found.adjoint(u), expected.adjoint(u))
    part = linearize(closure_problem, theta, next(iter(batch.parts(16))).tensors)
    first = linearize(problem, theta, (x[:16], y[:16]))
    torch.testing.assert_close(part.adjoint(u[:16]), first.adjoint(u[:16]))


@pytest.mark.parametrize(("curvature", "total"), [("dense", 60), ("layered", 60), ("layered", 300)])
def test_resumed_from_its_state_dict_it_goes_on_bit_for_bit(curvature, total):
    x, y = table()
    module = net()  # with 300 steps, still trying kinds of steps when it is stopped
    optimizer = Probed(module.named_parameters(), curvature=curvature, total_steps=total)
    train(optimizer, module, (x, y), 33)
    file = io.BytesIO()
    torch.save({"module": module.state_dict(), "optimizer": optimizer.state_dict()}, file)
    train(optimizer, module, (x, y), 27, first=33)
    file.seek(0)
    kept = torch.load(file)  # weights only: nothing but plain data
    again = net(seed=5)
    resumed = Probed(again.named_parameters(), curvature=curvature, total_steps=total, seed=9)
    again.load_state_dict(kept["module"])
    resumed.load_state_dict(kept["optimizer"])
    train(resumed, again, (x, y), 27, first=33)
    for one, other in zip(module.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_terms_hold_at_every_step():
    x, y = table()
    module = nn.Linear(6, 2)
    optimizer = Probed(
        module.named_parameters(), regularizer=Lasso(0.05, on="weight"), constraint=NonNegative()
    )
    for _ in range(30):
        optimizer.step(lambda: module(x) - y)
        assert all(bool((t >= 0).all()) for t in module.parameters())
    assert bool((module.weight == 0).any())


def test_ridge_shrinks_as_its_closed_form_says():
    torch.manual_seed(0)
    x, y = torch.randn(200, 3), torch.randn(200, 1)
    module = nn.Linear(3, 1, bias=False)
    optimizer = Probed(module.parameters(), "mse", regularizer=Ridge(0.5), total_steps=400)
    for _ in range(400):
        optimizer.step(lambda: module(x) - y)
    expected = torch.linalg.solve(x.T @ x / 200 + 0.25 * torch.eye(3), x.T @ y / 200)
    torch.testing.assert_close(module.weight.detach().T, expected, atol=2e-3, rtol=1e-2)


def test_modules_in_train_mode_and_frozen_parameters_are_the_callers_business():
    x, y = table()
    module = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 2))
    module[0].requires_grad_(False)
    before = module[0].weight.clone()
    optimizer = Probed(module.parameters())
    train(optimizer, module, (x, y), 5)
    optimizer.zero_grad()
    assert torch.equal(before, module[0].weight)
    assert int(module[1].num_batches_tracked) > 0


def test_bad_input_is_answered_in_a_sentence():
    module = nn.Linear(6, 2)
    x, y = table()
    optimizer = Probed(module.parameters())
    with pytest.raises(InvalidInputError, match="needs a closure"):
        optimizer.step()
    with pytest.raises(InvalidInputError, match=r"residual rows .* got \(\)"):
        optimizer.step(lambda: (module(x) - y).abs().mean())
    with pytest.raises(InvalidInputError, match="without a gradient"):
        optimizer.step(lambda: module(x).detach() - y)
    with pytest.raises(InvalidInputError, match=r"closure .* got Tensor"):
        optimizer.step(module(x) - y)
    with pytest.raises(InvalidInputError, match="got rows of others"):
        optimizer.step(lambda: nn.Linear(6, 2)(x) - y)
    with pytest.raises(InvalidInputError, match="another optimiser"):
        optimizer.load_state_dict(None)
    with pytest.raises(InvalidInputError, match="another optimiser"):
        optimizer.load_state_dict(torch.optim.SGD(module.parameters(), lr=1.0).state_dict())
    with pytest.raises(InvalidInputError, match="require a gradient"):
        Probed(nn.Linear(2, 2).requires_grad_(False).parameters())


@pytest.mark.parametrize(
    "params", [nn.Linear(6, 2), torch.ones(3), None, [], nn.Linear(6, 2).state_dict()]
)
def test_what_are_no_parameters_is_refused(params):
    with pytest.raises(InvalidInputError, match=r"such as module.named_parameters\(\); got"):
        Probed(params)


def test_schedulers_and_settings_of_groups_are_refused_in_a_sentence():
    optimizer = Probed(nn.Linear(6, 2).parameters())
    group = optimizer.param_groups[0]
    schedulers = torch.optim.lr_scheduler
    for use in (
        lambda: schedulers.StepLR(optimizer, 10),
        lambda: schedulers.OneCycleLR(optimizer, max_lr=0.1, total_steps=10),
        lambda: group.__setitem__("lr", 0.1),
    ):
        with pytest.raises(InvalidInputError, match="give it total_steps instead"):
            use()
    with pytest.raises(InvalidInputError, match="Ridge"):
        group["weight_decay"] = 0.1

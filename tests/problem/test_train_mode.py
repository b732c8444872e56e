"""Dropout: on in the steps of a module in train mode, off in its objective, repeatable."""

import pytest
import torch
from torch import nn

from proxlin import MBO, Adam, Probed, Problem, minimize
from proxlin.errors import UnsupportedModuleError
from proxlin.methods.contract import Budget


def table(n=200):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 8, generator=generator)
    return x, x[:, :2].sin()


def net(rate=0.5):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(rate), nn.Linear(32, 2))


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x):
        return self.layer(nn.functional.dropout(x, 0.3, self.training))


@pytest.mark.parametrize(
    ("module", "noisy"),
    [
        (net(), True),
        (net().eval(), False),
        (net(0.0), False),
        (Functional(), True),
        (nn.Linear(8, 2), False),
        (nn.Sequential(nn.Linear(8, 2), nn.BatchNorm1d(2).eval(), nn.Dropout(0.1)), True),
    ],
)
def test_noise_is_seen_where_it_is(module, noisy):
    x, y = table()
    seed = torch.get_rng_state()
    assert Problem(module, (x, y)).noisy is noisy
    assert torch.equal(seed, torch.get_rng_state())


def test_the_same_is_dropped_throughout_a_step_and_something_else_in_the_next():
    x, y = table()
    problem = Problem(net(), (x, y))
    theta, generator = problem.theta(), torch.Generator().manual_seed(0)
    plain = problem.residual(theta, (x, y))
    drawn = []
    for _ in range(2):
        with problem.dropping(generator):
            first, second = problem.residual(theta, (x, y)), problem.residual(theta, (x, y))
        assert torch.equal(first, second)
        drawn.append(first)
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(plain, problem.residual(theta, (x, y)))


def test_a_dropped_unit_has_the_mean_of_one_that_is_not():
    x, y = table(50)
    problem = Problem(nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 2)), (x, y))
    theta, generator = problem.theta(), torch.Generator().manual_seed(0)
    total = torch.zeros_like(y)
    for _ in range(500):
        with problem.dropping(generator):
            total += problem.residual(theta, (x, y))
    torch.testing.assert_close(total / 500, problem.residual(theta, (x, y)), atol=0.3, rtol=0)


@pytest.mark.parametrize("method", [Probed(), Probed(batch_size=64), Adam(learning_rate=0.1)])
def test_least_squares_with_dropout_is_ridge_regression(method):
    """E |y - (x * drop) w|^2 = |y - x w|^2 + q/(1-q) sum_j w_j^2 E[x_j^2] at the rate q."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 3, generator=generator)
    y = x @ torch.tensor([[1.0], [-2.0], [3.0]])
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 1, bias=False))
    problem, budget = Problem(module, (x, y), "mse"), Budget(None, 200)
    state = method.init(problem, problem.theta(), generator)
    for _ in range(200):
        method.step(problem, state, budget)
        budget.iteration += 1
    gram = x.T @ x
    expected = torch.linalg.solve(gram + torch.diag(gram.diagonal()), x.T @ y)
    error = method.candidates(state)[-1] - expected.flatten()
    assert float(error.norm()) < 0.1 * float(expected.norm())


def test_methods_that_need_one_function_say_so():
    with pytest.raises(UnsupportedModuleError, match=r"drops at random .* \.eval\(\)"):
        minimize(Problem(net(), table()), MBO(), max_iter=1)


def test_a_module_that_moves_its_buffers_in_train_mode_is_evaluated_as_it_is():
    x, y = table()
    torch.manual_seed(0)
    module = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 2))
    problem = Problem(module, (x, y))
    module.eval()
    expected = float((module(x) - y).detach().abs().sum(1).mean())
    assert problem.objective(problem.theta()) == pytest.approx(expected, rel=1e-6)

"""Proximal terms beyond a diagonal metric: their formulas, and MBO with them."""

import pytest
import torch
from torch import nn

from proxlin import (
    ADMM,
    MBO,
    SADM,
    Curvature,
    Entropy,
    Euclidean,
    NonNegative,
    Problem,
    Ridge,
    Simplex,
    minimize,
)
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.methods.subproblem.bregman import BoundEntropy
from proxlin.methods.subproblem.convex_model import ConvexModel

EXACT = ADMM(tolerance=1e-6, max_steps=2_000)
QUICK = ADMM(tolerance=1e-4, max_steps=400)


def entropy(anchor, weight=0.7):
    anchor = torch.as_tensor(anchor, dtype=torch.float64)
    return BoundEntropy(weight, torch.ones(len(anchor), dtype=torch.bool), anchor)


class Positive(nn.Module):
    """x -> x weight with weight > 0."""

    def __init__(self, size, value=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), value, dtype=torch.float64))

    def forward(self, x):
        return (x @ self.weight).unsqueeze(1)


def mixture(size=6, n=80):
    """Targets of a mixture with two of the columns; a fifth is wrong."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, size, generator=generator, dtype=torch.float64)
    truth = torch.zeros(size, dtype=torch.float64)
    truth[1], truth[4] = 0.7, 0.3
    y = (x @ truth + 0.05 * torch.randn(n, generator=generator, dtype=torch.float64)).unsqueeze(1)
    y[::5] += 5
    return x, y


@pytest.mark.parametrize("step", [1e-6, 0.1, 10.0, 1e6])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_prox_of_the_entropy_satisfies_its_equation(step, scale):
    anchor = scale * torch.tensor([1e-3, 0.1, 1.0, 5.0], dtype=torch.float64)
    term = entropy(anchor)
    for v in (-3.0, 0.0, 0.5, 4.0):
        value = torch.full((4,), v * scale, dtype=torch.float64)
        w = term.prox(value, step)
        assert bool((w >= 0).all())
        s = step * term.weight
        inside = w > 1e-290  # smaller ones cannot be told from 0
        error = (w + s * (w / anchor).log() - value)[inside]
        assert bool((error.abs() <= 1e-9 * max(50 * s, scale)).all())


def test_the_entropy_is_the_bregman_distance_of_x_log_x():
    x, y = torch.tensor([0.2, 1.5]).double(), torch.tensor([0.7, 1.0]).double()

    def psi(v):
        return (v * v.log()).sum()

    gradient = y.log() + 1
    expected = 0.7 * float(psi(x) - psi(y) - gradient @ (x - y))
    assert float(entropy(y).distance(x, y)) == pytest.approx(expected, rel=1e-12)
    assert float(entropy(y).distance(y, y)) == 0.0


def test_a_model_step_with_the_entropy_on_a_linear_slope_multiplies():
    """min slope . w + h KL(w, a) is w = a exp(-slope / h), the exponentiated gradient."""
    x = torch.tensor([[1.0, -2.0, 0.5]]).double()
    y = torch.full((1, 1), 1e4, dtype=torch.float64)  # far below its target: the slope is -x
    problem = Problem(Positive(3), (x, y), 1)
    model = ConvexModel(problem, problem.theta(), Entropy(0.8))
    found = EXACT.solve(model).theta
    torch.testing.assert_close(found, (x[0] / 0.8).exp(), rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    "constraint", [Simplex(), pytest.param(NonNegative(), marks=pytest.mark.slow)]
)
def test_all_terms_lead_to_the_same_optimum(constraint):
    values = []
    for metric in (Euclidean(0.1), Entropy(0.05), Curvature(0.1)):
        problem = Problem(Positive(6, 1 / 6), mixture(), 1, constraint=constraint)
        method = MBO(solver=QUICK, metric=metric, decrease_rows=None)
        result = minimize(problem, method, max_iter=6, max_seconds=None)
        objectives = result.history.frame()["objective"]
        assert (objectives.diff().dropna() <= 1e-12).all()  # Armijo
        assert problem.penalty.contains(result.theta, 1e-6)
        values.append(result.objective)
    assert max(values) - min(values) <= 1e-2 * min(values)


@pytest.mark.parametrize("metric", [Entropy(0.05), Curvature(0.1)], ids=repr)
def test_the_certificate_falls_as_the_run_converges(metric):
    problem = Problem(Positive(6, 1 / 6), mixture(n=40), 2, constraint=Simplex())
    method = MBO(solver=ADMM(tolerance=1e-3, max_steps=500), metric=metric, decrease_rows=None)
    result = minimize(problem, method, max_iter=5, max_seconds=None)
    measured = result.history.frame()["stationarity"].dropna()
    assert measured.iloc[-1] <= 0.1 * measured.iloc[0]
    assert result.certificate.kind == "stationarity"


def test_the_curvature_is_that_of_the_quadratic_majoriser():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    y = torch.randn(40, 1, generator=generator, dtype=torch.float64)
    net = nn.Linear(3, 1, bias=False).double()
    problem = Problem(net, (x, y), 2)
    bound = Curvature(1.0, damping=1e-12, floor=1e-9).at(problem, problem.theta())
    weights = 1 / (net(x) - y).detach().abs()
    torch.testing.assert_close(bound.matrix, x.T @ (weights * x) / 40)


def test_steps_with_the_curvature_do_not_depend_on_units():
    """theta -> S theta with columns of x in other units gives the same predictions."""
    x, y = mixture()
    units = torch.tensor([1e-3, 1.0, 10.0, 1.0, 1e2, 1.0], dtype=torch.float64)
    predicted = []
    for scale in (torch.ones_like(units), units):
        module = Positive(6)
        with torch.no_grad():
            module.weight.copy_(scale)
        problem = Problem(module, (x / scale, y), 1)
        metric = Curvature(0.3, damping=1e-12)
        method = MBO(solver=EXACT, metric=metric, decrease_rows=None)
        minimize(problem, method, max_iter=1, max_seconds=None)
        predicted.append((x / scale) @ module.weight.detach())
    torch.testing.assert_close(predicted[0], predicted[1], rtol=1e-3, atol=1e-3)


def test_other_parameters_keep_the_euclidean_term():
    torch.manual_seed(0)
    x, y = mixture()
    module = nn.Linear(6, 1).double()
    with torch.no_grad():
        module.weight.fill_(1 / 6)
        module.bias.fill_(-0.2)
    problem = Problem(module, (x, y), 1, regularizer=Ridge(1e-3))
    method = MBO(solver=QUICK, metric=Entropy(0.1, on="weight"), decrease_rows=None)
    result = minimize(problem, method, max_iter=4, max_seconds=None)
    assert bool((module.weight > 0).all())
    assert result.objective < problem.objective(torch.full((7,), 1 / 6).double())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MBO(solver=SADM(), metric=Entropy()), "needs MBO(solver=ADMM()); got SADM"),
        (lambda: Entropy(0.0), "Entropy(weight=...)"),
        (lambda: Curvature(damping=-1), "Curvature(damping=...)"),
        (lambda: Curvature(rows=0), "Curvature(rows=...)"),
        (lambda: run(Entropy(on="wieght")), "must name parameters; got 'wieght'"),
        (lambda: run(Entropy(), value=-1.0), "needs parameters >= 0"),
    ],
)
def test_what_cannot_be_is_told(make, words):
    with pytest.raises((InvalidInputError, CombinationError)) as caught:
        make()
    assert words in str(caught.value)


def run(metric, value=1.0):
    problem = Problem(Positive(6, value), mixture(), 1)
    return minimize(problem, MBO(solver=ADMM(), metric=metric), max_iter=1)

import math

import pytest
import torch
from torch import nn
from torch.func import functional_call, jacrev

from proxlin import Diagonal, Euclidean, Lasso, NonNegative, Problem, Ridge
from proxlin.errors import InvalidInputError
from proxlin.methods.subproblem.convex_model import ConvexModel

EXPONENTS = [1, 1.5, 2, 4, math.inf]
ROWS = 23


def data(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 3, generator=generator, dtype=torch.float64)
    y = torch.randn(ROWS, 2, generator=generator, dtype=torch.float64)
    return x.to(dtype), y.to(dtype)


def network(dtype=torch.float64):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(dtype)


def problem(p=1.5, *, dtype=torch.float64, **settings):
    settings.setdefault("regularizer", Ridge(0.3) + Lasso(0.1))
    return Problem(network(dtype), data(dtype), p, **settings)


def directions(count, size=26, scale=1.0):
    generator = torch.Generator().manual_seed(2)
    return scale * torch.randn(count, size, generator=generator, dtype=torch.float64)


class Written:
    """Eq. 7 and Eq. 17 written out: J from jacrev, one row after the other."""

    def __init__(self, p, theta, diagonal):
        net, (x, y) = network(), data()
        names = [name for name, _ in net.named_parameters()]
        shapes = [t.shape for t in net.parameters()]

        def residual(flat):
            parts = torch.split(flat, [s.numel() for s in shapes])
            values = {n: t.view(s) for n, t, s in zip(names, parts, shapes, strict=True)}
            return functional_call(net, values, (x,)) - y

        self.p, self.anchor, self.diagonal = p, theta, diagonal
        self.residual = residual(theta).detach()
        self.jacobian = jacrev(residual)(theta).detach()

    def value(self, theta, rows=None):
        s = theta - self.anchor
        chosen = range(ROWS) if rows is None else rows.tolist()
        losses = [
            float(torch.linalg.vector_norm(self.residual[i] + self.jacobian[i] @ s, ord=self.p))
            for i in chosen
        ]
        g = 0.15 * float(theta @ theta) + 0.1 * float(theta.abs().sum())
        return sum(losses) / len(losses) + g + 0.5 * float((self.diagonal * s * s).sum())


@pytest.mark.parametrize("p", EXPONENTS)
def test_value_at_the_anchor_is_the_objective(p):
    task = problem(p)
    theta = task.theta()
    assert ConvexModel(task, theta).value(theta) == pytest.approx(task.objective(theta), rel=1e-14)
    assert ConvexModel(task, theta).decrease(theta) == 0.0


@pytest.mark.parametrize("weighted", [False, True], ids=["euclidean", "diagonal"])
@pytest.mark.parametrize("p", EXPONENTS)
def test_value_and_decrease_are_eq_7_and_eq_17(p, weighted):
    task = problem(p)
    anchor = task.theta()
    diagonal = torch.linspace(0.5, 3.0, 26, dtype=torch.float64)
    metric = Diagonal(diagonal) if weighted else Euclidean(0.7)
    written = Written(p, anchor, diagonal if weighted else torch.full_like(diagonal, 0.7))
    model = ConvexModel(task, anchor, metric)
    rows = torch.tensor([4, 0, 22, 4])  # a row drawn twice counts twice
    for direction in directions(4):
        theta = anchor + direction
        for index in (None, rows):
            expected = written.value(theta, index)
            assert model.value(theta, index) == pytest.approx(expected, rel=1e-12)
            change = expected - written.value(anchor, index)
            assert model.decrease(theta, index) == pytest.approx(change, rel=1e-10, abs=1e-13)


def test_the_default_metric_is_half_the_square():
    task = problem()
    anchor = task.theta()
    theta = anchor + directions(1)[0]
    plain, none = ConvexModel(task, anchor), ConvexModel(task, anchor, Euclidean(1e-300))
    difference = plain.value(theta) - none.value(theta)
    assert difference == pytest.approx(0.5 * float((theta - anchor).square().sum()), rel=1e-12)


@pytest.mark.parametrize("p", EXPONENTS)
def test_all_rows_as_a_sample_are_all_rows(p):
    task = problem(p)
    anchor = task.theta()
    model = ConvexModel(task, anchor)
    theta = anchor + directions(1)[0]
    everything = torch.randperm(ROWS, generator=torch.Generator().manual_seed(3))
    assert model.value(theta, everything) == pytest.approx(model.value(theta), rel=1e-14)
    assert model.decrease(theta, everything) == pytest.approx(model.decrease(theta), rel=1e-13)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_value_does_not_depend_on_the_chunks(size):
    theta = problem().theta() + directions(1)[0]
    index = torch.arange(ROWS).repeat(2)
    whole, parts = problem(), problem(chunk_rows=size)
    for rows in (None, index):
        one, other = (ConvexModel(task, task.theta()) for task in (whole, parts))
        assert one.value(theta, rows) == pytest.approx(other.value(theta, rows), rel=1e-14)
        assert one.decrease(theta, rows) == pytest.approx(other.decrease(theta, rows), rel=1e-13)


@pytest.mark.parametrize("p", EXPONENTS)
def test_value_is_strongly_convex_along_segments(p):
    # m(t a + (1-t) b) <= t m(a) + (1-t) m(b) - t (1-t) mu/2 |a-b|^2 with mu = h + modulus of g.
    task = problem(p)
    anchor = task.theta()
    model = ConvexModel(task, anchor, Euclidean(0.7))
    ends = anchor + directions(6, scale=2.0)
    for a, b in zip(ends[::2], ends[1::2], strict=True):
        bow = 0.5 * (0.7 + 0.3) * float((a - b).square().sum())
        for t in (0.1, 0.5, 0.8):
            chord = t * model.value(a) + (1 - t) * model.value(b) - t * (1 - t) * bow
            assert model.value(t * a + (1 - t) * b) <= chord + 1e-12


@pytest.mark.parametrize("p", EXPONENTS)
def test_model_touches_the_objective_to_second_order(p):
    # |f(anchor + t d) - (model - proximal term)| <= c t^2 near the anchor (F is smooth).
    task = problem(p)
    anchor = task.theta()
    model = ConvexModel(task, anchor)
    direction = directions(1)[0]
    gaps = []
    for t in (1e-2, 1e-3):
        theta = anchor + t * direction
        proximal = 0.5 * t * t * float(direction @ direction)
        gaps.append(abs(task.objective(theta) - model.value(theta) + proximal))
    assert 0 < gaps[1] < gaps[0] / 50


def test_a_linear_module_is_its_own_model():
    x, y = data()
    task = Problem(nn.Linear(3, 2).double(), (x, y), p=1, regularizer=Ridge(0.2))
    anchor = task.theta()
    model = ConvexModel(task, anchor)
    for direction in directions(3, size=8):
        theta = anchor + direction
        expected = task.objective(theta) + 0.5 * float(direction @ direction)
        assert model.value(theta) == pytest.approx(expected, rel=1e-13)


def test_a_small_decrease_keeps_its_digits_in_float32():
    # g alone is some 1e5 times larger than the change, which float32 sums would round away.
    task = problem(dtype=torch.float32, regularizer=Ridge(50.0))
    exact = problem(dtype=torch.float64, regularizer=Ridge(50.0))
    anchor = task.theta() + 10
    theta = anchor - 1e-5 * torch.sign(anchor)
    fine = ConvexModel(exact, anchor.double()).decrease(theta.double())
    assert ConvexModel(task, anchor).decrease(theta) == pytest.approx(fine, rel=1e-3)


def test_sample_is_uniform_and_comes_from_the_generator():
    model = ConvexModel(problem(), problem().theta())
    draws = [model.sample(4000, torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(*draws)
    counts = torch.bincount(draws[0], minlength=ROWS)
    expected = 4000 / ROWS
    # Chi-squared with 22 degrees of freedom exceeds 48.3 once in a thousand times.
    assert float(((counts - expected) ** 2 / expected).sum()) < 48.3


def test_linearization_of_given_rows_is_that_of_all_rows_there():
    model = ConvexModel(problem(), problem().theta())
    index = torch.tensor([3, 20, 3])
    some, everything = model.linearization(index), model.linearization()
    torch.testing.assert_close(some.residual, everything.residual[index])
    torch.testing.assert_close(some.rows(), everything.rows()[index])
    assert everything.residual.shape == (ROWS, 2)


def test_model_is_that_of_its_anchor_whatever_happens_later():
    task = problem()
    anchor = task.theta()
    model = ConvexModel(task, anchor)
    theta = anchor + directions(1)[0]
    before = model.value(theta)
    task.assign(torch.zeros_like(anchor))
    assert model.value(theta) == before
    assert torch.equal(anchor, model.anchor)


def test_parts_are_those_of_the_problem():
    task = problem(constraint=NonNegative(), regularizer=None)
    model = ConvexModel(task, task.theta())
    assert model.penalty is task.penalty
    assert (model.n_rows, model.p) == (ROWS, 1.5)


def test_mse_is_refused():
    task = problem("mse")
    with pytest.raises(InvalidInputError) as caught:
        ConvexModel(task, task.theta())
    assert 'p must be a number >= 1 or inf; got "mse"' in str(caught.value)
    assert "Use p=2" in str(caught.value)


def test_a_diagonal_of_the_wrong_length_is_refused():
    task = problem()
    with pytest.raises(InvalidInputError, match="26 weights"):
        ConvexModel(task, task.theta(), Diagonal(torch.ones(3)))

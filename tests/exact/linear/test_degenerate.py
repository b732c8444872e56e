"""Data that have no unique answer, no scale, no noise or hardly any rows; and bad input."""

import math

import pytest
import torch
from torch import Tensor

from proxlin import Box, Lasso, NonNegative, Status
from proxlin.errors import InvalidInputError
from proxlin.exact.linear import solve_linear
from tests.exact.linear.oracle import planted

NONE: dict[str, object] = {}
LASSO: dict[str, object] = {"regularizer": Lasso(0.1)}
BOX: dict[str, object] = {"constraint": Box(-0.5, 0.2)}
# Every exponent without terms, and each kind of term with a separable, a coupling and no kink.
KINDS = [
    *((p, NONE) for p in (1.0, 1.3, math.inf, "mse")),
    *((p, LASSO) for p in (1.0, 1.3, "mse")),
    *((p, BOX) for p in (1.0, math.inf)),
]


def degenerate() -> dict[str, tuple[Tensor, Tensor]]:
    x, y = planted(30, 4, 2)
    one = torch.ones(30, 1, dtype=torch.float64)
    line = x @ torch.ones(4, 2, dtype=torch.float64) + 2.0
    mostly = line.clone()
    mostly[:6] += 5.0
    return {
        "duplicated columns": (torch.cat([x, x[:, :2], 1e3 * x[:, :1]], 1), y),
        "constant columns": (torch.cat([x, 3.0 * one, 0.0 * one], 1), y),
        "fewer rows than columns": (x[:3], y[:3]),
        "exact": (x, line),
        "mostly exact": (x, mostly),
        "ties": (x.round(), y.round()),
        "signs": ((x > 0).double(), (y > 0).double()),
        "one row": (x[:1], y[:1]),
        "one feature": (x[:, :1], y),
        "no feature": (x[:, :0], y),
        "constant targets": (x, torch.full_like(y, 7.0)),
        "zero targets": (x, torch.zeros_like(y)),
        "one zero target": (x, y * torch.tensor([0.0, 1e-8]).double()),
        "mixed scales": (x * torch.tensor([1e-9, 1e-4, 1.0, 1e9]).double(), y),
        "far from zero": (x + 1e7, y - 1e7),
        "nearly collinear": (torch.cat([x, x[:, :1] + 1e-9 * x[:, 1:2]], 1), y),
    }


@pytest.mark.parametrize(("p", "terms"), KINDS, ids=str)
@pytest.mark.parametrize("name", degenerate())
def test_degenerate_data_are_solved_to_a_proof(
    name: str, p: float | str, terms: dict[str, object]
) -> None:
    x, y = degenerate()[name]
    solution = solve_linear(x, y, p=p, max_iter=300, **terms)
    assert solution.status is Status.CONVERGED
    assert bool(torch.isfinite(solution.coef).all())
    if "constraint" in terms:
        assert bool(((solution.coef >= -0.5) & (solution.coef <= 0.2)).all())


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_a_majority_of_exact_rows_is_recovered(p: float) -> None:
    x, y = degenerate()["mostly exact"]
    solution = solve_linear(x, y, p=p)
    assert torch.allclose(solution.coef, torch.ones(4, 2, dtype=torch.float64), atol=1e-6)


def test_interpolation_leaves_no_residual() -> None:
    x, y = planted(5, 9, 2)
    solution = solve_linear(x, y, p=1)
    assert solution.objective <= 1e-12 * float(y.abs().mean())


def test_duplicated_columns_change_no_optimum() -> None:
    x, y = planted(40, 3, 2)
    twice = torch.cat([x, x], 1)
    for p in (1.0, 2.0):
        one, two = solve_linear(x, y, p=p), solve_linear(twice, y, p=p)
        assert two.objective == pytest.approx(one.objective, rel=2e-8)


def test_rows_far_out_do_not_hide_the_others() -> None:
    x, y = planted(40, 3, 2)
    far = torch.cat([x, torch.full((1, 3), 1e6, dtype=torch.float64)])
    rows = torch.cat([y, torch.zeros(1, 2, dtype=torch.float64)])
    solution = solve_linear(far, rows, p=2)
    assert solution.status is Status.CONVERGED


def test_inputs_stay_as_they_are() -> None:
    x, y = planted(20, 3, 2)
    weights = torch.ones(20, dtype=torch.float64)
    copies = x.clone(), y.clone(), weights.clone()
    solve_linear(x, y, p=2, sample_weight=weights, constraint=NonNegative())
    for mine, copy in zip((x, y, weights), copies, strict=True):
        assert torch.equal(mine, copy)


def test_the_same_call_gives_the_same_bits() -> None:
    x, y = planted(50, 3, 2)
    one, two = solve_linear(x, y, p=1.5), solve_linear(x, y, p=1.5)
    assert torch.equal(one.coef, two.coef)


def test_single_precision_and_integers_are_read_exactly() -> None:
    x, y = planted(30, 3, 1)
    assert torch.equal(
        solve_linear(x.float(), y.float(), p=1).coef,
        solve_linear(x.float().double(), y.float().double(), p=1).coef,
    )
    whole = (10 * x).round()
    assert torch.equal(
        solve_linear(whole.int(), y, p=1).coef, solve_linear(whole.double(), y, p=1).coef
    )


def test_result_carries_the_gap_and_the_history() -> None:
    x, y = planted(30, 3, 2)
    result = solve_linear(x, y, p=2)
    assert result.status is Status.CONVERGED
    assert result.certificate.kind == "duality gap"
    assert result.certificate.value <= 1e-8
    assert result.certificate.rows == 30
    assert torch.equal(result.theta[:6].reshape(3, 2), result.coef)
    assert torch.equal(result.theta[6:], result.intercept)
    frame = result.history.frame()
    assert frame["gap"].iloc[-1] <= 1e-8
    assert frame["objective"].is_monotonic_decreasing


X, Y = planted(6, 2, 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"x": X[:0], "y": Y[:0]}, "at least one"),
        ({"x": X[:3]}, "same number of rows"),
        ({"x": X[0]}, "matrices"),
        ({"y": Y[:, :0]}, "target"),
        ({"x": X.numpy()}, "torch tensor"),
        ({"x": X * math.nan}, "finite"),
        ({"y": Y / 0.0}, "finite"),
        ({"p": 0.5}, "p must be"),
        ({"p": "huber"}, "p must be"),
        ({"tol": 0.0}, "tol must be > 0"),
        ({"max_iter": -1}, "max_iter"),
        ({"sample_weight": torch.ones(5)}, "one weight for each"),
        ({"sample_weight": -torch.ones(6)}, "not all zero"),
        ({"sample_weight": torch.zeros(6)}, "not all zero"),
        ({"start": (X, Y)}, "start must be"),
        ({"regularizer": NonNegative()}, "constraint="),
        ({"regularizer": Lasso(0.1, on="bias")}, "must match a parameter name"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        solve_linear(**{"x": X, "y": Y, "p": 1, **arguments})  # type: ignore[arg-type]

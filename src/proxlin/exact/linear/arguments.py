"""What `solve_linear` is given, read into float64 or refused with a sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from proxlin._checks import check_finite
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.problem.loss import Pinball, RowLoss


def read_rows(x: Tensor, y: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """x (n, m), y (n, t) and the weights (n,), all in float64 on the CPU."""
    for name, value in (("x", x), ("y", y)):
        if not isinstance(value, Tensor) or value.is_complex():
            raise InvalidInputError(
                f"{name} must be a real torch tensor; got {type(value).__name__}."
            )
    y = y[:, None] if y.dim() == 1 else y
    if x.dim() != 2 or y.dim() != 2 or len(x) != len(y) or len(x) == 0 or 0 in y.shape:
        raise InvalidInputError(
            "x and y must be matrices with the same number of rows, at least one, and y must have a"
            f" target; got shapes {tuple(x.shape)} and {tuple(y.shape)}."
        )
    x, y = x.detach().to("cpu", torch.float64), y.detach().to("cpu", torch.float64)
    check_finite("x", x)
    check_finite("y", y)
    if weights is None:
        return x, y, torch.ones(len(x), dtype=torch.float64)
    weights = torch.as_tensor(weights).detach().to("cpu", torch.float64)
    if weights.shape != (len(x),):
        raise InvalidInputError(
            f"sample_weight must hold one weight for each of the {len(x)} rows; got shape"
            f" {tuple(weights.shape)}."
        )
    check_finite("sample_weight", weights)
    if bool((weights < 0).any()) or not bool((weights > 0).any()):
        raise InvalidInputError(
            "sample_weight must be >= 0 and not all zero; got a smallest weight of"
            f" {float(weights.min())} and a largest of {float(weights.max())}."
        )
    return x, y, weights


def read_start(start: tuple[Tensor, Tensor], m: int, t: int) -> tuple[Tensor, Tensor]:
    """B (m, t) and b (t,) to begin from."""
    coef, intercept = (torch.as_tensor(part).detach().to("cpu", torch.float64) for part in start)
    if coef.shape != (m, t) or intercept.shape != (t,):
        raise InvalidInputError(
            f"start must be (coef, intercept) of shapes {(m, t)} and {(t,)}; got"
            f" {tuple(coef.shape)} and {tuple(intercept.shape)}."
        )
    return check_finite("start[0]", coef), check_finite("start[1]", intercept)


def read_bound(
    at_least: Tensor | None,
    at_most: Tensor | None,
    loss: RowLoss | Pinball,
    y: Tensor,
    *,
    fit_intercept: bool,
) -> tuple[Tensor, int] | None:
    """The bound on fitted values, and on which side of it they must be."""
    if at_least is None and at_most is None:
        return None
    if not isinstance(loss, Pinball) or not fit_intercept or None not in (at_least, at_most):
        raise CombinationError(
            "at_least or at_most, one of them, needs loss=Pinball(...) and an intercept, which"
            " lifts the fit to where the bound is met."
        )
    side = 1 if at_most is None else -1
    values = torch.as_tensor(at_least if at_most is None else at_most).to("cpu", torch.float64)
    values = values[:, None] if values.dim() == 1 else values
    if values.shape != y.shape:
        raise InvalidInputError(
            f"at_least and at_most must have the shape of y, {tuple(y.shape)}; got"
            f" {tuple(values.shape)}."
        )
    return check_finite("at_least" if side > 0 else "at_most", values), side

"""Nets of RobustRegressor: a module on scaled data, its training and its predictions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proxlin.errors import InvalidInputError
from proxlin.estimators.estimator_settings import made_by, seeded
from proxlin.estimators.tables import Array, as_array, as_tensor
from proxlin.models import mlp_regressor
from proxlin.problem import Problem
from proxlin.problem.loss import Exponent, Pinball
from proxlin.terms import Constraint, Regularizer

ModuleFactory = Callable[[int, int], nn.Module]

_CHUNK = 65_536  # rows of one prediction
_LEAST_STEPS, _MOST_STEPS = 500, 3000
_ROUNDS = 25  # visits to each row, between these bounds
_WHOLE_STEPS = 150  # where every step sees all rows


def build_module(
    factory: ModuleFactory | None, hidden: Sequence[int], n_in: int, n_out: int, seed: int
) -> nn.Module:
    """The user's module for these widths, or the MLP, initialised from the seed."""
    with seeded(seed):
        if factory is None:
            return mlp_regressor(n_in, n_out, hidden=hidden)
        module = made_by(factory, n_in, n_out)
    if not isinstance(module, nn.Module):
        raise InvalidInputError(
            f"module(n_in, n_out) must return a torch.nn.Module; got {type(module).__name__}."
        )
    # A factory may hand out the same module every time; what is learned stays in the estimator.
    return copy.deepcopy(module)


def regression_problem(
    module: nn.Module,
    x: Array,
    y: Array,
    weights: NDArray[np.float64] | None,
    *,
    p: Exponent,
    loss: Pinball | None = None,
    regularizer: Regularizer | None,
    constraint: Constraint | None,
) -> Problem:
    """min (1/sum w) sum_i w_i ||module(x_i) - y_i||_p + g; rows of weight zero are left out.

    `loss` takes the place of the norm. Weights (n, targets) are those of single residuals.
    """
    terms: dict[str, Any] = {"loss": loss, "regularizer": regularizer, "constraint": constraint}
    first = next((t for t in module.parameters() if t.requires_grad), torch.empty(0))
    if weights is not None:
        weights = weights.reshape(len(weights), -1)
        used = (weights > 0).any(axis=1)
        x, y, weights = x[used], y[used], weights[used]
    data = [as_tensor(part, dtype=first.dtype, device=first.device) for part in (x, y)]
    _check_width(module, data[0], y.shape[1])
    if weights is None:
        return Problem(module, tuple(data), p, **terms)
    share = weights / weights.mean()
    # ||c r||_p = c ||r||_p, and ||c r||_2^2 = c^2 ||r||_2^2.
    squared = p == "mse" and loss is None
    factor = as_tensor(np.sqrt(share) if squared else share, dtype=first.dtype)
    data.append(factor.to(first.device))
    return Problem(module, tuple(data), p, residual=_weighted, **terms)


def default_steps(problem: Problem, batch: int) -> int:
    """So many steps that every row is seen some 25 times, between 500 and 3,000.

    Where one batch holds all rows, each step is an exact Newton step, and 150 are enough.
    """
    if batch >= problem.n_rows:
        return _WHOLE_STEPS
    rounds = _ROUNDS * problem.n_rows // max(1, batch)
    return min(max(rounds, _LEAST_STEPS), _MOST_STEPS)


def predict_rows(module: nn.Module, x: Array, device: torch.device) -> Array:
    """Module(x), a bounded number of rows at a time, (n, targets) float64."""
    first = next(module.parameters())
    net = module if first.device == device else copy.deepcopy(module).to(device)
    parts = []
    with torch.no_grad():
        for start in range(0, len(x), _CHUNK):
            rows = as_tensor(x[start : start + _CHUNK], dtype=first.dtype, device=device)
            parts.append(as_array(net(rows)))
    return np.concatenate(parts)


def _weighted(module: nn.Module, x: Tensor, y: Tensor, factor: Tensor) -> Tensor:
    weighted: Tensor = factor * (module(x) - y)
    return weighted


def _check_width(module: nn.Module, x: Tensor, targets: int) -> None:
    try:
        with torch.no_grad():
            output = copy.deepcopy(module).eval()(x[:2])
    except RuntimeError as cause:
        raise InvalidInputError(
            f"module must take rows of {x.shape[1]} features; it refused them:"
            f" {str(cause).splitlines()[0]}."
        ) from cause
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if shape != (len(x[:2]), targets):
        raise InvalidInputError(
            f"module must put out one row of {targets} targets a sample; for {len(x[:2])} rows it"
            f" gave {shape}. Build its last layer from the second argument of the factory."
        )

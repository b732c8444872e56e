"""solve_linear: linear models to proven optimality, for any norm, regulariser and constraint."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from proxlin._checks import check_positive
from proxlin.exact.linear.arguments import read_bound, read_rows, read_start
from proxlin.exact.linear.coordinates import Coordinates, choose_coordinates
from proxlin.exact.linear.known_sides import solve_by_sides, worth_it
from proxlin.exact.linear.linear_result import OBJECTIVE, LinearResult
from proxlin.exact.linear.losses import TwoSlopes, loss_for
from proxlin.exact.linear.multipliers import Multipliers, typical_size
from proxlin.exact.linear.null_model import null_model_gap
from proxlin.exact.linear.objective import best_of
from proxlin.exact.linear.penalties import is_separable, scaled_penalty
from proxlin.exact.linear.vertex import solve_by_vertex
from proxlin.methods.contract import Budget, Status
from proxlin.problem.loss import Pinball, RowLoss
from proxlin.problem.parallel import Communicator
from proxlin.problem.rows import TensorRows
from proxlin.problem.shards import Everywhere
from proxlin.run.loop import Loop, check_callbacks
from proxlin.run.result import Callback, Certificate
from proxlin.terms import Constraint, Regularizer
from proxlin.terms.layout import Layout
from proxlin.terms.penalty import Penalty

_VERTEX_ROWS, _VERTEX_COLUMNS = 2000, 20  # from and up to which vertices are faster


@torch.no_grad()
def solve_linear(
    x: Tensor,
    y: Tensor,
    *,
    p: float | Literal["mse"] = 1.0,
    loss: Pinball | None = None,
    regularizer: Regularizer | None = None,
    constraint: Constraint | None = None,
    fit_intercept: bool = True,
    sample_weight: Tensor | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    start: tuple[Tensor, Tensor] | None = None,
    callbacks: Iterable[Callback] = (),
    at_least: Tensor | None = None,
    at_most: Tensor | None = None,
) -> LinearResult:
    """argmin_{B in C, b}  (1/sum w) sum_i w_i ||x_i B + b - y_i||_p + g(B), proven to `tol`.

    Parameters
    ----------
    x, y
        Features (n, m) and targets (n, t) or (n,); the norm couples the targets.
    p
        A number >= 1, inf, or "mse" for the squared Euclidean norm.
    loss
        `Pinball(tau)` instead of the norm, for quantiles.
    regularizer, constraint
        g and C act on B (m, t), a parameter named "coef" whose rows are features; the intercept is
        not penalised.
    sample_weight
        w (n,) >= 0; rows of weight 0 are left out.
    tol
        Gap to the optimum, relative to the objective, that counts as converged; for fits that are
        all but exact, relative to 1e-4 of the loss of a constant.
    max_iter, max_seconds
        Budgets; an iteration is a Newton step.
    start
        A point (B, b) to start from.
    callbacks
        Called with a `Progress` for every gap; Ctrl-C returns the best point so far.
    at_least, at_most
        Bounds (n, t) on the fitted values, one of the two, for quantiles with an intercept.

    The status is converged only if a dual point proves it, up to the rounding of the objective,
    which matters where rows are some 1e8 times as large as the others. Directions of x whose
    singular value is below 1e-12 of the largest are ignored, in the proof too. The returned point
    is never worse than `start`, nor than the median of the targets (for "mse" the mean) without
    features. Among several optimal points it is usually one in the middle of the set, for quantiles
    of many rows a vertex. Weak l1 and group penalties on many more features than rows are slow and
    at times end without a proof. Memory: the data in float64 twice, plus about ten residuals
    (n, t); quantiles of one target and many rows hold the data once (see `known_sides`).

    >>> x = torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> y = torch.tensor([1.0, 3.0, 5.0, 7.0, 1e6])
    >>> line = solve_linear(x, y, p=1)
    >>> round(float(line.coef), 6), round(float(line.intercept), 6)
    (2.0, 1.0)
    """
    loop = Loop(Budget(max_seconds, max_iter), check_callbacks(callbacks))
    tol = check_positive("tol", tol)
    row_loss = RowLoss(p) if loss is None else loss
    x, y, weights = read_rows(x, y, sample_weight)
    m, t = x.shape[1], y.shape[1]
    if max_iter is None and not loop.callbacks and at_least is at_most is None:
        options = {"regularizer": regularizer, "constraint": constraint, "tol": tol, "start": start}
        limits = {"fit_intercept": fit_intercept, "max_seconds": max_seconds}
        quick = _many_rows(x, y, weights, loss, options | limits)
        if quick is not None:
            return quick
    terms = Penalty(Layout(("coef",), ((m, t),)), regularizer, constraint)
    scaled_loss = loss_for(row_loss, t)
    joint = not (scaled_loss.separable and is_separable(terms))
    free = regularizer is None and constraint is None
    total, used = float(weights.sum()), weights > 0
    kept = (x, y, weights) if bool(used.all()) else (x[used], y[used], weights[used])
    where = choose_coordinates(
        kept[0],
        kept[1],
        kept[2] / total,
        intercept=fit_intercept,
        whiten=free,
        joint=joint,
        homogeneous=row_loss.p != "mse",
    )
    bound = read_bound(at_least, at_most, row_loss, y, fit_intercept=fit_intercept)
    if bound is not None:
        assert isinstance(scaled_loss, TwoSlopes)
        bound = (bound[0][used], bound[1])
        offsets = (bound[0] - kept[1]) / where.scale / where.row_sizes[:, None]
        scaled_loss = replace(scaled_loss, bound=offsets, side=bound[1])
    unit = where.scale.square() if row_loss.p == "mse" else where.scale
    penalty = scaled_penalty(terms, where, unit)
    if start is not None:
        first = where.rescale(*read_start(start, m, t))
    else:
        first = _least_squares(where) if free else x.new_zeros(where.design.shape[1], t)
    solver = Multipliers(where, scaled_loss, penalty, first, unit=unit, tol=tol)
    best = solver.best

    def work() -> Status:
        null = null_model_gap(where, scaled_loss, penalty, unit=unit, tol=tol, budget=loop.budget)
        if null is not None:
            best.update(null)
        return solver.run(loop)

    status = loop.guarded(work)
    points = [where.unscale(best.answer), (x.new_zeros(m, t), None)]
    if start is not None:
        points.append(read_start(start, m, t))
    coef, intercept, objective, rounding = best_of(
        points, kept, terms, row_loss, fit_intercept=fit_intercept, bound=bound
    )
    units = unit[:1] if joint else unit
    base, gap = float(units @ best.base), max(0.0, objective - float(units @ best.bound))
    if bool(best.owned.any()):
        gap = float(units @ best.gaps)
    relative = gap / base if base > 0 else 0.0
    return LinearResult(
        status=_status(status, objective, proven=gap <= tol * base + rounding),
        objective=objective,
        certificate=Certificate("duality gap", relative, OBJECTIVE, len(where.weights)),
        seconds=loop.budget.seconds,
        iterations=loop.budget.iteration,
        history=loop.history,
        theta=torch.cat([coef.reshape(-1), intercept]),
        remarks=tuple(loop.remarks),
        targets=t,
    )


def _status(status: Status, objective: float, *, proven: bool) -> Status:
    """Converged only if the objective, as a user would compute it, is proven."""
    if not math.isfinite(objective):
        return Status.NON_FINITE
    if proven:
        return Status.CONVERGED
    return Status.NO_DECREASE if status is Status.CONVERGED else status


def _many_rows(
    x: Tensor, y: Tensor, weights: Tensor, loss: Pinball | None, options: dict[str, Any]
) -> LinearResult | None:
    """A quantile of many rows by what is faster there; None if nothing is."""
    if loss is None or y.shape[1] > 1:
        return None
    tau = float(loss.levels(y))
    if worth_it(weights, x.shape[1]):
        everything = Everywhere(TensorRows((x, y, weights)), Communicator())
        return solve_by_sides(everything, tau, solve_linear, **options)
    free = options["regularizer"] is None and options["constraint"] is None
    if not free or len(x) < _VERTEX_ROWS or not 0 < x.shape[1] <= _VERTEX_COLUMNS:
        return None
    wanted = {name: options[name] for name in ("fit_intercept", "start", "tol")}
    return solve_by_vertex((x, y, weights), tau, **wanted)


def _least_squares(where: Coordinates) -> Tensor:
    """Least squares, rows far out counted less; 0 if half of the rows fit better without."""
    weights = (where.weights * where.damping)[:, None]
    theta = where.solve(where.design.T @ (weights * where.target))
    residual = where.design @ theta - where.target
    return theta if typical_size(residual) <= typical_size(where.target) else 0.0 * theta

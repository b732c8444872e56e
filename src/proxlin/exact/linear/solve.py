"""solve_linear: linear models to proven optimality, for any norm, regulariser and constraint."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from proxlin._checks import check_finite, check_positive
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.exact.linear.coordinates import Coordinates, choose_coordinates, chunks
from proxlin.exact.linear.known_sides import solve_by_sides, worth_it
from proxlin.exact.linear.losses import Quantile, loss_for
from proxlin.exact.linear.multipliers import OBJECTIVE, Multipliers, typical_size
from proxlin.exact.linear.null_model import null_model_gap, weighted_center
from proxlin.exact.linear.penalties import is_separable, scaled_penalty
from proxlin.exact.linear.vertex import vertex_quantile
from proxlin.methods.contract import Budget, Status
from proxlin.problem.loss import Pinball, RowLoss
from proxlin.problem.parallel import Serial
from proxlin.problem.rows import TensorRows
from proxlin.problem.shards import Everywhere
from proxlin.run.loop import Loop, check_callbacks
from proxlin.run.result import Callback, Certificate, History, Result
from proxlin.terms import Constraint, Regularizer
from proxlin.terms.layout import Layout
from proxlin.terms.penalty import Penalty

_VERTEX_ROWS, _VERTEX_COLUMNS = 2000, 20  # from and up to which vertices are faster
_ROUNDING = 4.0 * torch.finfo(torch.float64).eps  # of an objective


@dataclass(frozen=True, kw_only=True)
class LinearResult(Result):
    """The result of a linear model: theta is B (m, t) row by row, then the intercept (t,)."""

    targets: int

    @property
    def coef(self) -> Tensor:
        """B (m, t) in float64."""
        return self.theta[: -self.targets].reshape(-1, self.targets)

    @property
    def intercept(self) -> Tensor:
        """b (t,) in float64; zeros without an intercept."""
        return self.theta[-self.targets :]


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

    x is (n, m), y (n, t) or (n,); the norm couples the targets. `p` is a number >= 1, inf, or "mse"
    for the squared Euclidean norm; `loss=Pinball(tau)` takes the place of the norm for quantiles,
    whose fitted values may be kept at or above `at_least`, or at or below `at_most` (n, t), both
    with an intercept. Terms act on B (m, t), a parameter named "coef" whose rows are
    features; the intercept is never charged for. The status is converged only if a dual point
    proves that the objective is within `tol` of the optimum, relative to it (for fits that are
    all but exact: to 1e-4 of the loss of a constant), or within what rounding alone makes of the
    objective, which counts only where rows are some 1e8 times as large as the others. Directions
    of x whose singular value is below 1e-12 of the largest count as none, in the proof too. The
    point is never worse than `start`, or than no features and the median (for "mse" the mean) of
    the targets. `max_iter` counts Newton steps, `start` is a point (B, b) to begin from,
    `callbacks` are told of every gap, and Ctrl-C returns the best point so far. Where several
    points are optimal, one of them is returned, usually from the middle of the set, for quantiles
    of many rows a vertex. Slow, at times without a proof, are weak l1 and group penalties on many
    more features than rows.
    Memory: the data in float64 twice, plus about ten residuals (n, t); quantiles of one target and
    many rows hold the data once (`proxlin.exact.linear.known_sides`).

    >>> x = torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> y = torch.tensor([1.0, 3.0, 5.0, 7.0, 1e6])
    >>> line = solve_linear(x, y, p=1)
    >>> round(float(line.coef), 6), round(float(line.intercept), 6)
    (2.0, 1.0)
    """
    loop = Loop(Budget(max_seconds, max_iter), check_callbacks(callbacks))
    tol = check_positive("tol", tol)
    row_loss = RowLoss(p) if loss is None else loss
    x, y, weights = _read(x, y, sample_weight)
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
    bound = _read_bound(at_least, at_most, row_loss, y, fit_intercept=fit_intercept)
    if bound is not None:
        assert isinstance(scaled_loss, Quantile)
        bound = (bound[0][used], bound[1])
        offsets = (bound[0] - kept[1]) / where.scale / where.row_sizes[:, None]
        scaled_loss = replace(scaled_loss, bound=offsets, side=bound[1])
    unit = where.scale.square() if row_loss.p == "mse" else where.scale
    penalty = scaled_penalty(terms, where, unit)
    if start is not None:
        first = where.rescale(*_read_start(start, m, t))
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
        points.append(_read_start(start, m, t))
    coef, intercept, objective, rounding = _best_of(
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
        everything = Everywhere(TensorRows((x, y, weights)), Serial())
        return solve_by_sides(everything, tau, solve_linear, **options)
    free = options["regularizer"] is None and options["constraint"] is None
    if not free or len(x) < _VERTEX_ROWS or not 0 < x.shape[1] <= _VERTEX_COLUMNS:
        return None
    began, used = time.perf_counter(), weights > 0
    rows, targets = (x, y) if bool(used.all()) else (x[used], y[used])
    centre = rows.median(0).values * float(options["fit_intercept"])
    size = (rows - centre).abs().median(0).values
    size = torch.where(size > 0, size, 1.0)
    ones = [x.new_ones(len(rows), 1)] if options["fit_intercept"] else []
    design = torch.cat([(rows - centre) / size, *ones], 1).numpy()
    begin = None
    if options["start"] is not None:
        coef, offset = _read_start(options["start"], x.shape[1], 1)
        begin = torch.cat([coef[:, 0] * size, *([offset + centre @ coef] if ones else [])]).numpy()
    found = vertex_quantile(design, targets[:, 0].numpy(), weights[used].numpy(), tau, begin)
    if found is None:
        return None
    theta = torch.from_numpy(found[0])
    coef = (theta[: x.shape[1]] / size)[:, None]
    offset = theta[x.shape[1] :] - centre @ coef if ones else x.new_zeros(1)
    objective, rounding = _objective((x, y, weights), coef, offset, loss)
    gap = found[1] / min(tau, 1.0 - tau) + rounding / max(objective, 1e-300)
    if not gap <= options["tol"]:
        return None
    return LinearResult(
        status=Status.CONVERGED,
        objective=objective,
        certificate=Certificate("duality gap", gap, OBJECTIVE, len(rows)),
        seconds=time.perf_counter() - began,
        iterations=found[2],
        history=History([{"iteration": found[2], "seconds": time.perf_counter() - began,
                          "objective": objective, "gap": gap}]),
        theta=torch.cat([coef[:, 0], offset]),
        targets=1,
    )  # fmt: skip


def _least_squares(where: Coordinates) -> Tensor:
    """Least squares, rows far out counted less; 0 if half of the rows fit better without."""
    weights = (where.weights * where.damping)[:, None]
    theta = where.solve(where.design.T @ (weights * where.target))
    residual = where.design @ theta - where.target
    return theta if typical_size(residual) <= typical_size(where.target) else 0.0 * theta


def _best_of(
    points: list[tuple[Tensor, Tensor | None]],
    data: tuple[Tensor, Tensor, Tensor],
    terms: Penalty,
    loss: RowLoss | Pinball,
    *,
    fit_intercept: bool,
    bound: tuple[Tensor, int] | None,
) -> tuple[Tensor, Tensor, float, float]:
    """B, b, objective and its rounding at the best of these points, as a user would compute it.

    In scaled units a row far out may hide how bad a point is. Points are moved into C first, and
    to where the rows meet the bound; an intercept that is None is that of the model without
    features.
    """
    x, y, weights = data
    candidates = []
    for coef, given in points:
        moved = terms.project(coef.reshape(-1)).reshape(coef.shape)
        if not fit_intercept:
            intercept = y.new_zeros(y.shape[1])
        elif given is None:
            intercept = weighted_center(y - x @ moved, weights, loss)
        else:
            intercept = given
        if bound is not None:
            intercept = _lifted(x, moved, intercept, *bound)
        value, rounding = _objective(data, moved, intercept, loss)
        value += float(terms.value(moved.reshape(-1)))
        candidates.append((moved, intercept, value, rounding))
    best = candidates[0]
    for candidate in candidates[1:]:
        lower = best[2] - candidate[2]
        # Where outliers own the objective a small difference is rounding: the proof is the first's.
        if lower > _ROUNDING * abs(best[2]) or not math.isfinite(best[2]):
            best = candidate
    return best


def _objective(
    data: tuple[Tensor, Tensor, Tensor], coef: Tensor, intercept: Tensor, loss: RowLoss | Pinball
) -> tuple[float, float]:
    """The mean loss as a user would compute it, and how far rounding alone may move it."""
    x, y, weights = data
    total, rounding = 0.0, 0.0
    typical = math.inf if loss.p == "mse" else (y - y.median(0).values).abs().median(0).values
    for rows in chunks(len(x), sum(coef.shape)):
        residual = x[rows] @ coef + intercept - y[rows]
        total += float(weights[rows] @ loss(residual))
        size = x[rows].abs() @ coef.abs() + intercept.abs()
        # The slope of a target far out does not feel how it is rounded.
        size = size + torch.minimum(y[rows].abs(), size + typical)
        bent = size if loss.p != "mse" else size * residual.abs() * 2
        rounding += float(weights[rows] @ bent.sum(1))
    scale = float(weights.sum())
    return total / scale, torch.finfo(torch.float64).eps * rounding / scale


def _lifted(x: Tensor, coef: Tensor, intercept: Tensor, bound: Tensor, side: int) -> Tensor:
    """The intercept nearest to this one with which all rows meet the bound, rounding included."""
    eps = torch.finfo(torch.float64).eps
    missing = torch.zeros_like(intercept)
    for rows in chunks(len(x), sum(coef.shape)):
        fitted = x[rows] @ coef + intercept
        size = x[rows].abs() @ coef.abs() + intercept.abs() + bound[rows].abs()
        short = side * (bound[rows] - fitted) + (x.shape[1] + 4) * eps * size
        missing = torch.maximum(missing, short.amax(0))
    return intercept + side * missing


def _read_bound(
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


def _read(x: Tensor, y: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
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


def _read_start(start: tuple[Tensor, Tensor], m: int, t: int) -> tuple[Tensor, Tensor]:
    coef, intercept = (torch.as_tensor(part).detach().to("cpu", torch.float64) for part in start)
    if coef.shape != (m, t) or intercept.shape != (t,):
        raise InvalidInputError(
            f"start must be (coef, intercept) of shapes {(m, t)} and {(t,)}; got"
            f" {tuple(coef.shape)} and {tuple(intercept.shape)}."
        )
    return check_finite("start[0]", coef), check_finite("start[1]", intercept)

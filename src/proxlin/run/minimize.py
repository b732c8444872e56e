"""minimize: the one entry point."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from proxlin._checks import check_count, check_flag, check_positive, check_seed, shown
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.methods import Method, method_named
from proxlin.methods.contract import Budget, Status
from proxlin.methods.subproblem import ADMM
from proxlin.methods.subproblem.convex_model import ConvexModel
from proxlin.methods.subproblem.metric import Euclidean
from proxlin.problem import Problem
from proxlin.problem.parallel import check_same_call, clock_of, interrupted_together
from proxlin.problem.rows import evenly_spread
from proxlin.run.callbacks import ProgressLine
from proxlin.run.checkpoint import Checkpoints, as_checkpoints, owner_of, writer_for
from proxlin.run.held_out import set_aside
from proxlin.run.loop import check_callbacks
from proxlin.run.method_run import GRADIENT, MethodRun
from proxlin.run.result import Callback, Certificate, Result

_SECONDS = 60.0  # where nothing else is said
_MODEL_SOLVER = ADMM(max_steps=1000, tolerance=1e-4)
_POLISHED = (Status.TIME, Status.ITERATIONS, Status.NO_DECREASE)  # ends that leave more to do


def minimize(
    problem: Problem,
    method: str | Method = "probed",
    *,
    max_seconds: float | Literal["auto"] | None = "auto",
    max_iter: int | None = None,
    tol: float | None = None,
    seed: int = 0,
    callbacks: Iterable[Callback] = (),
    keep_start: bool = False,
    polish: int = 0,
    stationarity_rows: int | None = None,
    held_out: Any = None,
    reweight: bool = True,
    checkpoint: str | os.PathLike[str] | Checkpoints | None = None,
    progress: bool = False,
) -> Result:
    """Minimise the problem and write the best parameters found into its module.

    Parameters
    ----------
    method
        Settings such as `Adam(learning_rate=1e-2)`, or the name of a method with its defaults.
    max_seconds, max_iter
        Budgets; the run ends when the first is used up. "auto" means 60 seconds, or no time limit
        if `max_iter` is given: with the same seed and only `max_iter`, results are bit-identical.
        With `max_seconds=None` and no `max_iter` a run ends when it stops making progress. Where a
        pass over all rows would take more than a tenth of the time, the objective is measured on
        a sample of them, which `result.remarks` says; `problem.objective(result.theta)` takes all.
    tol
        Stop as converged when the stationarity h ||theta - minimiser of the model at theta||, in
        the units of a gradient of the loss, is at most this; needs a method that measures it.
    callbacks
        Called with a `Progress` after each evaluation; returning True stops the run.
    keep_start
        Keep the starting point in `result.start`.
    polish
        Number of `"mbo-admm"` steps on all rows from the best point, on top of the budget. Each
        solves its convex model exactly, lowers the full objective and measures the stationarity.
    stationarity_rows
        Number of evenly spread rows on which to measure the stationarity of the returned point,
        for methods that do not measure it themselves; see `result.certificate`.
    held_out
        Validation rows in the form of the problem's data, or the fraction of its rows to hold out,
        such as 0.1. The point that is best for most of them is returned, and the run ends after
        three times the steps that led to it. For nets large enough to memorise outliers. The
        objective is then that of the training rows.
    reweight
        With held-out rows: whether training rows lose their weight as their loss goes beyond three
        medians of the held-out losses, as they are at the time. False keeps the plain norm, as
        methods that solve convex models, "mse" and quantiles always do.
    checkpoint
        Folder for checkpoints, written every minute or as `Checkpoints(folder, ...)` says. The
        same call resumes from them; the result of a finished run is returned again unless the
        budget that ended it was raised.
    progress
        Show the objective and the time left on one line of standard error (rank 0 only).

    An autocast around the call is off inside; a module may have one of its own.

    Ctrl-C ends the run and returns the best point so far; before the first evaluation it raises.

    Under torchrun all processes make the same call and get the same result. Budgets, seed and
    starting point are those of rank 0; callbacks run on every process.
    """
    if not isinstance(problem, Problem):
        raise InvalidInputError(
            f"problem must be a Problem; got {type(problem).__name__}. Make one of module and data:"
            " minimize(Problem(module, (x, y)))."
        )
    settings = method_named(method) if isinstance(method, str) else _check_method(method)
    seed = check_seed("seed", seed)
    if tol is not None:
        check_positive("tol", tol)
        if not settings.measures_stationarity:
            raise InvalidInputError(
                f"tol needs a method that measures stationarity; {type(settings).__name__} does"
                ' not. Use method="mbo-admm" or "mbo-sadm", or a budget instead.'
            )
    check_flag("keep_start", keep_start)
    check_count("polish", polish, minimum=0)
    if stationarity_rows is not None:
        check_count("stationarity_rows", stationarity_rows)
    if problem.p == "mse" and (polish or stationarity_rows is not None):
        raise InvalidInputError(
            'polish and stationarity_rows need a convex model, which keeps a norm; got p="mse".'
            " Use p=2, or leave them out."
        )
    if held_out is not None and polish:
        raise CombinationError(
            "polish lowers the objective from the best point, which held_out keeps from being the"
            " goal; give one of the two."
        )
    check_flag("reweight", reweight)
    line = ProgressLine() if check_flag("progress", progress) else None
    functions = check_callbacks(callbacks)
    if line is not None and problem.communicator.leads:
        functions = (*functions, line)
    check_same_call(problem.communicator, _described(problem, settings, held_out, checkpoint))
    problem.refresh()
    limit, max_iter, tol, seed, polish, stationarity_rows = problem.communicator.first(
        (_seconds(max_seconds, max_iter), max_iter, tol, seed, polish, stationarity_rows)
    )
    clock = clock_of(problem.communicator)
    judge = None
    if held_out is not None:
        norm = problem.p not in ("mse", "pinball") and not settings.measures_stationarity
        problem, judge = set_aside(problem, held_out, seed, reweight=reweight and norm)
    writer = None
    if checkpoint is not None:
        owner = owner_of(problem, settings, seed, judge)
        writer = writer_for(as_checkpoints(checkpoint), owner, problem.communicator)
    budget = Budget(limit, max_iter, clock)
    run = MethodRun(
        problem, settings, budget, tol, functions, held_out=judge, writer=writer, sampled=not polish
    )
    with (
        torch.autocast(problem.device.type, enabled=False),
        _flushed_denormals(),
        interrupted_together(clock),
    ):
        with writer or nullcontext():
            result = run.carry_out(torch.Generator().manual_seed(seed), keep_start)
        if polish and result.status in _POLISHED:
            exact = MethodRun(
                problem, method_named("mbo-admm"), Budget(None, polish, clock), tol, functions
            )
            finer = exact.carry_out(torch.Generator().manual_seed(seed), keep_start=False)
            result = result.continued(finer)
        if stationarity_rows is not None and result.certificate is None:
            certificate = sampled_stationarity(problem, result.theta, stationarity_rows)
            result = replace(result, certificate=certificate)
    if line is not None and problem.communicator.leads:
        line.close(str(result))
    return result


def sampled_stationarity(problem: Problem, theta: Tensor, rows: int) -> Certificate | None:
    """h ||theta - argmin of the model at theta|| with h = 1, on `rows` rows evenly spread.

    None if the model was not solved. On a sample this is a measure of the sample's
    objective: it stays above zero at a minimiser of the full one, by the scatter of the rows.
    """
    index = evenly_spread(problem.n_rows, rows)
    model = ConvexModel(problem.restricted(index), theta, Euclidean())
    solved = _MODEL_SOLVER.solve(model)
    if not solved.converged:
        return None
    value = float(torch.linalg.vector_norm(solved.theta - theta))
    return Certificate("stationarity", value, GRADIENT, len(index))


def _seconds(limit: float | str | None, max_iter: int | None) -> float | None:
    """The limit of time; by default there is one only where there is no other."""
    if limit == "auto":
        return _SECONDS if max_iter is None else None
    if limit == math.inf or isinstance(limit, str):
        raise InvalidInputError(
            f'max_seconds must be a number > 0, "auto" or None for no limit; got {shown(limit)}.'
        )
    return limit


def _described(problem: Problem, method: Method, held_out: Any, checkpoint: Any) -> str:
    """What all processes must have in common."""
    shapes = dict(zip(problem.layout.names, problem.layout.shapes, strict=True))
    rows = "no held-out rows" if held_out is None else "held-out rows"
    rows = f"{held_out} of the rows held out" if isinstance(held_out, float) else rows
    keeps = "no checkpoint" if checkpoint is None else "a checkpoint"
    parts = (repr(problem.loss), problem.penalty.describe(), repr(method), rows, keeps)
    return f"{', '.join(parts)}, parameters {shapes}"


def _check_method(method: Any) -> Method:
    if isinstance(method, type) or not hasattr(method, "candidates"):
        hint = ""
        if isinstance(method, type) and hasattr(method, "candidates"):
            hint = f" Call it: {method.__name__}()."
        elif hasattr(method, "solve"):
            hint = " Wrap a sub-problem solver as MBO(solver=...)."
        raise InvalidInputError(
            "method must be a name or settings such as Probed() or MBO(solver=SADM());"
            f" got {shown(method)}.{hint}"
        )
    settings: Method = method
    return settings


@contextmanager
def _flushed_denormals() -> Iterator[None]:
    """Treat denormal numbers as zero: a collapsed net fills its activations with them."""
    tiny = torch.full((1,), 1e-40)
    was_on = float(tiny * 1.0) == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(was_on)

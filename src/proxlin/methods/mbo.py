"""MBO: minimise the convex model at the present point, then go as far as Armijo allows (Alg. 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from proxlin._checks import check_count
from proxlin.budget import Budget
from proxlin.errors import InvalidInputError
from proxlin.methods.base import Step
from proxlin.metric import Euclidean, Metric
from proxlin.model import ConvexModel
from proxlin.problem import Problem
from proxlin.result import Status
from proxlin.search import Armijo
from proxlin.subproblem import SADM, SubproblemSolver

_PARTS = (
    ("solver", "solve", "SADM(), ADMM() or Subgradient()"),
    ("metric", "distance", "Euclidean() or Diagonal(weights)"),
    ("search", "search", "Armijo()"),
)


@dataclass
class MBOState:
    """Memory of an MBO run."""

    theta: Tensor  # (d,) theta^k, always in C
    objective: float  # full objective at theta
    generator: torch.Generator
    iteration: int = 0  # k


@dataclass(frozen=True, kw_only=True)
class MBO:
    """theta^{k+1} = (1 - eta) theta^k + eta * argmin of the model at theta^k (Alg. 1).

    Only steps that the Armijo rule accepts on the full objective are taken; a search that accepts
    none ends the run. `decrease_rows` is the number of rows on which the promised decrease Delta is
    computed, None for all of them; the history records how many were used.
    """

    solver: SubproblemSolver = field(default_factory=SADM)
    metric: Metric = field(default_factory=Euclidean)
    search: Armijo = field(default_factory=Armijo)
    decrease_rows: int | None = 4096
    max_bytes: int = 2**30
    measures_stationarity: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, needed, example in _PARTS:
            part = getattr(self, name)
            if isinstance(part, type) or not hasattr(part, needed):
                raise InvalidInputError(f"MBO({name}=...) must be such as {example}; got {part!r}.")
        if self.decrease_rows is not None:
            check_count("MBO(decrease_rows=...)", self.decrease_rows)
        check_count("MBO(max_bytes=...)", self.max_bytes)

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> MBOState:
        """Begin at theta."""
        ConvexModel(problem, theta, self.metric)  # refuses a loss without a convex model at once
        return MBOState(theta, problem.objective(theta), generator)

    def step(self, problem: Problem, state: MBOState, budget: Budget) -> Step:
        """Solve the model, search on the segment towards its minimiser."""
        model = ConvexModel(problem, state.theta, self.metric, max_bytes=self.max_bytes)
        inner = self.solver.solve(
            model, iteration=state.iteration, generator=state.generator, deadline=budget
        )
        target = problem.penalty.project(inner.theta)
        index = self._decrease_index(model, state.generator)
        decrease = model.decrease(target, index)
        move = model.metric.weights(target) * (target - state.theta)
        details = {
            "decrease": decrease,
            "decrease_rows": float(model.n_rows if index is None else len(index)),
            "inner_steps": float(inner.steps),
        }
        state.iteration += 1
        if not math.isfinite(decrease):
            return Step(status=Status.NON_FINITE, remarks=inner.remarks)
        stationarity = float(torch.linalg.vector_norm(move))
        if not decrease < 0:
            status = None if budget.expired() else Status.NO_DECREASE
            return Step(state.objective, stationarity, status, details, inner.remarks)
        found = self.search.search(
            problem.objective, state.theta, target, state.objective, decrease
        )
        details |= {"step": found.step if found.accepted else 0.0, "trials": float(found.trials)}
        state.theta, state.objective = found.theta, found.objective
        status = None if found.accepted else Status.NO_DECREASE
        return Step(found.objective, stationarity, status, details, inner.remarks)

    def candidates(self, state: MBOState) -> list[Tensor]:
        """The present point, which is also the best."""
        return [state.theta]

    def _decrease_index(self, model: ConvexModel, generator: torch.Generator) -> Tensor | None:
        if self.decrease_rows is None or self.decrease_rows >= model.n_rows:
            return None
        return torch.randperm(model.n_rows, generator=generator)[: self.decrease_rows]

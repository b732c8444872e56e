"""MBO: minimise the convex model at the present point, then go as far as Armijo allows (Alg. 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from proxlin._checks import check_count, shown
from proxlin.errors import CombinationError, InvalidInputError, UnsupportedModuleError
from proxlin.methods.contract import Budget, Status, Step
from proxlin.methods.search import Armijo
from proxlin.methods.subproblem import ADMM, SADM, Subgradient, SubproblemSolver
from proxlin.methods.subproblem.bregman import Bregman, force_of
from proxlin.methods.subproblem.convex_model import ConvexModel
from proxlin.methods.subproblem.metric import Euclidean, Metric
from proxlin.problem import Problem

_TIGHTER = 14  # iterations that an answer not taken counts for: 0.95^14 is about a half
_PARTS = (
    ("solver", "solve", "SADM(), ADMM() or Subgradient()"),
    ("search", "search", "Armijo()"),
)


@dataclass
class MBOState:
    """Memory of an MBO run."""

    theta: Tensor  # (d,) theta^k, always in C
    objective: float  # full objective at theta
    generator: torch.Generator
    iteration: int = 0  # k, from which the solver takes its accuracy
    refused: int = 0  # answers of the solver in a row that were not taken


@dataclass(frozen=True, kw_only=True)
class MBO:
    """theta^{k+1} = (1 - eta) theta^k + eta * argmin of the model at theta^k (Alg. 1).

    Only steps that the Armijo rule accepts on the full objective are taken. Where it accepts none,
    a solver that draws rows at random tries again, twice as exactly, until `patience` answers in a
    row were not taken; that, or one answer of a solver that draws nothing, ends the run.

    `decrease_rows` is the number of rows on which the promised decrease Delta is computed, None for
    all of them; the history records how many were used.
    """

    solver: SubproblemSolver = field(default_factory=SADM)
    metric: Metric | Bregman = field(default_factory=Euclidean)
    search: Armijo = field(default_factory=Armijo)
    decrease_rows: int | None = 4096
    patience: int = 10
    max_bytes: int = 2**30

    def __post_init__(self) -> None:
        for name, needed, example in _PARTS:
            part = getattr(self, name)
            if isinstance(part, type | Tensor) or not hasattr(part, needed):
                raise InvalidInputError(
                    f"MBO({name}=...) must be such as {example}; got {shown(part)}."
                )
        if isinstance(self.metric, type) or not (
            hasattr(self.metric, "distance") or hasattr(self.metric, "at")
        ):
            raise InvalidInputError(
                "MBO(metric=...) must be such as Euclidean() or Diagonal(weights), Entropy() or"
                f" Curvature(); got {self.metric!r}."
            )
        if hasattr(self.metric, "at") and not isinstance(self.solver, ADMM):
            raise CombinationError(
                f"{self.metric!r} is no diagonal metric and needs MBO(solver=ADMM()); got"
                f" {type(self.solver).__name__}."
            )
        if self.decrease_rows is not None:
            check_count("MBO(decrease_rows=...)", self.decrease_rows)
        check_count("MBO(patience=...)", self.patience)
        check_count("MBO(max_bytes=...)", self.max_bytes)

    @property
    def measures_stationarity(self) -> bool:
        """Whether the solver knows when it has found the minimiser of the model."""
        return not isinstance(self.solver, Subgradient)

    def init(self, problem: Problem, theta: Tensor, generator: torch.Generator) -> MBOState:
        """Begin at theta."""
        if problem.noisy:
            raise UnsupportedModuleError(
                "MBO needs a module that gives the same output for the same input, and this one"
                ' drops at random in train mode. Call its .eval(), or use method="probed".'
            )
        ConvexModel(problem, theta, self.metric)  # refuses a loss without a convex model at once
        return MBOState(theta, problem.objective(theta), generator)

    def step(self, problem: Problem, state: MBOState, budget: Budget) -> Step:
        """Solve the model, search on the segment towards its minimiser."""
        model = ConvexModel(problem, state.theta, self.metric, max_bytes=self.max_bytes)
        drawn_before = state.generator.get_state()
        inner = self.solver.solve(
            model, iteration=state.iteration, generator=state.generator, deadline=budget
        )
        # A solver that draws no rows would give the same answer again.
        by_chance = not torch.equal(drawn_before, state.generator.get_state())
        target = problem.penalty.project(inner.theta)
        index = self._decrease_index(model, state.generator)
        decrease = model.decrease(target, index)
        if not math.isfinite(decrease):
            return Step(status=Status.NON_FINITE, remarks=inner.remarks)
        move = force_of(model.metric, state.theta, target)
        details = {
            "decrease": decrease,
            "decrease_rows": float(model.n_rows if index is None else len(index)),
            "inner_steps": float(inner.steps),
            "inner_converged": float(inner.converged),
            "step": 0.0,
            "trials": 0.0,
        }
        accepted = False
        if decrease < 0:
            result = self.search.search(
                problem.objective, state.theta, target, state.objective, decrease
            )
            accepted = result.accepted
            details |= {"step": result.step if accepted else 0.0, "trials": float(result.trials)}
            state.theta, state.objective = result.theta, result.objective
        state.iteration += 1 if accepted else _TIGHTER
        state.refused = 0 if accepted else state.refused + 1
        over = state.refused >= (self.patience if by_chance else 1) and not budget.expired()
        return Step(
            objective=state.objective,
            # How far an unfinished solve went says nothing about the minimiser of the model.
            stationarity=float(torch.linalg.vector_norm(move)) if inner.converged else None,
            stationarity_rows=inner.rows,
            status=Status.NO_DECREASE if over else None,
            details=details,
            remarks=inner.remarks,
        )

    def candidates(self, state: MBOState) -> list[Tensor]:
        """The present point, which is also the best."""
        return [state.theta]

    def _decrease_index(self, model: ConvexModel, generator: torch.Generator) -> Tensor | None:
        if self.decrease_rows is None or self.decrease_rows >= model.n_rows:
            return None
        return torch.randperm(model.n_rows, generator=generator)[: self.decrease_rows]

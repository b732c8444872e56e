"""Solvers of the convex sub-problem: SADM, its inner ADMM, ADMM on all rows, sub-gradients."""

from proxlin.subproblem.admm import ADMM
from proxlin.subproblem.base import Deadline, SubproblemResult, SubproblemSolver
from proxlin.subproblem.inner_admm import InnerADMM, InnerResult
from proxlin.subproblem.sadm import SADM, SADMState
from proxlin.subproblem.subgradient import Subgradient
from proxlin.subproblem.theory import SADMConstants, sadm_constants, sadm_iterations

__all__ = [
    "ADMM",
    "SADM",
    "Deadline",
    "InnerADMM",
    "InnerResult",
    "SADMConstants",
    "SADMState",
    "Subgradient",
    "SubproblemResult",
    "SubproblemSolver",
    "sadm_constants",
    "sadm_iterations",
]

"""Solvers of the convex sub-problem: SADM, its inner ADMM, ADMM on all rows, sub-gradients."""

from proxlin.methods.subproblem.admm import ADMM
from proxlin.methods.subproblem.inner_admm import InnerADMM, InnerResult
from proxlin.methods.subproblem.sadm import SADM, SADMState
from proxlin.methods.subproblem.solver import Deadline, SubproblemResult, SubproblemSolver
from proxlin.methods.subproblem.subgradient import Subgradient
from proxlin.methods.subproblem.theory import SADMConstants, sadm_constants, sadm_iterations

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

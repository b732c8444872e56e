"""Problem: rows, the residual of a module on them, the loss of a row, g and C."""

from proxlin.problem.problem import Problem

__all__ = ["Problem"]

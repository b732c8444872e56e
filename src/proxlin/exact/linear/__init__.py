"""Linear models solved to proven optimality."""

from proxlin.exact.linear.solution import LinearSolution
from proxlin.exact.linear.solve import solve_linear

__all__ = ["LinearSolution", "solve_linear"]

"""Linear models solved to proven optimality."""

from proxlin.linear.solution import LinearSolution
from proxlin.linear.solve import solve_linear

__all__ = ["LinearSolution", "solve_linear"]

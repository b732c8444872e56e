"""Linear models solved to proven optimality."""

from proxlin.exact.linear.quantiles import solve_quantiles
from proxlin.exact.linear.solve import LinearResult, solve_linear

__all__ = ["LinearResult", "solve_linear", "solve_quantiles"]

"""Linear models solved to proven optimality."""

from proxlin.exact.linear.linear_result import LinearResult
from proxlin.exact.linear.quantiles import quantile_levels, solve_quantiles, stream_quantiles
from proxlin.exact.linear.solve import solve_linear

__all__ = ["LinearResult", "quantile_levels", "solve_linear", "solve_quantiles", "stream_quantiles"]

"""Linear models solved to proven optimality."""

from proxlin.exact.linear.quantiles import quantile_levels, solve_quantiles, stream_quantiles
from proxlin.exact.linear.solve import LinearResult, solve_linear

__all__ = ["LinearResult", "quantile_levels", "solve_linear", "solve_quantiles", "stream_quantiles"]

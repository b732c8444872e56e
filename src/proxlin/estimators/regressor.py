"""RobustRegressor: several targets at once, coupled by the norm of their residual."""

from __future__ import annotations

from proxlin.estimators.base import RobustBase


class RobustRegressor(RobustBase):
    """min (1/n) sum_i ||f(x_i) - y_i||_p + g."""

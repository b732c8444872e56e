"""scikit-learn estimators: thin classes that translate to `Problem` and `minimize` and back."""

from proxlin.estimators.regressor import RobustRegressor

__all__ = ["RobustRegressor"]

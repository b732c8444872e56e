"""scikit-learn's own checks, over every estimator."""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from proxlin import (
    Adam,
    RobustAutoencoder,
    RobustFactorization,
    RobustFeatureSelector,
    RobustImputer,
    RobustNMF,
    RobustOutlierDetector,
    RobustPCA,
    RobustRegressor,
)

# Instances small enough for the checks.
ESTIMATORS: list[Any] = [
    RobustRegressor(),
    RobustRegressor(p=2, regularizer="ridge", alpha=0.1),
    RobustRegressor(hidden=(8,), method=Adam(learning_rate=0.03), max_iter=100),
    RobustRegressor(p=1, reweight=False),
    RobustAutoencoder(max_iter=10),
    RobustAutoencoder(
        1, hidden=(), tied=True, noise=0.1, contamination=0.1, method="adam", max_iter=5
    ),
    RobustFeatureSelector(),
    RobustImputer(),
    RobustFactorization(max_iter=3),
    RobustFactorization(2, p=2, robust="columns", max_iter=3),
    RobustFactorization(p=2, batch_size=8, max_iter=1),
    RobustNMF(1, max_iter=3),
    RobustOutlierDetector(),
    RobustPCA(),
]


@parametrize_with_checks(ESTIMATORS)
def test_sklearn_compatible(estimator: Any, check: Any) -> None:
    check(estimator)

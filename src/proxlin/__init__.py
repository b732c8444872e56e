"""proxlin: train models that outliers cannot pull away.

Minimises (1/n) sum_i ||F(theta; x_i)||_p + g(theta) over theta in C with model-based methods.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from proxlin.methods import MBO, SGD, Adam, Probed
from proxlin.methods.contract import Status
from proxlin.methods.search import Armijo
from proxlin.methods.subproblem import ADMM, SADM, InnerADMM, Subgradient, sadm_iterations
from proxlin.methods.subproblem.convex_model import ConvexModel
from proxlin.methods.subproblem.metric import Diagonal, Euclidean
from proxlin.problem import Problem
from proxlin.run.checkpoint import Checkpoints
from proxlin.run.minimize import Progress, minimize
from proxlin.run.result import History, Result
from proxlin.terms import (
    Ball,
    Box,
    ElasticNet,
    GroupLasso,
    Lasso,
    LpNorm,
    NonNegative,
    Ridge,
    Simplex,
    Tied,
)

if TYPE_CHECKING:
    from proxlin.estimators import (
        RobustAutoencoder,
        RobustFactorization,
        RobustFeatureSelector,
        RobustNMF,
        RobustRegressor,
    )

__version__ = "0.1.0"

# Loaded when first used: scikit-learn takes about as long to import as torch.
_ESTIMATORS = (
    "RobustAutoencoder",
    "RobustFactorization",
    "RobustFeatureSelector",
    "RobustNMF",
    "RobustRegressor",
)

__all__ = [
    "ADMM",
    "MBO",
    "SADM",
    "SGD",
    "Adam",
    "Armijo",
    "Ball",
    "Box",
    "Checkpoints",
    "ConvexModel",
    "Diagonal",
    "ElasticNet",
    "Euclidean",
    "GroupLasso",
    "History",
    "InnerADMM",
    "Lasso",
    "LpNorm",
    "NonNegative",
    "Probed",
    "Problem",
    "Progress",
    "Result",
    "Ridge",
    "RobustAutoencoder",
    "RobustFactorization",
    "RobustFeatureSelector",
    "RobustNMF",
    "RobustRegressor",
    "Simplex",
    "Status",
    "Subgradient",
    "Tied",
    "minimize",
    "sadm_iterations",
]


def __getattr__(name: str) -> Any:
    """Load an estimator by name."""
    if name in _ESTIMATORS:
        return getattr(import_module("proxlin.estimators"), name)
    raise AttributeError(f"module 'proxlin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

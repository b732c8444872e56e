"""proxlin: train models that outliers cannot pull away.

Minimises (1/n) sum_i ||F(theta; x_i)||_p + g(theta) over theta in C with model-based methods.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from proxlin.methods import MBO, SGD, Adam, Probed
from proxlin.methods.contract import Status
from proxlin.methods.search import Armijo
from proxlin.methods.subproblem import ADMM, SADM, InnerADMM, Subgradient, sadm_iterations
from proxlin.methods.subproblem.convex_model import ConvexModel
from proxlin.methods.subproblem.metric import Diagonal, Euclidean
from proxlin.problem import Problem
from proxlin.problem.loss import Pinball
from proxlin.run.callbacks import EarlyStopping, ProgressLine, TensorBoard
from proxlin.run.checkpoint import Checkpoints
from proxlin.run.minimize import Progress, minimize
from proxlin.run.result import Certificate, History, Result
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
        RobustOutlierDetector,
        RobustPCA,
        RobustRegressor,
    )

__version__ = "0.1.0"

__all__ = [
    "ADMM",
    "MBO",
    "SADM",
    "SGD",
    "Adam",
    "Armijo",
    "Ball",
    "Box",
    "Certificate",
    "Checkpoints",
    "ConvexModel",
    "Diagonal",
    "EarlyStopping",
    "ElasticNet",
    "Euclidean",
    "GroupLasso",
    "History",
    "InnerADMM",
    "Lasso",
    "LpNorm",
    "NonNegative",
    "Pinball",
    "Probed",
    "Problem",
    "Progress",
    "ProgressLine",
    "Result",
    "Ridge",
    "RobustAutoencoder",
    "RobustFactorization",
    "RobustFeatureSelector",
    "RobustNMF",
    "RobustOutlierDetector",
    "RobustPCA",
    "RobustRegressor",
    "Simplex",
    "Status",
    "Subgradient",
    "TensorBoard",
    "Tied",
    "minimize",
    "sadm_iterations",
]


# Rooms for users besides; a few come only with the first use.
_ROOMS = ("data", "errors", "linearize", "models", "prox", "terms")


def __getattr__(name: str) -> Any:
    """Load on first use what takes long to import: scikit-learn takes as long as torch."""
    if name in _ROOMS:
        return _import_module(f"proxlin.{name}")
    if name in __all__:
        return getattr(_import_module("proxlin.estimators"), name)
    raise AttributeError(f"module 'proxlin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS, "__doc__", "__version__"])

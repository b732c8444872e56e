"""proxlin: train models that outliers cannot pull away.

Minimises (1/n) sum_i ||F(theta; x_i)||_p + g(theta) over theta in C with model-based methods.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxlin.estimators import (
        RobustAutoencoder,
        RobustFactorization,
        RobustFeatureSelector,
        RobustImputer,
        RobustNMF,
        RobustOutlierDetector,
        RobustPCA,
        RobustRegressor,
        robust_r2_score,
        robust_r2_scorer,
    )
    from proxlin.methods import MBO, SGD, Adam, Probed
    from proxlin.methods.contract import Status
    from proxlin.methods.search import Armijo
    from proxlin.methods.subproblem import ADMM, SADM, InnerADMM, Subgradient, sadm_iterations
    from proxlin.methods.subproblem.bregman import Curvature, Entropy
    from proxlin.methods.subproblem.convex_model import ConvexModel
    from proxlin.methods.subproblem.metric import Diagonal, Euclidean
    from proxlin.problem import Problem
    from proxlin.problem.loss import Pinball
    from proxlin.run.callbacks import EarlyStopping, ProgressLine, TensorBoard
    from proxlin.run.checkpoint import Checkpoints
    from proxlin.run.minimize import minimize
    from proxlin.run.result import Certificate, History, Progress, Result
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

__version__ = "0.1.0"

__all__ = [
    "ADMM", "MBO", "SADM", "SGD", "Adam", "Armijo", "Ball", "Box", "Certificate", "Checkpoints",
    "ConvexModel", "Curvature", "Diagonal", "EarlyStopping", "ElasticNet", "Entropy", "Euclidean",
    "GroupLasso", "History", "InnerADMM", "Lasso", "LpNorm", "NonNegative", "Pinball", "Probed",
    "Problem", "Progress", "ProgressLine", "Result", "Ridge", "RobustAutoencoder",
    "RobustFactorization", "RobustFeatureSelector", "RobustImputer", "RobustNMF",
    "RobustOutlierDetector", "RobustPCA", "RobustRegressor", "Simplex", "Status", "Subgradient",
    "TensorBoard", "Tied", "minimize", "robust_r2_score", "robust_r2_scorer", "sadm_iterations",
]  # fmt: skip

# Where the names live, from the ground up: what imports a later one needs the earlier ones anyway.
# A name is loaded with its first use, as torch and scikit-learn take seconds.
_HOMES = (
    "terms", "problem", "problem.loss", "methods", "methods.contract", "methods.search",
    "methods.subproblem", "methods.subproblem.bregman", "methods.subproblem.convex_model",
    "methods.subproblem.metric", "run.checkpoint", "run.result", "run.callbacks", "run.minimize",
    "estimators",
)  # fmt: skip
_ROOMS = ("data", "errors", "linearize", "models", "prox", "terms")  # for users besides


def __getattr__(name: str) -> Any:
    """Load a public name, or a room, on first use."""
    if name in _ROOMS:
        return _import_module(f"proxlin.{name}")
    for home in _HOMES if name in __all__ else ():
        module = _import_module(f"proxlin.{home}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module 'proxlin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS, "__doc__", "__version__"])

"""scikit-learn estimators: thin classes that translate to `Problem` and `minimize` and back."""

from proxlin.estimators.autoencoder import RobustAutoencoder
from proxlin.estimators.factorization import RobustFactorization
from proxlin.estimators.imputer import RobustImputer
from proxlin.estimators.nmf import RobustNMF
from proxlin.estimators.outlier_detector import RobustOutlierDetector
from proxlin.estimators.pca import RobustPCA
from proxlin.estimators.regressor import RobustRegressor
from proxlin.estimators.robust_r2 import robust_r2_score, robust_r2_scorer
from proxlin.estimators.selection_path import SelectionPath
from proxlin.estimators.selector import RobustFeatureSelector

__all__ = [
    "RobustAutoencoder",
    "RobustFactorization",
    "RobustFeatureSelector",
    "RobustImputer",
    "RobustNMF",
    "RobustOutlierDetector",
    "RobustPCA",
    "RobustRegressor",
    "SelectionPath",
    "robust_r2_score",
    "robust_r2_scorer",
]

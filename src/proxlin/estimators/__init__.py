"""scikit-learn estimators: thin classes that translate to `Problem` and `minimize` and back."""

from proxlin.estimators.detection.outlier_detector import RobustOutlierDetector
from proxlin.estimators.low_rank.autoencoder import RobustAutoencoder
from proxlin.estimators.low_rank.factorization import RobustFactorization
from proxlin.estimators.low_rank.imputer import RobustImputer
from proxlin.estimators.low_rank.nmf import RobustNMF
from proxlin.estimators.low_rank.pca import RobustPCA
from proxlin.estimators.regression.regressor import RobustRegressor
from proxlin.estimators.robust_r2 import robust_r2_score, robust_r2_scorer
from proxlin.estimators.selection.selection_path import SelectionPath
from proxlin.estimators.selection.selector import RobustFeatureSelector

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

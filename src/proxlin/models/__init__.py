"""Nets for the applications: autoencoders, regressors, factorisation, feature selection."""

from proxlin.models.autoencoders import (
    Autoencoder,
    conv_autoencoder,
    image_autoencoder,
    mlp_autoencoder,
    paper_autoencoder,
)
from proxlin.models.factorization_net import Factorization, known_cells
from proxlin.models.regressors import (
    FeatureSelector,
    linear_regressor,
    mlp_regressor,
    paper_regressor,
)

__all__ = [
    "Autoencoder",
    "Factorization",
    "FeatureSelector",
    "conv_autoencoder",
    "image_autoencoder",
    "known_cells",
    "linear_regressor",
    "mlp_autoencoder",
    "mlp_regressor",
    "paper_autoencoder",
    "paper_regressor",
]

"""Regularisers g and constraints C as objects, and `Penalty`, which binds them to a module."""

from proxlin.terms.constraints import Ball, Box, Constraint, NonNegative, Simplex, Tied
from proxlin.terms.penalty import Penalty
from proxlin.terms.regularizers import ElasticNet, GroupLasso, Lasso, LpNorm, Regularizer, Ridge

__all__ = [
    "Ball",
    "Box",
    "Constraint",
    "ElasticNet",
    "GroupLasso",
    "Lasso",
    "LpNorm",
    "NonNegative",
    "Penalty",
    "Regularizer",
    "Ridge",
    "Simplex",
    "Tied",
]

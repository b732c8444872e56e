"""Robust (non-negative) matrix factorisation by alternating majorise-minimise."""

from proxlin.exact.factorize.cells import Cells, check_observed, check_size
from proxlin.exact.factorize.embed import Embedding, embed
from proxlin.exact.factorize.row_norm import RowNorm
from proxlin.exact.factorize.run import Factors, check_rank, factorize, normal_form
from proxlin.exact.factorize.stream import Stream

__all__ = [
    "Cells",
    "Embedding",
    "Factors",
    "RowNorm",
    "Stream",
    "check_observed",
    "check_rank",
    "check_size",
    "embed",
    "factorize",
    "normal_form",
]

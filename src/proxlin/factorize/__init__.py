"""Robust (non-negative) matrix factorisation by alternating majorise-minimise."""

from proxlin.factorize.cells import Cells, check_known, check_size
from proxlin.factorize.embed import Embedding, embed
from proxlin.factorize.normal_form import normal_form
from proxlin.factorize.row_norm import RowNorm
from proxlin.factorize.run import Factors, check_rank, factorize
from proxlin.factorize.stream import Stream

__all__ = [
    "Cells",
    "Embedding",
    "Factors",
    "RowNorm",
    "Stream",
    "check_known",
    "check_rank",
    "check_size",
    "embed",
    "factorize",
    "normal_form",
]

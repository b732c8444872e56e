"""Robust (non-negative) matrix factorisation by alternating majorise-minimise."""

from proxlin.factorize.cells import Cells
from proxlin.factorize.embed import Embedding, embed
from proxlin.factorize.row_norm import RowNorm
from proxlin.factorize.run import Factors, factorize

__all__ = ["Cells", "Embedding", "Factors", "RowNorm", "embed", "factorize"]

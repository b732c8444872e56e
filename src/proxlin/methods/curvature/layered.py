"""Layered curvature: one block of C for each layer, for d beyond what a dense matrix allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from proxlin.methods.curvature.dense import UNFACTORED
from proxlin.methods.curvature.layers import LayerPiece
from proxlin.prox.linear_algebra import SMALLEST_SHIFT, shifted_cholesky, solve_cholesky

_VECTOR = 256  # entries of a vector that are one dense block
_NARROW = 32  # beyond, Kronecker factors cost less and hold what couples the units
_BLOCK_NUMBERS = 2**23  # entries that the unit blocks of one layer may hold
_SLICE = 128  # rows of a square matrix that stand for all of it in an average
_SINGLE = 2e-6  # of the trace: smaller shifts need the digits of float64
_WIDE = 512  # beyond, a side of a matrix is kept as blocks
_PIECE = 256  # rows of such a block at most


class LayerBlock(Protocol):
    """The curvature of one layer's matrix."""

    def add(self, rows: Tensor, weight: float) -> None: ...  # noqa: D102
    def factor(self, damping: float, extra: Tensor) -> None: ...  # noqa: D102
    def solve(self, matrix: Tensor) -> Tensor: ...  # noqa: D102
    def quadratic(self, matrix: Tensor) -> float: ...  # noqa: D102
    def trace(self) -> float: ...  # noqa: D102


@dataclass(init=False, eq=False, repr=False)
class UnitBlocks:
    """One dense block for each output unit; exact for a last linear layer.

    Memory 2 * units * width^2 numbers.
    """

    blocks: Tensor  # (units, width, width)
    _factor: Tensor  # (units, width, width) their Cholesky factors, damped

    def __init__(self, units: int, width: int, like: Tensor) -> None:
        self.blocks = like.new_zeros(units, width, width)
        self._factor = torch.empty(0)

    def add(self, rows: Tensor, weight: float) -> None:
        """Average in the probes' rows (K, units, width)."""
        by_unit = rows.transpose(0, 1)
        self.blocks.baddbmm_(
            by_unit.transpose(1, 2), by_unit, beta=1 - weight, alpha=weight / rows.shape[0]
        )

    def trace(self) -> float:
        """The trace of all blocks."""
        return float(self.blocks.diagonal(dim1=1, dim2=2).sum())

    def factor(self, damping: float, extra: Tensor) -> None:
        """Renew the Cholesky factors of block + damping * (mean diagonal) I + diag(extra)."""
        units, width, _ = self.blocks.shape
        shift = damping * self.trace() / (units * width) + extra
        self._factor = shifted_cholesky(self.blocks, shift, UNFACTORED)

    def solve(self, matrix: Tensor) -> Tensor:
        """Solve for every unit at once."""
        return solve_cholesky(self._factor, matrix)

    def quadratic(self, matrix: Tensor) -> float:
        """The sum over units of row^T block row."""
        column = matrix.unsqueeze(2)
        return float((column * (self.blocks @ column)).sum(dtype=torch.float64))


@dataclass(init=False, eq=False, repr=False)
class Side:
    """One of two Kronecker factors, as one matrix or, where it is wide, as blocks on its diagonal.

    Neighbours in a wide layer are those that belong together: pixels of a row, places of a channel.
    """

    matrix: Tensor  # (blocks, size, size)
    _inverse: Tensor  # (blocks, size, size) that of the damped one

    def __init__(self, width: int, like: Tensor) -> None:
        blocks = 1 if width <= _WIDE else -(-width // _PIECE)
        size = -(-width // blocks)
        self.width = width
        self.matrix = like.new_zeros(blocks, size, size)
        self._inverse = torch.empty(0)

    def add(self, vectors: Tensor, keep: float, weight: float) -> None:
        """Matrix <- keep * matrix + weight * vectors vectors^T, for vectors (width, K)."""
        pieces = self._cut(vectors)
        self.matrix.baddbmm_(pieces, pieces.mT, beta=keep, alpha=weight)

    def trace(self) -> float:
        """The sum of the diagonal."""
        return float(self.matrix.diagonal(dim1=1, dim2=2).sum())

    def factor(self, shift: float, scale: float = 1.0) -> None:
        """Renew the inverse of scale * matrix + shift I, in float64 where the shift is tiny."""
        exact = shift < _SINGLE * scale * self.trace()
        diagonal = self.matrix.new_full((), shift, dtype=torch.float64)
        matrix = scale * self.matrix
        factor = shifted_cholesky(
            matrix, diagonal.expand(matrix.shape[:2]), UNFACTORED, exact=exact
        )
        self._inverse = torch.cholesky_inverse(factor).to(matrix.dtype)

    def solve(self, vectors: Tensor) -> Tensor:
        """The inverse times vectors (width, K)."""
        return self._join(self._inverse @ self._cut(vectors))

    def times(self, vectors: Tensor) -> Tensor:
        """The matrix times vectors (width, K)."""
        return self._join(self.matrix @ self._cut(vectors))

    def _cut(self, vectors: Tensor) -> Tensor:
        blocks, size, _ = self.matrix.shape
        missing = blocks * size - self.width
        if missing:
            vectors = torch.nn.functional.pad(vectors, (0, 0, 0, missing))
        return vectors.reshape(blocks, size, -1)

    def _join(self, pieces: Tensor) -> Tensor:
        return pieces.flatten(0, 1)[: self.width]


@dataclass(init=False, eq=False, repr=False)
class KroneckerBlock:
    """C ~ left (x) right / trace, from E[V V^T] and E[V^T V] of the layer's probes V.

    If C is a Kronecker product this is exact, since then E[V V^T] = L tr R, E[V^T V] = R tr L.
    The damping is split between the factors, so that two Cholesky factorisations suffice.
    Memory 2 * (units^2 + width^2) numbers, less where a side is wide.
    """

    left: Side  # (units, units) E[V V^T]
    right: Side  # (width, width) E[V^T V]
    turn: int  # how often probes were added

    def __init__(self, units: int, width: int, like: Tensor) -> None:
        self.left = Side(units, like)
        self.right = Side(width, like)
        self.turn = 0

    def add(self, rows: Tensor, weight: float) -> None:
        """Average in the probes' rows (K, units, width).

        Of a wide matrix some columns say enough of left and some rows of right, others each time:
        all of them would cost more than the backward pass that gave the probe.
        """
        count, units, width = rows.shape
        self.turn += 1
        for side, own, across in ((self.left, units, width), (self.right, width, units)):
            step = max(1, min(across // _SLICE, own // _SLICE))
            first = self.turn % step
            some = rows[:, :, first::step] if side is self.left else rows[:, first::step]
            used = len(range(first, across, step))
            vectors = some.transpose(0, 1).flatten(1) if side is self.left else some.flatten(0, 1).T
            side.add(vectors, 1 - weight, weight * across / (used * count))

    def trace(self) -> float:
        """The trace of the block."""
        return self.left.trace()

    def factor(self, damping: float, extra: Tensor) -> None:
        """Renew the inverses of (left + a I) and of (right + b I) with a b = the damping.

        The ratio of a to b is that of the mean diagonals of left and right; the largest `extra` of
        the layer stands for all of them.
        """
        units, width = self.left.width, self.right.width
        trace = max(self.trace(), SMALLEST_SHIFT)
        shift = damping * trace / (units * width) + float(extra.max())
        root = math.sqrt(max(shift, SMALLEST_SHIFT) * trace)  # of a b
        self.left.factor(root * math.sqrt(width / units) / trace, 1 / trace)
        self.right.factor(root * math.sqrt(units / width))

    def solve(self, matrix: Tensor) -> Tensor:
        """Multiply with the inverse factors."""
        return self.right.solve(self.left.solve(matrix).T).T

    @property
    def work_of_a_solve(self) -> int:
        """Multiplications: each weight with a row of both factors."""
        rows = self.left.matrix.shape[-1] + self.right.matrix.shape[-1]
        return self.left.width * self.right.width * rows

    def quadratic(self, matrix: Tensor) -> float:
        """<M, L M R> / trace."""
        image = self.right.times(self.left.times(matrix).T).T / max(self.trace(), SMALLEST_SHIFT)
        return float((matrix * image).sum(dtype=torch.float64))


@dataclass(init=False, eq=False, repr=False)
class DiagonalBlock:
    """The diagonal alone, for layers too large for anything else; memory 2 units * width."""

    diagonal: Tensor  # (units, width)
    _damped: Tensor  # (units, width)

    def __init__(self, units: int, width: int, like: Tensor) -> None:
        self.diagonal = like.new_zeros(units, width)
        self._damped = torch.empty(0)

    def add(self, rows: Tensor, weight: float) -> None:
        """Average in the squares of the probes' rows (K, units, width)."""
        self.diagonal.lerp_(rows.square().mean(0), weight)

    def trace(self) -> float:
        """The sum of the diagonal."""
        return float(self.diagonal.sum())

    def factor(self, damping: float, extra: Tensor) -> None:
        """Renew the damped diagonal."""
        shift = damping * self.trace() / self.diagonal.numel() + extra.to(self.diagonal)
        self._damped = (self.diagonal + shift).clamp_min(SMALLEST_SHIFT)

    def solve(self, matrix: Tensor) -> Tensor:
        """Divide entry by entry."""
        return matrix / self._damped

    def quadratic(self, matrix: Tensor) -> float:
        """The squares, weighted with the diagonal."""
        return float((matrix.square() * self.diagonal).sum(dtype=torch.float64))


@dataclass(init=False, eq=False, repr=False)
class LayeredCurvature:
    """One block for each layer, of the richest structure that fits."""

    blocks: list[LayerBlock]

    def __init__(self, pieces: list[LayerPiece], like: Tensor) -> None:
        self.pieces = pieces
        last = max((k for k, piece in enumerate(pieces) if piece.units > 1), default=0)
        self.blocks = [_block(piece, like, last=k == last) for k, piece in enumerate(pieces)]
        self.size = like.numel()
        self.costly = any(isinstance(block, KroneckerBlock) for block in self.blocks)

    @property
    def rows_of_a_solve(self) -> int:
        """A row passes three times through the weights of linear layers, and often through kernels.

        A solve with Kronecker factors multiplies each weight with a row of both.
        """
        if any(len(piece.shape) > 2 for piece in self.pieces):
            return 0
        kronecker = [block for block in self.blocks if isinstance(block, KroneckerBlock)]
        return sum(block.work_of_a_solve for block in kronecker) // (3 * self.size)

    @property
    def scale(self) -> float:
        """The mean of the diagonal of C."""
        return sum(block.trace() for block in self.blocks) / self.size

    def add(self, probes: Tensor, weight: float) -> None:
        """Average the probes (K, d) into every layer."""
        for piece, block in zip(self.pieces, self.blocks, strict=True):
            block.add(piece.take(probes), weight)

    def factor(self, damping: float, extra: Tensor) -> None:
        """Renew the factor of every layer."""
        for piece, block in zip(self.pieces, self.blocks, strict=True):
            block.factor(damping, piece.take(extra.unsqueeze(0))[0])

    def solve(self, vector: Tensor) -> Tensor:
        """Solve layer by layer."""
        solution = torch.empty_like(vector)
        for piece, block in zip(self.pieces, self.blocks, strict=True):
            piece.put(block.solve(piece.take(vector.unsqueeze(0))[0]), solution)
        return solution

    def quadratic(self, vector: Tensor) -> float:
        """The sum over layers."""
        return sum(
            block.quadratic(piece.take(vector.unsqueeze(0))[0])
            for piece, block in zip(self.pieces, self.blocks, strict=True)
        )


def _block(piece: LayerPiece, like: Tensor, *, last: bool) -> LayerBlock:
    """The richest structure that fits: units of the last layer bend apart, those before together.

    Vectors are one dense block, or a diagonal where they are long.
    """
    alone = piece.units == 1
    narrow = piece.width <= (_VECTOR if alone else _NARROW)
    if (alone or last) and narrow and piece.units * piece.width**2 <= _BLOCK_NUMBERS:
        return UnitBlocks(piece.units, piece.width, like)
    if alone:
        return DiagonalBlock(piece.units, piece.width, like)
    if piece.units**2 + piece.width**2 <= _BLOCK_NUMBERS:
        return KroneckerBlock(piece.units, piece.width, like)
    return DiagonalBlock(piece.units, piece.width, like)

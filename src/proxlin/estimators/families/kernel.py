"""Kernel regression for what curves cannot say: a smooth surface over all columns together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from proxlin.estimators.families.trees import Part
from proxlin.estimators.robust_scale import absolute_weights, residual_scale
from proxlin.estimators.tables import Matrix, Vector

_WIDTHS = (0.7, 1.4, 0.35, 2.8)  # of a bump, in typical distances of two rows
_FOCUSES = (0.5, 0.0, 1.0)  # powers of what a column adds in the other model
_STRENGTHS = np.logspace(0, -5, 11)  # of the ridge
_ENOUGH_HELD = 500  # held-out rows that choose among them, of two folds or more
_FEW_BUMPS, _BUMPS = 300, 600  # while these are chosen, and in the end
_MOST_ROWS = 10_000  # that a surface is fitted to
_STILL = 1e-6  # spread of scaled cells that are all the same but for rounding
_LEAST_SHARE = 0.01  # of the largest, of a column that adds nothing
_ROUNDS = 4  # of row weights
_LEAST_LEFT = 0.05  # of a row's residual, of what its own pull left of it
_JITTER = 1e-8
_CLIP = 5.0  # robust deviations beyond which a held-out error counts no more
_CHUNK = 8192  # rows of one prediction


@dataclass(frozen=True, eq=False)
class KernelSurface:
    """sum_k coef_k exp(-||u - landmark_k||^2 / 2), where u are the cells, scaled."""

    scale: Vector  # (columns,)
    landmarks: Matrix  # (bumps, columns), scaled
    coef: Vector  # (bumps,)

    @classmethod
    def fit(
        cls,
        folds: Sequence[tuple[Part, Part]],
        shares: Sequence[Vector],
        *,
        redescending: bool,
        seed: int,
        out_of_time: Callable[[], bool],
        floor: float = 0.0,
    ) -> list[KernelSurface]:
        """Surfaces for residuals of another model, one for each fold (rows to fit, rows held out).

        `shares` tells for each fold how much the columns add in that model. Width, focus and
        strength are those with the least clipped error of held-out rows; if they save less than a
        standard error against no surface at all, there is none.
        """
        fits = [
            _FoldFit(
                train,
                held,
                share,
                redescending=redescending,
                generator=np.random.default_rng(seed + number),
                floor=floor,
            )
            for number, ((train, held), share) in enumerate(zip(folds, shares, strict=True))
        ]
        count = max(2, -(-_ENOUGH_HELD // len(folds[0][1][0])))
        some = fits[:count]
        flat = np.concatenate([fold.losses(0.0) for fold in some])
        best, chosen = flat, None
        for width, focus in product(_WIDTHS, _FOCUSES):
            answers = [fold.path(width, focus) for fold in some]
            for place, strength in enumerate(_STRENGTHS):
                pairs = zip(some, answers, strict=True)
                losses = np.concatenate([fold.losses(part[:, place]) for fold, part in pairs])
                if losses.mean() < best.mean():
                    best, chosen = losses, (width, focus, float(strength))
            if out_of_time():
                break
        saved = flat - best
        if saved.mean() <= saved.std() / np.sqrt(len(saved)):  # the luck of these rows
            chosen = None
        return [fold.surface(chosen) for fold in fits]

    def predict(self, x: Matrix) -> Vector:
        """(rows,)."""
        answers = np.empty(len(x))
        for first in range(0, len(x), _CHUNK):
            rows = x[first : first + _CHUNK] * self.scale
            answers[first : first + _CHUNK] = _bumps(rows, self.landmarks) @ self.coef
        return answers

    def state(self) -> dict[str, Any]:
        """Arrays."""
        return dict(vars(self))

    @classmethod
    def restore(cls, arrays: dict[str, Any]) -> KernelSurface:
        """What `state` took apart."""
        surface = cls(**{name: arrays[name] for name in cls.__dataclass_fields__})
        if surface.landmarks.shape != (len(surface.coef), len(surface.scale)):
            raise ValueError("the parts of a surface are of different shapes")
        return surface


class _FoldFit:
    """Rows of one fold: weighted least squares on bumps, weights by what a row leaves of itself.

    Residuals that decide on weights are those of a fit without their own row: a narrow bump could
    learn a wrong row by heart.
    """

    def __init__(
        self,
        train: Part,
        held: Part,
        shares: Vector,
        *,
        redescending: bool,
        generator: np.random.Generator,
        floor: float,
    ) -> None:
        self.held, self.redescending, self.floor = held, redescending, floor
        rows = generator.permutation(len(train[0]))[:_MOST_ROWS]  # the first ones are landmarks
        self.cells, self.residual = train[0][rows], train[1][rows]
        spread = self.cells.std(axis=0)
        self.unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > _STILL)
        self.shares = np.maximum(shares / max(shares.max(initial=0.0), 1e-300), _LEAST_SHARE)
        scale = max(residual_scale(held[1]), floor)
        self.limit, self.weights = _CLIP * scale, self._weights_of(self.residual, scale)

    def losses(self, answers: Vector | float) -> Vector:
        """Of answers for the held-out rows."""
        return np.minimum(np.abs(self.held[1] - answers), self.limit)

    def path(self, width: float, focus: float) -> Matrix:
        """Answers for the held-out rows: (rows, strengths)."""
        scale = self._scale(width, focus)
        cells = self.cells * scale
        factor = _factor(cells[:_FEW_BUMPS])
        columns, held = (
            _whitened(part, cells[:_FEW_BUMPS], factor) for part in (cells, self.held[0] * scale)
        )
        weighted = columns * self.weights[:, None]
        values, vectors = np.linalg.eigh(columns.T @ weighted)
        pull = vectors.T @ (weighted.T @ self.residual)
        ridge = np.maximum(values, 0.0)[:, None] + _STRENGTHS * self.weights.sum()
        answers: Matrix = (held @ vectors) @ (pull[:, None] / ridge)
        return answers

    def surface(self, chosen: tuple[float, float, float] | None) -> KernelSurface:
        """With this width, focus and strength; a flat one without them."""
        if chosen is None:
            return KernelSurface(self.unit, self.cells[:0], np.empty(0))
        width, focus, strength = chosen
        scale, weights = self._scale(width, focus), self.weights
        cells = self.cells * scale
        landmarks = cells[:_BUMPS]
        factor = _factor(landmarks)
        columns = _whitened(cells, landmarks, factor)
        for number in range(_ROUNDS):
            half = np.sqrt(weights)
            weighted = columns * half[:, None]
            system = weighted.T @ weighted
            system[np.diag_indices_from(system)] += strength * weights.sum()
            root = np.linalg.cholesky(system)
            coef = cho_solve((root, True), weighted.T @ (half * self.residual))
            if number < _ROUNDS - 1:
                own = (solve_triangular(root, weighted.T, lower=True) ** 2).sum(axis=0)
                without = (self.residual - columns @ coef) / np.maximum(1 - own, _LEAST_LEFT)
                weights = self._weights_of(without, max(residual_scale(without), self.floor))
        coef = solve_triangular(factor, coef, lower=True, trans="T")
        return KernelSurface(scale, landmarks, coef)

    def _scale(self, width: float, focus: float) -> Vector:
        """Of each column; two typical rows are sqrt(2)/width apart."""
        part = self.shares**focus * (self.unit > 0)
        length = max(float(np.linalg.norm(part)), 1e-300)
        scale: Vector = self.unit * part / (length * width)
        return scale

    def _weights_of(self, residuals: Vector, scale: float) -> Vector:
        return absolute_weights(residuals, scale, redescending=self.redescending)


def _bumps(u: Matrix, landmarks: Matrix) -> Matrix:
    distances = (u**2).sum(axis=1)[:, None] + (landmarks**2).sum(axis=1) - 2 * u @ landmarks.T
    bumps: Matrix = np.exp(-0.5 * np.maximum(distances, 0.0))
    return bumps


def _factor(landmarks: Matrix) -> Matrix:
    """Of the kernel matrix of the landmarks: lower Cholesky factor."""
    kernel = _bumps(landmarks, landmarks)
    kernel[np.diag_indices_from(kernel)] += _JITTER * len(kernel)
    return np.asarray(np.linalg.cholesky(kernel), dtype=np.float64)


def _whitened(u: Matrix, landmarks: Matrix, factor: Matrix) -> Matrix:
    """Columns in which the squared length of coefficients is the squared norm of the surface."""
    columns: Matrix = solve_triangular(factor, _bumps(u, landmarks).T, lower=True).T
    return columns

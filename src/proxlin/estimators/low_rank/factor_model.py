"""A Gaussian of few factors plus noise, fitted to incomplete tables in which cells are wrong.

Row i is center + loadings e_i + noise with e_i ~ N(0, I) and noise_j ~ N(0, noise_j / w_ij). The
weight w_ij of a cell is 0 where it is missing, and falls towards 0 with the distance of the cell
from what the others of its row let expect. Expectation and maximisation take turns (Rubin and
Thayer 1982), with latent scores whitened after each turn (parameter expansion: Liu, Rubin and Wu
1998).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from proxlin.estimators.tables import Mask, Matrix, Vector

_TURNS = 40
_TRUSTING = 3  # turns before cells are weighed
_WIDTH = 3.0  # standard deviations at which a cell counts a half, or strictly a quarter
_LEAST_NOISE = 1e-6  # of the variance of a column
_SETTLED = 1e-3  # change of the noise by which the turns end
_REWEIGHTINGS = 5  # of the cells of new rows
_CHUNK = 2**21  # numbers of rows x factors^2 held at once


@dataclass(frozen=True, eq=False)
class Explained:
    """Rows as the model sees them."""

    expected: Matrix  # (n, columns) each cell given the others of its row
    surprise: Matrix  # (n, columns) cell - expected in standard deviations; 0 where missing
    weights: Matrix  # (n, columns) by which cells counted; 0 where missing


@dataclass(frozen=True, eq=False)
class FactorModel:
    """x = center + loadings e + noise."""

    center: Vector  # (columns,)
    loadings: Matrix  # (columns, factors)
    noise: Vector  # (columns,) > 0, variances
    strict: bool = False  # whether cells that are a little odd count less, too

    @classmethod
    def fit(
        cls,
        z: Matrix,
        observed: Mask,
        rank: int,
        *,
        trusted: Mask,
        strict: bool = False,
        turns: int = _TURNS,
    ) -> FactorModel:
        """Fit rows whose columns have a scale of about 1; cells not `trusted` come in later."""
        weights = (observed & trusted).astype(np.float64)
        z = np.where(observed, z, 0.0)
        model = cls._start(z, weights, rank, strict)
        for turn in range(turns):
            if turn >= _TRUSTING:
                weights = model._explain(z, observed, weights).weights
            new = model._turn(z, weights)
            change = np.abs(np.log(new.noise / model.noise)).mean()
            model = new
            if turn > _TRUSTING and change < _SETTLED:
                break
        return model

    @classmethod
    def _start(cls, z: Matrix, weights: Matrix, rank: int, strict: bool) -> FactorModel:
        count = np.maximum(weights.sum(axis=0), 1.0)
        center = (weights * z).sum(axis=0) / count
        moved = weights * (z - center)
        variance = np.maximum((moved**2).sum(axis=0) / count, _LEAST_NOISE)
        _, lengths, axes = np.linalg.svd(moved, full_matrices=False)
        shown = max(float(weights.mean()), 1e-3)
        loadings = axes[:rank].T * (lengths[:rank] / np.sqrt(len(z) * shown))
        noise = np.maximum(variance - (loadings**2).sum(axis=1), 0.1 * variance)
        return cls(center, loadings, noise, strict)

    def explain(self, z: Matrix, observed: Mask, *, trusted: Mask) -> Explained:
        """Each cell given the others of its row, of which odd ones count less."""
        z, weights = np.where(observed, z, 0.0), (observed & trusted).astype(np.float64)
        for _ in range(_REWEIGHTINGS):
            weights = self._explain(z, observed, weights).weights
        return self._explain(z, observed, weights)

    def _explain(self, z: Matrix, observed: Mask, weights: Matrix) -> Explained:
        expected, surprise = np.empty_like(z), np.empty_like(z)
        for rows in self._chunks(len(z)):
            precision, inverse, codes = self._codes(z[rows], weights[rows])
            fitted = self.center + codes @ self.loadings.T
            left = z[rows] - fitted
            # Leaving a cell out of its own explanation: r / (1 - h), of variance noise / (1 - h).
            own = inverse.reshape(len(left), -1) @ self._products().T
            kept = np.maximum(1.0 - precision * own, 1e-6)
            trust = np.where(observed[rows], left, 0.0)
            expected[rows] = np.where(observed[rows], z[rows] - left / kept, fitted)
            surprise[rows] = trust / kept / np.sqrt(self.noise + own / kept)
        squares = (surprise / _WIDTH) ** 2
        # Both redescend. Strictly, many moderate errors cannot hide behind the noise they make.
        doubt = (1.0 + squares) ** 2 if self.strict else 1.0 + squares**2
        return Explained(expected, surprise, observed / doubt)

    def _turn(self, z: Matrix, weights: Matrix) -> FactorModel:
        """One expectation and one maximisation."""
        n, k = len(z), self.loadings.shape[1]
        grams, sides = np.zeros((z.shape[1], (k + 1) ** 2)), np.zeros((z.shape[1], k + 1))
        squares, total = np.zeros(z.shape[1]), np.zeros((k, k))
        for rows in self._chunks(n):
            _, inverse, codes = self._codes(z[rows], weights[rows])
            long = np.concatenate([np.ones((len(codes), 1)), codes], axis=1)
            moments = long[:, :, None] * long[:, None, :]
            moments[:, 1:, 1:] += inverse
            total += moments[:, 1:, 1:].sum(axis=0)
            grams += weights[rows].T @ moments.reshape(len(codes), -1)
            sides += (weights[rows] * z[rows]).T @ long
            squares += (weights[rows] * z[rows] ** 2).sum(axis=0)
        grams = grams.reshape(-1, k + 1, k + 1)
        # Loadings are a priori N(0, 1/k): columns with few cells are explained by little.
        prior = np.diag([1e-9, *np.full(k, float(k))]) * self.noise[:, None, None]
        solved = np.asarray(np.linalg.solve(grams + prior, sides[:, :, None])[:, :, 0], np.float64)
        count = np.maximum(weights.sum(axis=0), 1.0)
        left = squares - 2 * (solved * sides).sum(1)
        left += np.einsum("ja,jab,jb->j", solved, grams, solved)
        variance = np.maximum(squares / count, 1e-300)
        noise = np.maximum(left / count, _LEAST_NOISE * np.maximum(variance, 1e-6))
        root = np.linalg.cholesky(total / n + 1e-9 * np.eye(k))
        return replace(self, center=solved[:, 0], loadings=solved[:, 1:] @ root, noise=noise)

    def _codes(self, z: Matrix, weights: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """Precisions w / noise of the cells; covariances (n, k, k) and means of the scores."""
        k = self.loadings.shape[1]
        precision = weights / self.noise
        system = (precision @ self._products()).reshape(-1, k, k) + np.eye(k)
        inverse = np.asarray(np.linalg.inv(system), dtype=np.float64)
        sides = (precision * (z - self.center)) @ self.loadings
        codes: Matrix = np.einsum("nab,nb->na", inverse, sides)
        return precision, inverse, codes

    def _products(self) -> Matrix:
        """(columns, k^2) products of loadings."""
        m, k = self.loadings.shape
        return (self.loadings[:, :, None] * self.loadings[:, None, :]).reshape(m, k * k)

    def _chunks(self, n: int) -> list[slice]:
        k, m = self.loadings.shape[1], len(self.center)
        size = max(1, _CHUNK // max((k + 1) ** 2, m))
        return [slice(start, start + size) for start in range(0, n, size)]

"""RobustImputer: missing cells filled where others are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from proxlin._checks import counted
from proxlin.errors import InvalidInputError
from proxlin.estimators.estimator_settings import drawn_seed
from proxlin.estimators.low_rank.cell_fillers import FILLERS, ColumnUnits, Fillers, inside
from proxlin.estimators.low_rank.factor_model import FactorModel
from proxlin.estimators.tables import Array, Mask, Matrix, read_table

if TYPE_CHECKING:
    from typing import Self

_ROWS = 5000  # that are learned from
_HELD = 0.1  # share of the known cells that judge,
_DRAWS = 10  # as many others after them, so often at most, while those before are not clear
_WORTH, _CLEAR = 3.0, 4.0  # standard errors by which guesses must be, or clearly are, worth it
_RANKS = (1, 2, 3, 5, 8, 12, 18, 27, 40)
_WORSE = 1.02  # and one worse by this factor ends the search
_TURNS = 20  # of the factors while their number is chosen
_BETTER = 0.99  # a larger rank must be better by this factor
_PARTS = 8  # of which each filler gets some
_BOUND = 6.0  # units that an error counts for at most


class RobustImputer(
    OneToOneFeatureMixin,  # type: ignore[misc]  # scikit-learn has no types
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Fill missing cells (NaN) by what the rest of the row predicts, wrong cells left aside.

    A few latent factors, the same of the ranks of each column (a Gaussian copula), rows nearby, and
    the median of the column each say what a cell may be; they are averaged with the weights that
    predict held-out cells best. A cell that contradicts its row, however far out, counts next to
    nothing.

    Parameters
    ----------
    random_state
        Seed of the held-out cells, and of the rows that are learned from where there are more than
        5,000.

    After `fit`: `weights_` (of each way to fill a cell), `n_factors_`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 1)) @ np.ones((1, 5)) + 0.01 * rng.normal(size=(200, 5))
    >>> truth, x[3, 1], x[3, 2] = x[3, 1], np.nan, 1e6  # one cell missing, its neighbour wrong
    >>> bool(abs(RobustImputer().fit_transform(x)[3, 1] - truth) < 0.1)
    True
    """

    weights_: dict[str, float]
    n_factors_: int
    n_features_in_: int
    _units: ColumnUnits
    _fillers: Fillers
    _shares: NDArray[np.float64]
    _dtype: np.dtype[np.floating[Any]]

    def __init__(self, *, random_state: Any = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the known cells of X; `y` is ignored."""
        table = self._read(X, reset=True)
        empty = np.flatnonzero(np.isnan(table).all(axis=0))
        if len(empty):
            raise InvalidInputError(
                f"X must have a known cell in every column; {counted(len(empty), 'column')} of NaN"
                f" alone, the first is {empty[0]}. Drop them."
            )
        rng = np.random.default_rng(drawn_seed(self.random_state))
        self._units = ColumnUnits.fit(table)
        if len(table) > _ROWS:
            table = table[np.sort(rng.choice(len(table), _ROWS, replace=False))]
        z = self._units.apply(table)
        observed = ~np.isnan(z)
        z = np.where(observed, z, 0.0)
        held_out = _held_out(observed, inside(z), rng)
        self.n_factors_, strict = _choose_factors(z, observed & ~held_out[0], held_out[0])
        self._shares = _shares(z, observed, held_out, self.n_factors_, strict=strict)
        self.weights_ = dict(zip(FILLERS, self._shares.tolist(), strict=True))
        self._fillers = Fillers.fit(z, observed, self.n_factors_, strict=strict)
        return self

    def transform(self, X: Any) -> Array:
        """X with its missing cells filled; the others stay as they are."""
        check_is_fitted(self)
        table = self._read(X)
        missing = np.isnan(table)
        rows = missing.any(axis=1)
        filled = table.copy()
        if rows.any():
            filled[rows] = np.where(missing[rows], self._expected(table[rows]), table[rows])
        return filled.astype(self._dtype, copy=False)

    def _expected(self, table: Matrix) -> Matrix:
        if self._shares[0] == 1:
            return np.broadcast_to(self._units.center, table.shape)
        z = self._units.apply(table)
        observed = ~np.isnan(z)
        guesses = self._fillers.guesses(np.where(observed, z, 0.0), observed)
        return self._units.invert(np.tensordot(self._shares, guesses, axes=1))

    def _read(self, X: Any, *, reset: bool = False) -> Matrix:
        table = read_table(self, X, reset=reset, allow_nan=True, min_rows=2 if reset else 1)
        self._dtype = table.dtype
        return np.asarray(table, dtype=np.float64)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _held_out(observed: Mask, trusted: Mask, rng: np.random.Generator) -> list[Mask]:
    """Shares of the trusted cells, none in common, none the last but one of its row or column."""
    drawn = (rng.random(observed.shape) / _HELD).astype(int)
    draws = []
    for draw in range(_DRAWS):
        held = observed & trusted & (drawn == draw)
        left = observed & ~held
        held[left.sum(1) < 2] = False
        held[:, left.sum(0) < 2] = False
        draws.append(held)
    return draws


def _choose_factors(z: Matrix, shown: Mask, held: Mask) -> tuple[int, bool]:
    """How many factors, and whether with strict weights: what predicts held-out cells best."""

    def error(rank: int, *, strict: bool) -> float:
        trusted = inside(z)
        model = FactorModel.fit(z, shown, rank, trusted=trusted, strict=strict, turns=_TURNS)
        return _error(model.explain(z, shown, trusted=trusted).expected[held] - z[held])

    best, rank = np.inf, 1
    most = max(1, min(z.shape[1] - 1, len(z) // 4))
    for candidate in (r for r in _RANKS if r <= most):
        found = error(candidate, strict=True)
        if found < _BETTER * best:
            best, rank = found, candidate
        elif found > _WORSE * best:
            break
    return rank, best < error(rank, strict=False)


def _shares(
    z: Matrix, observed: Mask, held_out: list[Mask], rank: int, *, strict: bool
) -> NDArray[np.float64]:
    """Shares of the fillers by held-out cells, more of them as long as those before are not clear.

    The best of many mixtures, looked at several times, may well be better than the medians by two
    standard errors by chance; below three the medians fill all cells.
    """
    guesses, truth = np.empty((len(FILLERS), 0)), np.empty(0)
    medians = np.eye(len(FILLERS))[0]
    shares, errors_better = medians, 0.0
    for held in held_out:
        if not held.any():
            continue
        shown = observed & ~held
        judged = Fillers.fit(z, shown, rank, strict=strict).guesses(z, shown)
        guesses = np.concatenate([guesses, judged[:, held]], axis=1)
        truth = np.concatenate([truth, z[held]])
        shares = _mixture(guesses, truth)
        gain = _bounded(guesses[0] - truth) - _bounded(shares @ guesses - truth)
        errors_better = float(gain.sum() / max(gain.std() * np.sqrt(len(gain)), 1e-12))
        if errors_better > _CLEAR:
            break
    chosen: NDArray[np.float64] = shares if errors_better > _WORTH else medians
    return chosen


def _mixture(guesses: Matrix, truth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of the fillers, in eighths, by adding one part after the other where it helps most."""
    parts, total = np.zeros(len(guesses)), np.zeros(guesses.shape[1])
    for count in range(1, _PARTS + 1):
        errors = [_error((total + guess) / count - truth) for guess in guesses]
        chosen = int(np.argmin(errors))
        parts[chosen] += 1
        total = total + guesses[chosen]
    return parts / _PARTS


def _bounded(away: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.minimum(np.abs(away), _BOUND)


def _error(away: NDArray[np.float64]) -> float:
    return float(_bounded(away).mean()) if len(away) else 0.0

"""How strongly a linear or additive model is held back, as held-out rows choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from proxlin.estimators.families.additive import STRENGTHS, AdditiveModel, Ramps
from proxlin.estimators.families.folds import FoldedTable, Folds, rank_agreement
from proxlin.estimators.families.held_out_error import BETTER, HeldOutError, clipped_mean
from proxlin.estimators.robust_scale import residual_scale
from proxlin.estimators.tables import Indices, Matrix

STRAIGHT = 0.5  # share of the time after which no further linear or additive model is begun

_NONE = np.empty(0, dtype=np.intp)
_WIDE = 100  # ramps beyond which two of the folds choose
_MANY_COLUMNS = 0.5  # columns a row, beyond which allowances follow rank correlations
_FOCUSES = (0.0, 1.0, 3.0)  # powers of them
_ALLOWANCES = ((0.3, 0.1), (3.0,))  # of levels of categories, towards less and towards more
_PATIENCE, _WORSE = 2, 1.01  # weaker ridges in a row that are worse by so much end the path
_LIMIT = 3.0  # robust deviations up to which a held-out error counts there


@dataclass(frozen=True)
class Shrinkage:
    """The ridge of a linear or additive model, and whether rows far out lose their weight."""

    redescending: bool
    strength: float
    levels: float = 1.0  # allowance of levels of categories, charged strength/levels^2
    focus: float = 0.0  # power of a column's rank correlation with the target in its allowance

    @classmethod
    def of(cls, model: AdditiveModel) -> Shrinkage:
        """That of a fitted model."""
        return cls(model.redescending, model.strength, model.levels, model.focus)


@dataclass(frozen=True, eq=False)
class ShrunkenFamily:
    """Models of each fold with what they say of the rows held out, and one of all rows."""

    of_folds: list[AdditiveModel]
    held_out: Matrix  # (rows, targets) NaN for rows that were never held out
    of_all: AdditiveModel


@dataclass(frozen=True, eq=False)
class ShrinkageSearch:
    """Linear models of a table, or additive ones, by the ramps."""

    table: FoldedTable
    ramps: Ramps

    def fit(self, given: Shrinkage | None = None) -> ShrunkenFamily:
        """With the shrinkage that held-out rows choose, unless it is given."""
        folds = self.table.folds
        few = folds[:2] if len(self.ramps.owners) > _WIDE else folds
        if given is not None:
            best, models = given, [self._fitted(train, given) for train, _ in few]
        else:
            found = self._along_strengths(few)
            best = self._best(found, few)
            if self.table.roles.categories:
                best = self._best_levels(few, found, best)
            models = found[best]
        models = models + [self._fitted(train, best) for train, _ in folds[len(few) :]]
        held = np.full(self.table.z.shape, np.nan)
        for model, (_, test) in zip(models, folds, strict=True):
            held[test] = model.predict(self.table.x[test])
        return ShrunkenFamily(models, held, self._fitted(self.table.all_rows, best, fine=True))

    def _along_strengths(self, folds: Folds) -> dict[Shrinkage, list[AdditiveModel]]:
        """Models of each fold, from strong to weak until held-out rows are served worse."""
        found = {}
        wide = self.table.x.shape[1] > _MANY_COLUMNS * len(self.table.all_rows)
        for focus, mode in product(_FOCUSES if wide else (0.0,), (True, False)):
            first = Shrinkage(mode, STRENGTHS[0], 1.0, focus)
            paths = [self._path(train, first, STRENGTHS) for train, _ in folds]
            losses: list[float] = []
            limit = np.inf
            for strength in STRENGTHS:
                models = [next(path) for path in paths]
                found[replace(first, strength=strength)] = models
                residuals = self._residuals(models, folds)
                if not losses:
                    limit = _LIMIT * max(residual_scale(residuals), self.table.unit_floor)
                losses.append(clipped_mean(residuals, limit))
                if min(losses[-_PATIENCE:]) > _WORSE * min(losses) or self.table.late(STRAIGHT):
                    break
        return found

    def _best_levels(
        self,
        folds: Folds,
        found: dict[Shrinkage, list[AdditiveModel]],
        best: Shrinkage,
    ) -> Shrinkage:
        """The same strength with levels of categories charged more, or less, if that is better."""
        for allowances in _ALLOWANCES:
            for levels in allowances:
                other = replace(best, levels=levels)
                found[other] = [self._fitted(train, other) for train, _ in folds]
                if self._best({best: found[best], other: found[other]}, folds) == best:
                    break
                best = other
            if best.levels != 1.0 or self.table.late(STRAIGHT):
                break
        return best

    def _best(self, found: dict[Shrinkage, list[AdditiveModel]], folds: Folds) -> Shrinkage:
        """The first of those that are as good as the best."""
        residuals = {key: self._residuals(models, folds) for key, models in found.items()}
        error = HeldOutError.over(list(residuals.values()), self.table.unit_floor)
        errors = {key: error.of(part) for key, part in residuals.items()}
        least = min(errors.values())
        return next(key for key, error in errors.items() if error <= (1 + BETTER) * least)

    def _fitted(self, train: Indices, shrinkage: Shrinkage, *, fine: bool = False) -> AdditiveModel:
        return next(self._path(train, shrinkage, (shrinkage.strength,), fine=fine))

    def _path(
        self,
        train: Indices,
        shrinkage: Shrinkage,
        strengths: Sequence[float],
        *,
        fine: bool = False,
    ) -> Iterator[AdditiveModel]:
        rows = self.table.some(train)
        x, z = self.table.x[rows], self.table.z[rows]
        allowance = np.ones(x.shape[1])
        if shrinkage.focus:
            agreement = rank_agreement(x, z)
            allowance = (agreement / max(agreement.max(), 1e-300)) ** shrinkage.focus
        allowance[np.concatenate([_NONE, *self.table.roles.categories])] *= shrinkage.levels
        mode = shrinkage.redescending
        for model in AdditiveModel.path(
            x, z, self.ramps, strengths,
            redescending=mode, allowance=allowance, floor=self.table.floor, fine=fine,
        ):  # fmt: skip
            yield replace(model, levels=shrinkage.levels, focus=shrinkage.focus)

    def _residuals(self, models: Sequence[AdditiveModel], folds: Folds) -> Matrix:
        parts = [
            self.table.residuals(model.predict(self.table.x[test]), test)
            for model, (_, test) in zip(models, folds, strict=True)
        ]
        return np.concatenate(parts)

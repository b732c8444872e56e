"""fit_families: models of every family on folds of the rows; held-out rows choose the average."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from proxlin.app.tabular.additive import STRENGTHS, AdditiveModel, Ramps
from proxlin.app.tabular.columns import ColumnRoles, Indices, Matrix
from proxlin.app.tabular.jury import BETTER, Jury, averaging_weights
from proxlin.app.tabular.table_regressor import (
    FAMILIES,
    QUANTILES,
    FamilyFigures,
    Member,
    NetMember,
    TableRegressor,
    TreesMember,
    average,
    mean_prediction,
    tree_columns,
)
from proxlin.app.tabular.trees import BoostedTrees
from proxlin.estimators import RobustRegressor
from proxlin.estimators.scores import OutlierScale

Units = Callable[[Matrix], Matrix]

_FOLDS = 5
_FARTHEST = 1e8  # scaled targets beyond it are cut there, so that they can be squared
_MANY_ROWS = 20_000  # beyond which two of the folds are enough
_MOST_ROWS = 100_000  # that members are fitted to; linear and additive ones to a third of them
_WIDE = 100  # ramps beyond which two of the folds choose the ridge
_MOST_CURVED, _MOST_COLUMNS = 150, 1500  # encoded columns with ramps, and at all
_ENOUGH_ROWS = {"linear": 10, "additive": 40, "trees": 60, "net": 200}
_NET_WIDTHS = (32,)
_WHOLE_BATCH = 1500  # rows up to which a net is trained by few steps of all rows
_NET_CELLS = 4_000_000  # rows times ramps of a net's training rows
_NET_FOLDS = 3  # nets are the slowest
_NET_STEPS = 60
_NET_SECONDS = 10.0  # that must be given for nets to be tried beside others


def fit_families(
    x: Matrix,
    z: Matrix,
    roles: ColumnRoles,
    *,
    families: Sequence[str] = FAMILIES,
    units: Units = lambda z: z,
    seed: int = 0,
    seconds: float | None = None,
    tell: Callable[[str], None] = lambda stage: None,
) -> TableRegressor:
    """Fit the families on all folds but one, judge them on that one, and average the best.

    x (rows, encoded columns) and z (rows, targets) are scaled; `units` brings predictions into
    those in which errors are compared. Linear and additive models are fitted again to all rows;
    trees and nets are the average of their members of each fold.
    """
    z = np.clip(z, -_FARTHEST, _FARTHEST)
    columns = None
    if x.shape[1] > _MOST_COLUMNS:
        columns = _strongest(x, z, _MOST_COLUMNS, np.ones(x.shape[1], dtype=bool))
        x, roles = x[:, columns], roles.among(columns)
    search = _Search(x, z, roles, units=units, seed=seed, seconds=seconds, tell=tell)
    wanted = [name for name in families if len(x) >= _ENOUGH_ROWS[name]] or ["linear"]
    if len(wanted) > 1 and (seconds is None or seconds < _NET_SECONDS) and "net" in wanted:
        wanted.remove("net")
    straight = [name for name in ("linear", "additive") if name in wanted]
    if "additive" not in straight and {"trees", "net"} & set(wanted):
        straight.append("additive")
    for name in straight:
        search.shrunken(name)
    if "trees" in wanted:
        search.trees()
    if "net" in wanted:
        search.nets()
    model = search.chosen(wanted)
    model.columns = columns
    return model


class _Search:
    """The folds of one table, and what was found on them so far."""

    def __init__(
        self,
        x: Matrix,
        z: Matrix,
        roles: ColumnRoles,
        *,
        units: Units,
        seed: int,
        seconds: float | None,
        tell: Callable[[str], None],
    ) -> None:
        self.x, self.z, self.roles, self.units, self.seed = x, z, roles, units, seed
        self.tell = tell
        self.began = time.monotonic()
        self.seconds = seconds
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(x))[:_MOST_ROWS]
        count = min(_FOLDS, len(order))
        parts = np.array_split(order, count)
        used = parts if len(order) <= _MANY_ROWS else parts[:2]
        self.folds = [(np.setdiff1d(order, part), np.sort(part)) for part in used]
        self.all_rows = np.sort(order)
        self.judges = np.sort(np.concatenate(used))
        self.curved = np.zeros(x.shape[1], dtype=bool)
        self.curved[roles.numbers] = True
        self.tree_roles = roles
        if self.curved.sum() > _MOST_CURVED:
            strong = _strongest(x, z, _MOST_CURVED, self.curved)
            self.curved[:] = False
            self.curved[strong] = True
            self.tree_roles = ColumnRoles(strong, roles.categories[:_MOST_CURVED])
        self.ramps = {
            "linear": Ramps(tuple(np.empty(0) for _ in range(x.shape[1]))),
            "additive": Ramps.fit(x[self._some(self.all_rows)], self.curved),
        }
        self.held_out: dict[str, Matrix] = {}
        self.members: dict[str, list[Member]] = {}
        self.bases: list[AdditiveModel] = []
        self.spent: dict[str, float] = {}

    def shrunken(self, name: str) -> None:
        """The linear or the additive family: the strength of the ridge that suits held-out rows."""
        began = time.monotonic()
        self.tell(f"{name} models")
        ramps = self.ramps[name]
        settings = [(mode, strength) for mode in (True, False) for strength in STRENGTHS]
        held = np.full((len(settings), *self.z.shape), np.nan)
        wide = len(ramps.owners) > _WIDE
        compared = self.folds[:2] if wide else self.folds
        found: list[list[AdditiveModel]] = []
        for train, test in compared:
            rows = self._some(train)
            found.append([])
            for mode in (True, False):
                x, z = self.x[rows], self.z[rows]
                found[-1] += AdditiveModel.path(x, z, ramps, redescending=mode)
            for number, model in enumerate(found[-1]):
                held[number, test] = model.predict(self.x[test])
        judges = np.sort(np.concatenate([test for _, test in compared]))
        residuals = self._compared(list(held), judges)
        jury = Jury.of(residuals)
        errors = np.array([jury.error(part) for part in residuals])
        best = int(np.argmax(errors <= (1 + BETTER) * errors.min()))  # the strongest of the best
        mode, strength = settings[best]
        bases = [models[best] for models in found]
        for train, test in self.folds[len(compared) :]:
            rows = self._some(train)
            bases += AdditiveModel.path(
                self.x[rows], self.z[rows], ramps, (strength,), redescending=mode
            )
            held[best, test] = bases[-1].predict(self.x[test])
        self.held_out[name] = held[best]
        if name == "additive":
            self.bases = bases
        rows = self._some(self.all_rows)
        self.members[name] = list(
            AdditiveModel.path(
                self.x[rows], self.z[rows], ramps, (strength,), redescending=mode, fine=True
            )
        )
        self.spent[name] = time.monotonic() - began

    def trees(self) -> None:
        """Trees on what the additive model of each fold leaves."""
        began = time.monotonic()
        limit = None if self.seconds is None else self._left() / 2 / len(self.folds)
        held, members = np.full(self.z.shape, np.nan), []
        for number, ((train, test), base) in enumerate(zip(self.folds, self.bases, strict=True)):
            self.tell(f"boosted trees, {number + 1} of {len(self.folds)}")
            start = time.monotonic()

            def out_of_time(start: float = start) -> bool:
                return limit is not None and time.monotonic() - start > limit

            residuals = [self.z[rows] - base.predict(self.x[rows]) for rows in (train, test)]
            grown = []
            for target in range(self.z.shape[1]):
                fitted, judged = (
                    (tree_columns(self.x[rows], base, self.tree_roles, target), away[:, target])
                    for rows, away in zip((train, test), residuals, strict=True)
                )
                grown.append(
                    BoostedTrees.fit(
                        fitted,
                        judged,
                        redescending=base.redescending,
                        seed=self.seed + number,
                        out_of_time=out_of_time,
                    )
                )
            member = TreesMember(base, tuple(grown), self.tree_roles)
            held[test] = member.predict(self.x[test])
            members.append(member)
        self.held_out["trees"], self.members["trees"] = held, list(members)
        self.spent["trees"] = time.monotonic() - began

    def nets(self) -> None:
        """Nets on the ramps; rows that do not fit lose their weight."""
        began = time.monotonic()
        ramps = self.ramps["additive"]
        folds = self.folds[:_NET_FOLDS]
        seconds = None if self.seconds is None else self._left() / len(folds) / 2
        most = max(1000, _NET_CELLS // max(1, len(ramps.owners)))
        held, members = np.full(self.z.shape, np.nan), []
        for number, (train, test) in enumerate(folds):
            self.tell(f"nets, {number + 1} of {len(folds)}")
            rows = train[:: -(-len(train) // most)]
            net = RobustRegressor(
                1.0,
                hidden=_NET_WIDTHS,
                reweight=True,
                scaling=False,
                max_iter=_NET_STEPS if len(rows) <= _WHOLE_BATCH else None,
                max_seconds=seconds,
                random_state=self.seed + number,
            )
            net.fit(ramps.apply(self.x[rows]), self.z[rows])
            members.append(NetMember(ramps, net))
            held[test] = members[-1].predict(self.x[test])
        self.held_out["net"], self.members["net"] = held, list(members)
        self.judges = np.intersect1d(self.judges, np.concatenate([test for _, test in folds]))
        self.spent["net"] = time.monotonic() - began

    def chosen(self, wanted: Sequence[str]) -> TableRegressor:
        """The average of families that suits the held-out rows best."""
        names = [name for name in FAMILIES if name in self.held_out and name in wanted]
        residuals = self._compared([self.held_out[name] for name in names], self.judges)
        jury = Jury.of(residuals)
        answers = dict(zip(names, residuals, strict=True))
        weights = averaging_weights(answers, jury)
        figures = [
            FamilyFigures(name, jury.error(answers[name]), weights.get(name, 0.0), self.spent[name])
            for name in names
        ]
        members = {name: self.members[name] for name in names if name in weights}
        held = average([(weights[name], self.held_out[name]) for name in members])
        missing = np.isnan(held[:, 0])
        if missing.any():
            rest = self.x[missing]
            held[missing] = average(
                [(weights[n], mean_prediction(m, rest)) for n, m in members.items()]
            )
        away = self.z - held
        scale = OutlierScale.fit(np.abs(away[self.judges]).sum(axis=1))
        good = ~scale.flags(scale.scores(np.abs(away).sum(axis=1)))
        good &= np.isin(np.arange(len(good)), self.judges)
        quantiles = np.quantile(away[good], QUANTILES, axis=0)
        if "additive" in self.members and "additive" not in members:
            members["additive"], weights["additive"] = (
                self.members["additive"],
                0.0,
            )  # for its curves
        return TableRegressor(
            self.tree_roles, members, weights, figures, scale, quantiles,
            time.monotonic() - self.began, held,
        )  # fmt: skip

    def _compared(self, scaled: list[Matrix], judges: Indices) -> list[Matrix]:
        """Held-out residuals in the units in which errors are compared."""
        truth = self.units(self.z[judges])
        return [truth - self.units(part[judges]) for part in scaled]

    def _some(self, rows: Indices) -> Indices:
        return rows if len(rows) <= _MOST_ROWS // 3 else rows[:: -(-len(rows) * 3 // _MOST_ROWS)]

    def _left(self) -> float:
        assert self.seconds is not None
        return max(0.1, self.seconds - (time.monotonic() - self.began))


def _strongest(x: Matrix, z: Matrix, count: int, among: NDArray[np.bool_]) -> Indices:
    """The columns whose ranks go best with the ranks of a target."""
    columns = np.flatnonzero(among)
    targets = z.argsort(axis=0).argsort(axis=0).astype(np.float64)
    targets -= targets.mean(axis=0)
    strength = np.zeros(len(columns))
    for place, column in enumerate(columns):
        ranks = x[:, column].argsort().argsort().astype(np.float64)
        strength[place] = np.abs((ranks - ranks.mean()) @ targets).max()
    return np.sort(columns[np.argsort(-strength, kind="stable")[:count]])

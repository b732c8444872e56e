"""fit_families: models of every family on folds of the rows; held-out rows choose the average."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from proxlin.app.tabular.additive import AdditiveModel, Ramps
from proxlin.app.tabular.columns import ColumnRoles, Matrix
from proxlin.app.tabular.folds import FoldedTable, Units, strongest_columns
from proxlin.app.tabular.jury import Jury, averaging_weights
from proxlin.app.tabular.shrinkage import STRAIGHT, Shrinkage, ShrinkageSearch
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

_FARTHEST = 1e8  # scaled targets beyond it are cut there, so that they can be squared
_MOST_CURVED = 150  # encoded columns with ramps
_FEWEST_COLUMNS, _MOST_CELLS = 1000, 4_000_000  # encoded columns that are used, and their cells
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
    like: TableRegressor | None = None,
) -> TableRegressor:
    """Fit the families on all folds but one, judge them on that one, and average the best.

    x (rows, encoded columns) and z (rows, targets) are scaled; `units` brings predictions into
    those in which errors are compared. Linear and additive models are fitted again to all rows;
    trees and nets are the average of their members of each fold. With `seconds`, families that
    there is no time for are left out, the linear one never. `like` is a model of some of these
    rows whose shrinkage is taken over.
    """
    z = np.clip(z, -_FARTHEST, _FARTHEST)
    columns = None
    most = max(_FEWEST_COLUMNS, _MOST_CELLS // len(x))
    if x.shape[1] > most:
        columns = strongest_columns(x, z, most, np.ones(x.shape[1], dtype=bool))
        x, roles = x[:, columns], roles.among(columns)
    models = {} if like is None else like.straight
    given = {name: Shrinkage.of(model) for name, model in models.items()}
    table = FoldedTable(x, z, roles, units=units, seed=seed, seconds=seconds)
    search = _Search(table, tell)
    wanted = [name for name in families if len(x) >= _ENOUGH_ROWS[name]] or ["linear"]
    if len(wanted) > 1 and (seconds is None or seconds < _NET_SECONDS) and "net" in wanted:
        wanted.remove("net")
    straight = [name for name in ("linear", "additive") if name in wanted]
    if "additive" not in straight and {"trees", "net"} & set(wanted):
        straight.append("additive")
    for name in straight:
        if name == straight[0] or not table.late(STRAIGHT):
            search.shrunken(name, given.get(name))
    if "trees" in wanted and search.bases:
        search.trees()
    if "net" in wanted:
        search.nets()
    model = search.chosen(wanted)
    model.columns = columns
    return model


class _Search:
    """What was found on the folds of one table so far."""

    def __init__(self, table: FoldedTable, tell: Callable[[str], None]) -> None:
        self.table, self.tell = table, tell
        x, roles = table.x, table.roles
        curved = np.zeros(x.shape[1], dtype=bool)
        curved[roles.numbers] = True
        self.tree_roles = roles
        if curved.sum() > _MOST_CURVED:
            strong = strongest_columns(x, table.z, _MOST_CURVED, curved)
            curved[:] = False
            curved[strong] = True
            self.tree_roles = ColumnRoles(strong, roles.categories[:_MOST_CURVED])
        self.ramps = {
            "linear": Ramps(tuple(np.empty(0) for _ in range(x.shape[1]))),
            "additive": Ramps.fit(x[table.some(table.all_rows)], curved),
        }
        self.judges = table.judges
        self.held_out: dict[str, Matrix] = {}
        self.members: dict[str, list[Member]] = {}
        self.bases: list[AdditiveModel] = []
        self.spent: dict[str, float] = {}

    def shrunken(self, name: str, given: Shrinkage | None) -> None:
        """The linear or the additive family."""
        began = time.monotonic()
        self.tell(f"{name} models")
        family = ShrinkageSearch(self.table, self.ramps[name]).fit(given)
        self.held_out[name], self.members[name] = family.held_out, [family.of_all]
        if name == "additive":
            self.bases = family.of_folds
        self.spent[name] = time.monotonic() - began

    def trees(self) -> None:
        """Trees on what the additive model of each fold leaves."""
        table = self.table
        began = time.monotonic()
        left = table.seconds_left()
        limit = None if left is None else left / 2 / len(table.folds)
        held, members = np.full(table.z.shape, np.nan), []
        for number, ((train, test), base) in enumerate(zip(table.folds, self.bases, strict=True)):
            self.tell(f"boosted trees, {number + 1} of {len(table.folds)}")
            start = time.monotonic()

            def out_of_time(start: float = start) -> bool:
                return limit is not None and time.monotonic() - start > limit

            residuals = [table.z[rows] - base.predict(table.x[rows]) for rows in (train, test)]
            grown = []
            for target in range(table.z.shape[1]):
                fitted, judged = (
                    (
                        tree_columns(table.x[rows], base, self.tree_roles, target),
                        away[:, target],
                    )
                    for rows, away in zip((train, test), residuals, strict=True)
                )
                grown.append(
                    BoostedTrees.fit(
                        fitted,
                        judged,
                        redescending=base.redescending,
                        seed=table.seed + number,
                        out_of_time=out_of_time,
                        floor=table.floor,
                    )
                )
            member = TreesMember(base, tuple(grown), self.tree_roles)
            held[test] = member.predict(table.x[test])
            members.append(member)
        self.held_out["trees"], self.members["trees"] = held, list(members)
        self.spent["trees"] = time.monotonic() - began

    def nets(self) -> None:
        """Nets on the ramps; rows that do not fit lose their weight."""
        table = self.table
        began = time.monotonic()
        ramps = self.ramps["additive"]
        folds = table.folds[:_NET_FOLDS]
        left = table.seconds_left()
        seconds = None if left is None else left / len(folds) / 2
        most = max(1000, _NET_CELLS // max(1, len(ramps.owners)))
        held, members = np.full(table.z.shape, np.nan), []
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
                random_state=table.seed + number,
            )
            net.fit(ramps.apply(table.x[rows]), table.z[rows])
            members.append(NetMember(ramps, net))
            held[test] = members[-1].predict(table.x[test])
        self.held_out["net"], self.members["net"] = held, list(members)
        self.judges = np.intersect1d(self.judges, np.concatenate([test for _, test in folds]))
        self.spent["net"] = time.monotonic() - began

    def chosen(self, wanted: Sequence[str]) -> TableRegressor:
        """The average of families that suits the held-out rows best."""
        table = self.table
        names = [name for name in FAMILIES if name in self.held_out and name in wanted]
        residuals = [
            table.residuals(self.held_out[name][self.judges], self.judges) for name in names
        ]
        jury = Jury.of(residuals, table.unit_floor)
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
            rest = table.x[missing]
            held[missing] = average(
                [(weights[n], mean_prediction(m, rest)) for n, m in members.items()]
            )
        away = table.z - held
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
            time.monotonic() - table.began, held,
        )  # fmt: skip

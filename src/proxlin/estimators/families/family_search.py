"""fit_families: models of every family on folds of the rows; held-out rows choose the average."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from proxlin.estimators.families.additive import AdditiveModel, Ramps
from proxlin.estimators.families.folds import (
    ColumnRoles,
    FoldedTable,
    Units,
    strongest_columns,
)
from proxlin.estimators.families.forest import Forest
from proxlin.estimators.families.held_out_error import HeldOutError, averaging_weights
from proxlin.estimators.families.kernel import KernelSurface
from proxlin.estimators.families.shrinkage import STRAIGHT, Shrinkage, ShrinkageSearch
from proxlin.estimators.families.table_regressor import (
    FAMILIES,
    QUANTILES,
    ColumnMember,
    ColumnModel,
    FamilyFigures,
    Member,
    NetMember,
    TableRegressor,
    average,
    mean_prediction,
    tree_columns,
)
from proxlin.estimators.families.trees import BoostedTrees, Part
from proxlin.estimators.families.usual_values import usual_ranges
from proxlin.estimators.regression.regressor import RobustRegressor
from proxlin.estimators.scores import OutlierScale
from proxlin.estimators.tables import Indices, Matrix

_FARTHEST = 1e8  # scaled targets beyond it are cut there, so that they can be squared
_MOST_CURVED = 150  # encoded columns with ramps
_FEWEST_COLUMNS, _MOST_CELLS = 1000, 4_000_000  # encoded columns that are used, and their cells
_STRAIGHT = ("linear", "additive")
_ENOUGH_ROWS = {"linear": 10, "additive": 40, "kernel": 40, "trees": 60, "forest": 100, "net": 200}
_MOST_LEVELS = 60  # of the smallest categories, which trees and kernels see one by one
_SEEDS = 2**32
_FOREST = 0.8  # share of the time after which no forest is begun
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
    there is no time for are left out, the linear one never. Cells far out count as the outermost
    usual ones. Rows with a code for "unknown" as a target are predicted, but teach and judge
    nothing. `like` is a model of some of these rows whose shrinkage is taken over.
    """
    z = np.clip(z, -_FARTHEST, _FARTHEST)
    columns = None
    most = max(_FEWEST_COLUMNS, _MOST_CELLS // len(x))
    if x.shape[1] > most:
        columns = strongest_columns(x, z, most, np.ones(x.shape[1], dtype=bool))
        x, roles = x[:, columns], roles.among(columns)
    ranges = usual_ranges(x)
    x = np.clip(x, *ranges)
    models = {} if like is None else like.straight
    given = {name: Shrinkage.of(model) for name, model in models.items()}
    table = FoldedTable(x, z, roles, units=units, seed=seed, seconds=seconds)
    search = _Search(table, tell)
    wanted = [name for name in families if table.uncoded.sum() >= _ENOUGH_ROWS[name]] or ["linear"]
    if len(wanted) > 1 and (seconds is None or seconds < _NET_SECONDS) and "net" in wanted:
        wanted.remove("net")
    straight = [
        name for name in _STRAIGHT if name in wanted or {"kernel", "trees", "forest"} & set(wanted)
    ]
    for name in straight:
        if name == straight[0] or not table.late(STRAIGHT):
            search.shrunken(name, given.get(name))
    if search.bases and "kernel" in wanted:
        search.kernels()
    if search.bases and "trees" in wanted:
        search.trees()
    alone = wanted == ["forest"]
    if search.bases and "forest" in wanted and (alone or not table.late(_FOREST)):
        search.forests(alone=alone)
    if "net" in wanted:
        search.nets()
    model = search.chosen(wanted)
    model.columns, model.ranges = columns, ranges
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
        self.tree_roles = _with_levels(self.tree_roles)
        self.ramps = {
            "linear": Ramps(tuple(np.empty(0) for _ in range(x.shape[1]))),
            "additive": Ramps.fit(x[table.some(table.all_rows)], curved),
        }
        self.scored_rows = table.scored_rows
        self.held_out: dict[str, Matrix] = {}
        self.members: dict[str, list[Member]] = {}
        self.bases: list[AdditiveModel] = []  # the better of linear and additive, of each fold
        self.spent: dict[str, float] = {}

    def shrunken(self, name: str, given: Shrinkage | None) -> None:
        """The linear or the additive family."""
        began = time.monotonic()
        self.tell(f"{name} models")
        family = ShrinkageSearch(self.table, self.ramps[name]).fit(given)
        self.held_out[name], self.members[name] = family.held_out, [family.of_all]
        error, residuals = self._judged(self.held_out)
        if name == min(residuals, key=lambda family: error.of(residuals[family])):
            self.bases = family.of_folds
        self.spent[name] = time.monotonic() - began

    def _judged(self, names: Iterable[str]) -> tuple[HeldOutError, dict[str, Matrix]]:
        """(the error that compares these families, their residuals), on held-out rows."""
        residuals = {
            name: self.table.residuals(self.held_out[name][self.scored_rows], self.scored_rows)
            for name in names
        }
        return HeldOutError.over(list(residuals.values()), self.table.unit_floor), residuals

    def kernels(self) -> None:
        """Surfaces for what the linear or additive model of each fold leaves."""
        began = time.monotonic()
        self.tell("kernel surfaces")
        shares = [self._shares(base) for base in self.bases]
        surfaces = [
            KernelSurface.fit(folds, [share[target] for share in shares], **settings)
            for target, (folds, settings) in enumerate(self._to_correct(began))
        ]
        self._keep("kernel", self._members(zip(*surfaces, strict=True)), began)

    def trees(self) -> None:
        """Trees for what the linear or additive model of each fold leaves."""
        began = time.monotonic()
        self.tell("boosted trees")
        trees = [BoostedTrees.fit(folds, **settings) for folds, settings in self._to_correct(began)]
        self._keep("trees", self._members(zip(*trees, strict=True)), began)

    def forests(self, *, alone: bool) -> None:
        """Forests for the targets themselves; none if time runs out, unless they are alone."""
        began = time.monotonic()
        self.tell("forests")
        table, grown = self.table, []
        for number, ((train, _), base) in enumerate(zip(table.folds, self.bases, strict=True)):
            forests = []
            for target in range(table.z.shape[1]):
                if not alone and table.late(1.0):
                    return
                columns, left = self._left_over(train, base, target)
                z = table.z[train, target]
                forests.append(
                    Forest.fit(
                        columns,
                        z,
                        z - left,
                        redescending=base.redescending,
                        seed=(table.seed + number) % _SEEDS,
                        floor=table.floor,
                    )
                )
            grown.append(tuple(forests))
        self._keep("forest", self._members(grown), began)

    def _to_correct(self, began: float) -> Iterator[tuple[list[tuple[Part, Part]], dict[str, Any]]]:
        """For each target what is left of the rows of each fold, and how to fit it."""
        table = self.table
        left = table.seconds_left()
        settings = {
            "redescending": self.bases[0].redescending,
            "seed": table.seed,
            "out_of_time": lambda: left is not None and time.monotonic() - began > left / 2,
            "floor": table.floor,
        }
        for target in range(table.z.shape[1]):
            folds = [
                (self._left_over(train, base, target), self._left_over(test, base, target))
                for (train, test), base in zip(table.folds, self.bases, strict=True)
            ]
            yield folds, settings

    def _shares(self, base: AdditiveModel) -> Matrix:
        """How much each column that kernels see adds in the base: (targets, columns)."""
        some = self.table.x[self.table.some(self.table.all_rows)]
        groups = [np.array([j]) for j in self.tree_roles.numbers] + [*self.tree_roles.categories]
        return np.column_stack([base.effects(some, group).std(axis=0) for group in groups])

    def _left_over(self, rows: Indices, base: AdditiveModel, target: int) -> Part:
        """What trees and kernels see of these rows, and what the base leaves of them."""
        x, z = self.table.x[rows], self.table.z[rows]
        columns = tree_columns(x, base, self.tree_roles, target)
        return columns, (z - base.predict(x))[:, target]

    def _members(self, parts: Iterable[tuple[ColumnModel, ...]]) -> list[ColumnMember]:
        """The base of each fold with the parts of its targets."""
        pairs = zip(self.bases, parts, strict=True)
        return [ColumnMember(base, own, self.tree_roles) for base, own in pairs]

    def _keep(self, name: str, members: Sequence[Member], began: float) -> None:
        """The members of the first folds, or of all, and what they say of the rows held out."""
        table, held = self.table, np.full(self.table.z.shape, np.nan)
        for member, (_, test) in zip(members, table.folds, strict=False):
            held[test] = member.predict(table.x[test])
        self.held_out[name], self.members[name] = held, list(members)
        self.spent[name] = time.monotonic() - began

    def nets(self) -> None:
        """Nets on the ramps; rows that do not fit lose their weight."""
        table = self.table
        began = time.monotonic()
        ramps = self.ramps["additive"]
        folds = table.folds[:_NET_FOLDS]
        left = table.seconds_left()
        seconds = None if left is None else left / len(folds) / 2
        most = max(1000, _NET_CELLS // max(1, len(ramps.owners)))
        members = []
        for number, (train, _) in enumerate(folds):
            self.tell(f"nets, {number + 1} of {len(folds)}")
            rows = train[:: -(-len(train) // most)]
            net = RobustRegressor(
                1.0,
                hidden=_NET_WIDTHS,
                reweight=True,
                scaling=False,
                max_iter=_NET_STEPS if len(rows) <= _WHOLE_BATCH else None,
                max_seconds=seconds,
                random_state=(table.seed + number) % _SEEDS,
            )
            net.fit(ramps.apply(table.x[rows]), table.z[rows])
            members.append(NetMember(ramps, net))
        self._keep("net", members, began)
        self.scored_rows = np.intersect1d(
            self.scored_rows, np.concatenate([test for _, test in folds])
        )

    def chosen(self, wanted: Sequence[str]) -> TableRegressor:
        """The average of families that suits the held-out rows best."""
        table = self.table
        names = [name for name in FAMILIES if name in self.held_out and name in wanted]
        error, answers = self._judged(names)
        weights = averaging_weights(answers, error)
        figures = [
            FamilyFigures(name, error.of(answers[name]), weights.get(name, 0.0), self.spent[name])
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
        scale = OutlierScale.fit(np.abs(away[self.scored_rows]).sum(axis=1))
        scale = replace(scale, spread=max(scale.spread, table.floor))
        good = ~scale.flags(scale.scores(np.abs(away).sum(axis=1)))
        good &= np.isin(np.arange(len(good)), self.scored_rows)
        quantiles = np.quantile(away[good], QUANTILES, axis=0)
        for name in _STRAIGHT:  # for its curves, and for another fit like this one
            if name in self.members and name not in members:
                members[name], weights[name] = self.members[name], 0.0
        return TableRegressor(
            self.tree_roles, members, weights, figures, scale, quantiles,
            time.monotonic() - table.began, held,
        )  # fmt: skip


def _with_levels(roles: ColumnRoles) -> ColumnRoles:
    """The same, with the single levels of the smallest categories as numbers besides."""
    levels, count = [roles.numbers], 0
    for category in sorted(roles.categories, key=len):
        count += len(category)
        if count > _MOST_LEVELS:
            break
        levels.append(category)
    return ColumnRoles(np.concatenate(levels), roles.categories)

"""TableRegressor: linear, additive, trees and nets, averaged as held-out rows say."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from proxlin.app.tabular.additive import STRENGTHS, AdditiveModel, Ramps, residual_scale
from proxlin.app.tabular.columns import Matrix, Vector
from proxlin.app.tabular.trees import BoostedTrees
from proxlin.estimators import RobustRegressor
from proxlin.estimators.scores import OutlierScale
from proxlin.estimators.state import estimator_state, restore_estimator

FAMILIES = ("linear", "additive", "trees", "net")

_BARE = {"strength": 0.0, "redescending": True, "gap": 0.0}  # of a model that only has ramps
_OF_TRAINING = ("outlier_scores", "outliers", "row_weights")  # not kept of nets

Units = Callable[[Matrix], Matrix]
Indices = NDArray[np.intp]

_FOLDS = 5
_FARTHEST = 1e8  # scaled targets beyond it are cut there, so that they can be squared
_MANY_ROWS = 20_000  # beyond which two of the folds are enough
_MOST_ROWS = 100_000  # that members are fitted to; linear and additive ones to a third of them
_WIDE = 100  # ramps beyond which two of the folds choose the ridge
_MOST_CURVED, _MOST_COLUMNS = 150, 1500  # encoded columns with ramps, and at all
_ENOUGH_ROWS = {"linear": 10, "additive": 40, "trees": 60, "net": 200}
_EXPLAINED, _LOUDEST = 3.0, 10.0  # robust deviations of a row that counts, and of its error
_ROUNDS = 12  # of the choice; weights are multiples of its inverse
_BETTER = 1e-3  # share of the held-out error that a weaker ridge or a further member must save
_NET_WIDTHS = (32,)
_WHOLE_BATCH = 1500  # rows up to which a net is trained by few steps of all rows
_NET_CELLS = 4_000_000  # rows times ramps of a net's training rows
_SCALE_ROWS, _SCALE_STRENGTH = 2000, 0.03  # for the choice between scales of a target
_NET_FOLDS = 3  # nets are the slowest
_NET_STEPS = 60
_NET_SECONDS = 10.0  # that must be given for nets to be tried beside others
_QUANTILES = np.linspace(0.005, 0.995, 199)  # of held-out residuals, for intervals


@dataclass(frozen=True, eq=False)
class ColumnRoles:
    """Which encoded columns are numbers, and which belong to one category."""

    numbers: Indices
    categories: tuple[Indices, ...] = ()

    def among(self, columns: Indices) -> ColumnRoles:
        """The same for these columns alone, renumbered."""
        places = {int(column): place for place, column in enumerate(columns)}
        parts = [
            np.array([places[int(c)] for c in part if int(c) in places], dtype=np.intp)
            for part in (self.numbers, *self.categories)
        ]
        return ColumnRoles(parts[0], tuple(part for part in parts[1:] if len(part)))


@dataclass(frozen=True)
class FamilyFigures:
    """How a family did on rows that its members had not seen."""

    family: str
    held_out_error: float  # robust mean, in robust deviations of the targets
    weight: float  # in the average
    seconds: float


@dataclass(frozen=True)
class SearchResult:
    """What a search came to, in the words of other results."""

    status: str
    objective: float  # the held-out error of the average
    iterations: int  # members that were fitted
    seconds: float


@dataclass(frozen=True, eq=False)
class TreesMember:
    """An additive model and, for each target, trees for what it leaves."""

    base: AdditiveModel
    trees: tuple[BoostedTrees, ...]
    roles: ColumnRoles

    def predict(self, x: Matrix) -> Matrix:
        """(rows, targets)."""
        answers = self.base.predict(x)
        for target, trees in enumerate(self.trees):
            answers[:, target] += trees.predict(tree_columns(x, self.base, self.roles, target))
        return answers


@dataclass(frozen=True, eq=False)
class NetMember:
    """A net on the ramps of an additive model."""

    ramps: Ramps
    net: RobustRegressor

    def predict(self, x: Matrix) -> Matrix:
        """(rows, targets)."""
        answers: Matrix = self.net.predict(self.ramps.apply(x))
        return answers.reshape(len(x), -1)


Member = AdditiveModel | TreesMember | NetMember


@dataclass(eq=False)
class TableRegressor:
    """Members of each family that takes part, its weight, and what held-out rows say of them."""

    roles: ColumnRoles  # of the columns that trees see
    members: dict[str, list[Member]]
    weights: dict[str, float]
    figures: list[FamilyFigures]
    outlier_scale_: OutlierScale
    quantiles: Matrix  # (199, targets) of held-out residuals, z minus prediction
    seconds: float
    held_out: Matrix = field(repr=False)  # (rows, targets) predictions of rows by others' members
    columns: Indices | None = None  # of the encoded ones that are used; None: all
    p: float = 1.0

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided, in sentences."""
        if self.columns is None:
            return ()
        return (
            f"Of the encoded columns only the {len(self.columns):,} were used whose ranks go best"
            " with the target.",
        )

    def predict(self, x: Matrix) -> Matrix:
        """(rows, targets), scaled."""
        if self.columns is not None:
            x = x[:, self.columns]
        return _average(
            [(self.weights[name], _mean(members, x)) for name, members in self.members.items()]
        )

    def bounds(self, x: Matrix, coverage: float) -> tuple[Matrix, Matrix]:
        """Between which the targets of that share of good rows lie, scaled."""
        middle = self.predict(x)
        shares = (0.5 - coverage / 2, 0.5 + coverage / 2)
        low, high = (
            np.array([np.interp(share, _QUANTILES, column) for column in self.quantiles.T])
            for share in shares
        )
        return middle + low, middle + high

    @property
    def result_(self) -> SearchResult:
        """How the choice was made."""
        shares = ", ".join(f"{n} {w:.0%}" for n, w in self.weights.items() if w)
        status = f"Held-out rows chose the average of {shares}."
        if len([weight for weight in self.weights.values() if weight]) == 1:
            status = f"Held-out rows chose the {shares.rsplit(' ', 1)[0]} family."
        if len(self.figures) == 1:
            status = f"The {self.figures[0].family} family was asked for."
        best = min(figures.held_out_error for figures in self.figures)
        return SearchResult(status, best, sum(map(len, self.members.values())), self.seconds)

    @property
    def additive(self) -> AdditiveModel | None:
        """The additive model of all rows, if one was fitted."""
        members = self.members.get("additive")
        return members[0] if members else None  # type: ignore[return-value]


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


def compare_scales(
    x: Matrix,
    targets: Sequence[Vector],
    units: Sequence[Units],
    roles: ColumnRoles,
    seed: int,
) -> list[float]:
    """The held-out error of an additive model of one target on each of its scales."""
    order = np.random.default_rng(seed).permutation(len(x))[:_SCALE_ROWS]
    parts = np.array_split(order, min(3, len(order)))
    curved = np.zeros(x.shape[1], dtype=bool)
    curved[roles.numbers[:_MOST_CURVED]] = True
    ramps = Ramps.fit(x[order], curved)
    residuals = []
    for z, plain in zip(targets, units, strict=True):
        away: dict[bool, list[Vector]] = {True: [], False: []}
        for part in parts:
            rest = np.setdiff1d(order, part)
            for mode in (True, False):
                (model,) = AdditiveModel.path(
                    x[rest], z[rest, None], ramps, (_SCALE_STRENGTH,), redescending=mode
                )
                away[mode].append(plain(z[part]) - plain(model.predict(x[part])[:, 0]))
        residuals.append([np.concatenate(parts) for parts in away.values()])
    jury = Jury.of([part[:, None] for modes in residuals for part in modes])
    return [min(jury.error(part[:, None]) for part in modes) for modes in residuals]


def tree_columns(x: Matrix, base: AdditiveModel, roles: ColumnRoles, target: int) -> Matrix:
    """Numbers as they are, and each category as what its level adds in the additive model."""
    effects = [base.effects(x, columns)[:, target] for columns in roles.categories]
    return np.column_stack([x[:, roles.numbers], *effects])


@dataclass(frozen=True, eq=False)
class Jury:
    """Which held-out rows have a say, and how loud: a mean error that wrong rows cannot decide.

    Rows that no candidate predicts within three deviations do not count; of the others an error
    counts up to ten, so that a candidate which gives the far ends of a skewed target up is seen.
    """

    voters: NDArray[np.bool_]  # (rows, targets)
    scales: Vector  # (targets,) of the narrowest candidate

    @classmethod
    def of(cls, residuals: Sequence[Matrix]) -> Jury:
        """For candidates with these residuals."""
        scales = np.min([[residual_scale(c) for c in part.T] for part in residuals], axis=0)
        nearest = np.min([np.abs(part) for part in residuals], axis=0)
        return cls(nearest <= _EXPLAINED * scales, scales)

    def error(self, residuals: Matrix) -> float:
        """The mean over targets of the mean error."""
        clipped = np.minimum(np.abs(residuals), _LOUDEST * self.scales)
        count = np.maximum(self.voters.sum(axis=0), 1)
        return float((np.where(self.voters, clipped, 0.0).sum(axis=0) / count).mean())


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
        best = int(np.argmax(errors <= (1 + _BETTER) * errors.min()))  # the strongest of the best
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
        weights = _weights(answers, jury)
        figures = [
            FamilyFigures(name, jury.error(answers[name]), weights.get(name, 0.0), self.spent[name])
            for name in names
        ]
        members = {name: self.members[name] for name in names if name in weights}
        held = _average([(weights[name], self.held_out[name]) for name in members])
        missing = np.isnan(held[:, 0])
        if missing.any():
            rest = self.x[missing]
            held[missing] = _average([(weights[n], _mean(m, rest)) for n, m in members.items()])
        away = self.z - held
        scale = OutlierScale.fit(np.abs(away[self.judges]).sum(axis=1))
        good = ~scale.flags(scale.scores(np.abs(away).sum(axis=1)))
        good &= np.isin(np.arange(len(good)), self.judges)
        quantiles = np.quantile(away[good], _QUANTILES, axis=0)
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


def regressor_state(model: TableRegressor) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plain values and arrays of a model, as a folder keeps them."""
    values: dict[str, Any] = {
        "kind": "TableRegressor",
        "weights": model.weights,
        "figures": [vars(figures) for figures in model.figures],
        "outlier_scale": [
            model.outlier_scale_.center, model.outlier_scale_.spread, model.outlier_scale_.cutoff,
        ],
        "seconds": model.seconds,
        "members": {name: [] for name in model.members},
    }  # fmt: skip
    arrays: dict[str, Any] = {"quantiles": model.quantiles, "numbers": model.roles.numbers}
    if model.columns is not None:
        arrays["columns"] = model.columns
    arrays |= {f"category.{k}": columns for k, columns in enumerate(model.roles.categories)}
    for name, members in model.members.items():
        for number, member in enumerate(members):
            plain, parts = _member_state(member)
            values["members"][name].append(plain)
            arrays |= {f"{name}.{number}.{key}": value for key, value in parts.items()}
    return values, arrays


def restore_regressor(values: dict[str, Any], arrays: dict[str, Any]) -> TableRegressor:
    """What `regressor_state` took apart; held-out predictions of training rows are not kept."""
    plain = {name: array.numpy() for name, array in arrays.items() if ".net." not in name}
    count = sum(name.startswith("category.") for name in plain)
    roles = ColumnRoles(plain["numbers"], tuple(plain[f"category.{k}"] for k in range(count)))
    members: dict[str, list[Member]] = {}
    for name, parts in values["members"].items():
        members[name] = []
        for number, part in enumerate(parts):
            before = f"{name}.{number}."
            own = {k.removeprefix(before): v for k, v in arrays.items() if k.startswith(before)}
            members[name].append(_restore_member(name, part, own, roles))
    return TableRegressor(
        roles,
        members,
        {name: float(weight) for name, weight in values["weights"].items()},
        [FamilyFigures(**figures) for figures in values["figures"]],
        OutlierScale(*values["outlier_scale"]),
        plain["quantiles"],
        values["seconds"],
        np.empty((0, plain["quantiles"].shape[1])),
        plain.get("columns"),
    )


def _member_state(member: Member) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(member, AdditiveModel):
        return member.state()
    if isinstance(member, NetMember):
        values, parts = estimator_state(member.net)
        none = np.zeros((len(member.ramps.owners), 0))
        bare = AdditiveModel(member.ramps, none, np.empty(0), 0.0, True, 0.0)
        arrays = {f"ramps.{key}": value for key, value in bare.state()[1].items()}
        kept = {
            k: v for k, v in parts.items() if k not in ("outlier_scores", "outliers", "row_weights")
        }
        return values, arrays | {f"net.{key}": value for key, value in kept.items()}
    values, parts = member.base.state()
    arrays = {f"base.{key}": value for key, value in parts.items()}
    for target, trees in enumerate(member.trees):
        arrays |= {f"{target}.{key}": value for key, value in trees.state().items()}
    return {**values, "targets": len(member.trees)}, arrays


def _restore_member(
    name: str, values: dict[str, Any], arrays: dict[str, Any], roles: ColumnRoles
) -> Member:
    def below(before: str, *, tensors: bool = False) -> dict[str, Any]:
        return {
            key.removeprefix(before): array if tensors else array.numpy()
            for key, array in arrays.items()
            if key.startswith(before)
        }

    if name == "net":
        bare = AdditiveModel.restore(_BARE, below("ramps."))
        parts = below("net.", tensors=True)
        parts |= dict.fromkeys(_OF_TRAINING, torch.empty(0))
        net = restore_estimator(values, parts)
        assert isinstance(net, RobustRegressor)
        return NetMember(bare.ramps, net)
    if name == "trees":
        base = AdditiveModel.restore(values, below("base."))
        trees = tuple(BoostedTrees.restore(below(f"{k}.")) for k in range(values["targets"]))
        return TreesMember(base, trees, roles)
    return AdditiveModel.restore(values, below(""))


def _weights(residuals: dict[str, Matrix], jury: Jury) -> dict[str, float]:
    """Greedy: the best family, then again and again the one whose share lowers the error."""
    name = min(residuals, key=lambda family: jury.error(residuals[family]))
    picked, total, error = [name], residuals[name].copy(), jury.error(residuals[name])
    while len(picked) < _ROUNDS:
        tries = {n: jury.error((total + r) / (len(picked) + 1)) for n, r in residuals.items()}
        name = min(tries, key=tries.__getitem__)
        if tries[name] > error * (1 - _BETTER / len(picked)):
            break
        picked.append(name)
        total, error = total + residuals[name], tries[name]
    return {n: picked.count(n) / len(picked) for n in residuals if n in picked}


def _mean(members: Sequence[Member], x: Matrix) -> Matrix:
    return np.mean([member.predict(x) for member in members], axis=0)  # type: ignore[no-any-return]


def _average(parts: Sequence[tuple[float, Matrix]]) -> Matrix:
    return sum(weight * answers for weight, answers in parts if weight)  # type: ignore[return-value]


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

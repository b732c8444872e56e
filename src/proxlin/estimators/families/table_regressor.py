"""TableRegressor: models of several families, averaged as held-out rows say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from proxlin.estimators.families.additive import AdditiveModel, Ramps
from proxlin.estimators.families.folds import ColumnRoles
from proxlin.estimators.families.forest import Forest
from proxlin.estimators.families.kernel import KernelSurface
from proxlin.estimators.families.trees import BoostedTrees
from proxlin.estimators.regression.regressor import RobustRegressor
from proxlin.estimators.scores import OutlierScale
from proxlin.estimators.tables import Indices, Matrix, Vector

FAMILIES = ("linear", "additive", "kernel", "trees", "forest", "net")
QUANTILES = np.linspace(0.005, 0.995, 199)  # of held-out residuals, for intervals

ColumnModel = BoostedTrees | KernelSurface | Forest  # of one target


@dataclass(frozen=True)
class FamilyFigures:
    """How a family did on rows that its members had not seen."""

    family: str
    held_out_error: float  # robust mean, in robust deviations of the targets
    weight: float  # in the average
    seconds: float


@dataclass(frozen=True)
class ChoiceResult:
    """What a search came to, in the words of other results."""

    status: str
    objective: float  # the held-out error of the average
    iterations: int  # members that were fitted
    seconds: float


@dataclass(frozen=True, eq=False)
class ColumnMember:
    """For each target trees, a surface or a forest beside a linear or additive base.

    Categories count as what their levels add in the base. Trees and surfaces are for what the base
    leaves of the target, forests for the target itself.
    """

    base: AdditiveModel
    parts: tuple[ColumnModel, ...]
    roles: ColumnRoles

    @property
    def corrects(self) -> bool:
        """Whether the parts are added to the base."""
        return not isinstance(self.parts[0], Forest)

    def predict(self, x: Matrix) -> Matrix:
        """(rows, targets)."""
        answers = np.column_stack([
            part.predict(tree_columns(x, self.base, self.roles, target))
            for target, part in enumerate(self.parts)
        ])  # fmt: skip
        return self.base.predict(x) + answers if self.corrects else answers


@dataclass(frozen=True, eq=False)
class NetMember:
    """A net on the ramps of an additive model."""

    ramps: Ramps
    net: RobustRegressor

    def predict(self, x: Matrix) -> Matrix:
        """(rows, targets)."""
        answers: Matrix = self.net.predict(self.ramps.apply(x))
        return answers.reshape(len(x), -1)


Member = AdditiveModel | ColumnMember | NetMember


@dataclass(eq=False)
class TableRegressor:
    """Members of each family that takes part, its weight, and what held-out rows say of them."""

    roles: ColumnRoles  # of the columns that trees and kernels see
    members: dict[str, list[Member]]
    weights: dict[str, float]
    figures: list[FamilyFigures]
    outlier_scale_: OutlierScale
    quantiles: Matrix  # (199, targets) of held-out residuals, z minus prediction
    seconds: float
    held_out: Matrix = field(repr=False)  # (rows, targets) predictions of rows by others' members
    columns: Indices | None = None  # of the encoded ones that are used; None: all
    ranges: tuple[Vector, Vector] = (np.array(-np.inf), np.array(np.inf))  # cells beyond are cut
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
        x = np.clip(x, *self.ranges)
        return average(
            [
                (self.weights[name], mean_prediction(self.members[name], x))
                for name in self.taking_part
            ]
        )

    def bounds(self, x: Matrix, coverage: float) -> tuple[Matrix, Matrix]:
        """Between which the targets of that share of good rows lie, scaled."""
        middle = self.predict(x)
        shares = (0.5 - coverage / 2, 0.5 + coverage / 2)
        low, high = (
            np.array([np.interp(share, QUANTILES, column) for column in self.quantiles.T])
            for share in shares
        )
        return middle + low, middle + high

    @property
    def result_(self) -> ChoiceResult:
        """How the choice was made."""
        shares = ", ".join(f"{n} {w:.0%}" for n, w in self.weights.items() if w)
        status = f"Held-out rows chose the average of {shares}."
        if len([weight for weight in self.weights.values() if weight]) == 1:
            status = f"Held-out rows chose the {shares.rsplit(' ', 1)[0]} family."
        if len(self.figures) == 1:
            status = f"Only the {self.figures[0].family} family was fitted."
        best = min(figures.held_out_error for figures in self.figures)
        return ChoiceResult(status, best, sum(map(len, self.members.values())), self.seconds)

    @property
    def taking_part(self) -> list[str]:
        """The families that have a weight."""
        return [name for name, weight in self.weights.items() if weight]

    @property
    def straight(self) -> dict[str, AdditiveModel]:
        """The linear and the additive model of all rows, as far as they were fitted."""
        members = {n: self.members[n][0] for n in ("linear", "additive") if n in self.members}
        return {n: m for n, m in members.items() if isinstance(m, AdditiveModel)}

    @property
    def additive(self) -> AdditiveModel | None:
        """The additive model of all rows, if one was fitted."""
        return self.straight.get("additive")


def tree_columns(x: Matrix, base: AdditiveModel, roles: ColumnRoles, target: int) -> Matrix:
    """Numbers as they are, and each category as what its level adds in the base."""
    effects = [base.effects(x, columns)[:, target] for columns in roles.categories]
    return np.column_stack([x[:, roles.numbers], *effects])


def mean_prediction(members: Sequence[Member], x: Matrix) -> Matrix:
    """What members of one family say on average; the lowest and the highest count as the next ones.

    One fold of five may hold most of the wrong rows of a rare category, and its member follow them.
    """
    answers = np.array([member.predict(x) for member in members])
    if len(answers) > 2:
        ordered = np.sort(answers, axis=0)
        answers = np.clip(answers, ordered[1], ordered[-2])
    mean: Matrix = answers.mean(axis=0)
    return mean


def average(parts: Sequence[tuple[float, Matrix]]) -> Matrix:
    """The sum of answers by their weights."""
    return sum(weight * answers for weight, answers in parts)  # type: ignore[return-value]

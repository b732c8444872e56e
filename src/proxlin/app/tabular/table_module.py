"""A model of a table as a torch module, from encoded rows to answers, for export to ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from proxlin.app.tabular.reading.columns import LARGEST_LOG, NumberColumn
from proxlin.estimators import RobustAutoencoder
from proxlin.estimators.estimator_state import Saveable
from proxlin.estimators.families.additive import STRAIGHT, AdditiveModel, Ramps
from proxlin.estimators.families.forest import Forest
from proxlin.estimators.families.kernel import KernelSurface
from proxlin.estimators.families.table_regressor import (
    ColumnMember,
    ColumnModel,
    Member,
    NetMember,
    TableRegressor,
)
from proxlin.estimators.families.trees import BoostedTrees
from proxlin.estimators.onnx import plain_module


class _Parts(nn.Module):
    """A module whose arrays are stored with it."""

    def __init__(self, **arrays: Any) -> None:
        super().__init__()
        for name, array in arrays.items():
            self.register_buffer(name, torch.from_numpy(np.array(array)))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class _RampColumns(_Parts):
    """Each ramp as factor * clip((x_owner - start) / width, low, high)."""

    def __init__(self, ramps: Ramps) -> None:
        rows = []
        for knots in ramps.knots:
            if not len(knots):
                rows.append((0.0, 1.0, -np.inf, np.inf, 1.0))
                continue
            steps = zip(knots[:-1], np.diff(knots), strict=True)
            rows += [(knot, width, 0.0, 1.0, 1.0) for knot, width in steps]
            rows.append((0.0, 1.0, knots[0], knots[-1], STRAIGHT))
        start, width, low, high, factor = np.array(rows).reshape(-1, 5).T
        super().__init__(
            owners=ramps.owners, start=start, width=width, low=low, high=high, factor=factor
        )

    def forward(self, x: Tensor) -> Tensor:
        ramps = (x[:, self.owners] - self.start) / self.width
        clipped: Tensor = self.factor * torch.minimum(torch.maximum(ramps, self.low), self.high)
        return clipped


class _Additive(_Parts):
    """Curves of some columns, summed: (rows, targets)."""

    def __init__(self, model: AdditiveModel, columns: Any = None) -> None:
        every = np.arange(len(model.ramps.knots)) if columns is None else columns
        kept = np.isin(model.ramps.owners, every)
        intercept = model.intercept if columns is None else 0.0 * model.intercept
        super().__init__(columns=every, coef=model.coef[kept], intercept=intercept)
        self.ramps = _RampColumns(Ramps(tuple(model.ramps.knots[j] for j in every)))

    def forward(self, x: Tensor) -> Tensor:
        curves: Tensor = self.ramps(x[:, self.columns]) @ self.coef + self.intercept
        return curves


class _Nothing(nn.Module):
    """A correction without any tree or bump: products of empty matrices are no matter for ONNX."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros(x.shape[0], dtype=x.dtype)


class _Kernel(_Parts):
    def __init__(self, surface: KernelSurface) -> None:
        super().__init__(scale=surface.scale, landmarks=surface.landmarks, coef=surface.coef)

    def forward(self, x: Tensor) -> Tensor:
        u = x * self.scale
        squares = (u**2).sum(1, keepdim=True) + (self.landmarks**2).sum(1)
        bumps: Tensor = torch.exp(-0.5 * (squares - 2 * u @ self.landmarks.T).clamp_min(0.0))
        answers: Tensor = bumps @ self.coef
        return answers


class _Trees(_Parts):
    """Complete trees: the children of node k of a level are 2 k and 2 k + 1 of the next."""

    def __init__(self, trees: BoostedTrees) -> None:
        ends = np.full((max(len(trees.cuts), 1), trees.bins.max(initial=0) + 1), np.inf)
        for column, cuts in enumerate(trees.cuts):
            shown = cuts[: ends.shape[1]]
            ends[column, : len(shown)] = shown
        cut = np.where(trees.columns < 0, np.inf, ends[np.maximum(trees.columns, 0), trees.bins])
        super().__init__(columns=np.maximum(trees.columns, 0), cuts=cut, values=trees.values)
        self.depth = int(np.log2(trees.values.shape[1]))

    def forward(self, x: Tensor) -> Tensor:
        node = torch.zeros(len(self.values), x.shape[0], dtype=torch.int64)
        for level in range(self.depth):
            place = node + (2**level - 1)
            cells = x.T.gather(0, self.columns.gather(1, place))
            node = 2 * node + (cells > self.cuts.gather(1, place)).long()
        answers: Tensor = self.values.gather(1, node).sum(0)
        return answers


class _Forest(_Parts):
    def __init__(self, forest: Forest) -> None:
        columns, here = forest.columns.astype(np.int64), forest.starts.astype(np.int64)
        leaf = columns < 0
        numbers = np.arange(len(columns))
        left = np.where(leaf, numbers, numbers + 1)
        right = np.where(leaf, numbers, forest.right.astype(np.int64))
        depth = 0
        while not leaf[here].all():  # level by level, all nodes at once
            here = np.unique(np.concatenate([left[here], right[here]]))
            depth += 1
        super().__init__(
            starts=forest.starts.astype(np.int64),
            columns=np.maximum(columns, 0),
            cuts=forest.cuts,
            left=left,
            right=right,
            values=forest.values.astype(np.float64),
        )
        self.depth = depth

    def forward(self, x: Tensor) -> Tensor:
        cells = x.float()
        node = self.starts.expand(x.shape[0], -1)
        for _ in range(self.depth):
            goes_left = cells.gather(1, self.columns[node]) <= self.cuts[node]
            node = torch.where(goes_left, self.left[node], self.right[node])
        answers: Tensor = self.values[node].mean(1)
        return answers


class _WithColumns(_Parts):
    """Trees, surfaces or forests of each target on numbers and what categories add in the base."""

    def __init__(self, member: ColumnMember) -> None:
        super().__init__(numbers=member.roles.numbers)
        self.effects = nn.ModuleList(
            _Additive(member.base, columns) for columns in member.roles.categories
        )
        kinds: dict[type, Any] = {KernelSurface: _Kernel, BoostedTrees: _Trees, Forest: _Forest}
        self.parts = nn.ModuleList(
            kinds[type(part)](part) if _size(part) else _Nothing() for part in member.parts
        )
        self.base = _Additive(member.base) if member.corrects else None

    def forward(self, x: Tensor) -> Tensor:
        effects = [effect(x) for effect in self.effects]
        answers = []
        for target, part in enumerate(self.parts):
            levels = [effect[:, target : target + 1] for effect in effects]
            answers.append(part(torch.cat([x[:, self.numbers], *levels], dim=1)))
        own = torch.stack(answers, dim=1)
        return own if self.base is None else own + self.base(x)


def _size(part: ColumnModel) -> int:
    """How many bumps, trees or nodes."""
    return len(part.coef if isinstance(part, KernelSurface) else part.values)


def _member_module(member: Member) -> nn.Module:
    if isinstance(member, AdditiveModel):
        return _Additive(member)
    if isinstance(member, NetMember):
        return nn.Sequential(_RampColumns(member.ramps), plain_module(member.net))
    return _WithColumns(member)


class _MeanAnswer(nn.ModuleList):
    """That of `mean_prediction`."""

    def forward(self, x: Tensor) -> Tensor:
        answers = torch.stack([member(x) for member in self])
        if len(answers) > 2:
            ordered = answers.sort(dim=0).values
            answers = torch.minimum(torch.maximum(answers, ordered[1]), ordered[-2])
        return answers.mean(0)


class _Average(_Parts):
    """The weighted mean of the families, in scaled targets."""

    def __init__(self, regressor: TableRegressor) -> None:
        low, high = regressor.ranges
        super().__init__(low=low, high=high)
        self.columns = None if regressor.columns is None else torch.from_numpy(regressor.columns)
        names = regressor.taking_part
        self.shares = [regressor.weights[name] for name in names]
        self.families = nn.ModuleList(
            _MeanAnswer(map(_member_module, regressor.members[name])) for name in names
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.columns is not None:
            x = x[:, self.columns]
        x = torch.minimum(torch.maximum(x, self.low), self.high)
        weighted = zip(self.shares, self.families, strict=True)
        return torch.stack([share * family(x) for share, family in weighted]).sum(0)


class _PlainTargets(_Parts):
    """Scaled targets to their own units."""

    def __init__(self, targets: tuple[NumberColumn, ...]) -> None:
        super().__init__(
            center=[float(target.center) for target in targets],
            scale=[float(target.scale) for target in targets],
            logs=[bool(target.log) for target in targets],
        )

    def forward(self, scaled: Tensor) -> Tensor:
        plain = scaled * self.scale + self.center
        return torch.where(self.logs, plain.clamp(-LARGEST_LOG, LARGEST_LOG).exp(), plain)


def table_module(
    estimator: Saveable | TableRegressor, targets: tuple[NumberColumn, ...], *, reach: float
) -> nn.Module:
    """Encoded rows (n, columns) to targets in their own units.

    An autoencoder sees cells up to `reach` from the middle and gives the rows that it rebuilds.
    """
    if isinstance(estimator, RobustAutoencoder):
        return nn.Sequential(nn.Hardtanh(-reach, reach), plain_module(estimator))
    inner = _Average(estimator) if isinstance(estimator, TableRegressor) else None
    return nn.Sequential(inner or plain_module(estimator), _PlainTargets(targets))

"""The data, the net and the problem of a cell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from proxlin.data import DataSet, add_outliers, load_dataset
from proxlin.errors import InvalidInputError
from proxlin.models import paper_autoencoder, paper_regressor
from proxlin.paper.grid import Cell, has_images
from proxlin.problem import Problem
from proxlin.problem.loss import Exponent
from proxlin.problem.rows import evenly_spread
from proxlin.terms import Ridge

REGULARIZER = Ridge(1e-3)  # 0.001/2 * ||theta||^2 in every cell (App. F)


@dataclass(frozen=True, eq=False)
class Workload:
    """Training rows with outliers in their inputs, and clean test rows."""

    train: tuple[Tensor, ...]  # (x,) of images, (x, y) of a table
    test: tuple[Tensor, ...]
    mask: Tensor  # (n,) which training rows are outliers
    labels: tuple[Tensor, Tensor]  # of the training and test rows: classes, or targets of a table

    def problem(self, net: nn.Module, p: Exponent, *, test: bool = False) -> Problem:
        """The objective over the training rows, or over the test rows."""
        rows = self.test if test else self.train
        return Problem(net, rows[0] if len(rows) == 1 else rows, p, regularizer=REGULARIZER)


@lru_cache(maxsize=1)  # cells that share data come one after the other
def _load(dataset: str) -> DataSet:
    return load_dataset(dataset)


@lru_cache(maxsize=1)
def _workload(dataset: str, outliers: float, seed: int, rows: int | None) -> Workload:
    data = _load(dataset)
    train, test = (  # at equal distances: tables are sorted by time
        slice(None) if rows is None else evenly_spread(len(part), rows)
        for part in (data.x_train, data.x_test)
    )
    clean = data.x_train[train]
    x, mask = add_outliers(clean, outliers, kind="published", seed=seed)
    if bool(mask.all()):
        raise InvalidInputError(
            f"at least one training row must stay clean; outliers={outliers} with seed {seed} and"
            f" {len(x)} rows leaves none. Lower the ratio or take more rows."
        )
    y_train, y_test = data.y_train[train], data.y_test[test]
    if has_images(dataset):
        return Workload((x,), (data.x_test[test],), mask, (y_train, y_test))
    return Workload((x, y_train), (data.x_test[test], y_test), mask, (y_train, y_test))


def workload(cell: Cell) -> Workload:
    """The rows of a cell; the latest stay in memory for the next cell."""
    return _workload(cell.dataset, cell.outliers, cell.seed, cell.rows)


def fresh_net(cell: Cell) -> nn.Module:
    """The paper's net for the data set, with first parameters that the seed decides."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cell.seed)
        if has_images(cell.dataset):
            return paper_autoencoder()
        x, y = workload(cell).train
        return paper_regressor(x.shape[1], y.shape[1])

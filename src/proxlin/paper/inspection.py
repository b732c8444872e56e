"""A trained cell on single rows: its losses on them and, of images, what it gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from proxlin.paper.grid import Cell, family, has_images
from proxlin.paper.metrics import best_runs
from proxlin.paper.store import Record, unpack
from proxlin.paper.workload import Workload, fresh_net, workload
from proxlin.problem.rows import evenly_spread

_ROWS = 2000  # looked at, evenly spread; enough for a histogram
_SHOWN = 6  # images of each kind
_NETS = 8  # of a data set that are looked at with every p


@dataclass(frozen=True, eq=False)
class Strip:
    """Images as they are and as the net gives them back, (k, height, width) each."""

    images: Tensor
    rebuilt: Tensor


@dataclass(frozen=True, eq=False)
class Inspection:
    """A trained cell on some of its training rows, and on images if it has any."""

    cell: Cell
    losses: Tensor  # (n,) in the loss that the cell trained with
    mask: Tensor  # (n,) which of these rows are outliers
    clean: Strip | None = None  # test images
    outliers: Strip | None = None  # training images that are outliers

    @property
    def recall(self) -> float:
        """The share of the outliers among as many rows that fit worst; NaN without outliers."""
        count = int(self.mask.sum())
        if count == 0:
            return float("nan")
        return float(self.mask[self.losses.topk(count).indices].float().mean())


def worst_cells(cells: Iterable[Cell], records: Mapping[str, Record]) -> list[Cell]:
    """For each data set the finished cells with most outliers, one for each method and loss.

    Many methods are shown with the lowest p alone, and with squared errors.
    """
    finished = best_runs(cells, records)
    most: dict[str, float] = {}
    for cell in finished:
        most[cell.dataset] = max(cell.outliers, most.get(cell.dataset, 0.0))
    first: dict[tuple[str, str, str], Cell] = {}
    for cell in finished:
        if cell.outliers == most[cell.dataset]:
            first.setdefault((cell.dataset, family(cell.method), str(cell.p)), cell)
    return [cell for dataset in most for cell in _few(dataset, list(first.values()))]


def _few(dataset: str, cells: list[Cell]) -> list[Cell]:
    """Those of the data set; where that is too many to look at, those of the lowest p."""
    own = [cell for cell in cells if cell.dataset == dataset]
    if len(own) <= _NETS:
        return own
    lowest = min(float(cell.p) for cell in own if cell.p != "mse")
    return [cell for cell in own if cell.p in ("mse", lowest)]


def inspect_cell(cell: Cell, record: Record) -> Inspection:
    """Put the trained parameters into the net of the cell and look at single rows."""
    work = workload(cell)
    net = fresh_net(cell)
    theta = unpack(record["theta"])
    nn.utils.vector_to_parameters(theta, net.parameters())
    rows = evenly_spread(len(work.mask), _ROWS)
    problem = work.problem(net, cell.p).restricted(rows)
    losses = problem.row_losses(theta).detach()
    if not has_images(cell.dataset):
        return Inspection(cell, losses, work.mask[rows])
    bad = work.mask.nonzero().squeeze(1)[:_SHOWN]
    return Inspection(
        cell,
        losses,
        work.mask[rows],
        clean=_strip(net, _one_of_each_class(work)),
        outliers=_strip(net, work.train[0][bad]) if len(bad) else None,
    )


def _one_of_each_class(work: Workload) -> Tensor:
    """The first test image of each of the first classes."""
    labels = work.labels[1].tolist()
    first = {label: labels.index(label) for label in sorted(set(labels))[:_SHOWN]}
    return work.test[0][list(first.values())]


def _strip(net: nn.Module, images: Tensor) -> Strip:
    with torch.no_grad():
        rebuilt = net(images)
    return Strip(images[:, 0], rebuilt.view_as(images)[:, 0])

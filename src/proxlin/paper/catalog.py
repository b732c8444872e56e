"""What can be reproduced: each table and figure, and the grid of cells it is made from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from proxlin._checks import check_choice
from proxlin.paper.grid import METHODS, Grid, has_images

_IMAGES = ("mnist", "fashion-mnist")
_OF_NORMS = tuple(method for method in METHODS if method != "mse")


@dataclass(frozen=True)
class Experiment:
    """A table or a figure of the paper."""

    name: str
    title: str
    grid: Grid
    classified: bool = False  # whether it needs the accuracy of a classifier on the codes


_EXPERIMENTS = (
    Experiment("table1", "Table 1: losses and times of every method", Grid()),
    Experiment(
        "accuracy",
        "App. G: test accuracy of a logistic regression on the codes",
        Grid(datasets=_IMAGES),
        classified=True,
    ),
    Experiment(
        "fig1",
        "Fig. 1: squared error against p-norms on MNIST over the outlier ratio",
        Grid(datasets=("mnist",), exponents=(1.0, 2.0), methods=("probed", "mse")),
        classified=True,
    ),
    Experiment(
        "fig2",
        "Objective over time on MNIST without outliers",
        Grid(datasets=("mnist",), outliers=(0.0,), methods=_OF_NORMS),
    ),
    Experiment(
        "fig3",
        "Losses on MNIST over the outlier ratio for squared error, p = 2 and p = 1",
        Grid(datasets=("mnist",), exponents=(1.0, 2.0)),
    ),
    Experiment(
        "fig4",
        "Accuracy over the outlier ratio for squared error, p = 2 and p = 1",
        Grid(datasets=_IMAGES, exponents=(1.0, 2.0)),
        classified=True,
    ),
    Experiment(
        "figA",
        "App. H: losses on MNIST over the outlier ratio for p = 1.5",
        Grid(datasets=("mnist",), exponents=(1.5,), methods=_OF_NORMS),
    ),
)

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _EXPERIMENTS}


def experiment(name: str, **axes: Any) -> Experiment:
    """The experiment called `name` with the axes of its grid replaced where given (None: kept).

    >>> experiment("table1", methods=("probed",), outliers=(0.0, 0.3)).grid.outliers
    (0.0, 0.3)
    """
    usual = EXPERIMENTS[check_choice("what to reproduce", name, EXPERIMENTS)]
    given = {axis: value for axis, value in axes.items() if value is not None}
    if "steps" in given:  # a budget of steps stands alone, so that it gives the same bits again
        given.setdefault("seconds", None)
    grid = replace(usual.grid, **given)
    if usual.classified:
        _check_images(name, grid)
    return replace(usual, grid=grid)


def _check_images(name: str, grid: Grid) -> None:
    for dataset in grid.datasets:
        if not has_images(dataset):
            check_choice(f"a data set of {name}, which needs images with classes", dataset, _IMAGES)

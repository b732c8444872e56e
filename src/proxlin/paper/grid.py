"""Cell and Grid: which runs an experiment consists of, and the settings of its methods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from proxlin._checks import (
    check_choice,
    check_count,
    check_exponent,
    check_positive,
    check_share,
)
from proxlin.data import list_datasets
from proxlin.errors import InvalidInputError
from proxlin.methods import MBO, SGD, Adam, Method, Probed
from proxlin.methods.search import Armijo
from proxlin.methods.subproblem import SADM, Subgradient
from proxlin.problem.loss import Exponent

PAPER_DATASETS = ("mnist", "fashion-mnist", "scm1d")
PAPER_OUTLIERS = (0.0, 0.05, 0.1, 0.2, 0.3)
PAPER_EXPONENTS = (1.0, 1.5, 2.0)
METHODS = ("probed", "mbo-sadm", "mbo-sgd", "sgd", "adam", "mse")

ADAM_RATES = (1e-3, 3e-3, 1e-2)  # the tables show the one with the lowest objective

# App. F names no line search; these are the numbers of the published experiment.
_SEARCH = Armijo(first=0.95, shrink=0.95, slope=0.1, max_trials=250)


def _sadm(images: bool) -> Method:
    tolerance = 0.1 if images else 0.001
    return MBO(solver=SADM(batch_size=8, max_steps=200, tolerance=tolerance), search=_SEARCH)


def _subgradient(images: bool) -> Method:
    rate = 1e-5 if images else 1e-3
    solver = Subgradient(learning_rate=rate, momentum=0.9, max_steps=500, batch_size=8)
    return MBO(solver=solver, search=_SEARCH)


def _adam(rate: float) -> Callable[[bool], Method]:
    return lambda _images: Adam(learning_rate=rate)


METHOD_SETTINGS: dict[str, Callable[[bool], Method]] = {
    "probed": lambda _images: Probed(),
    "mbo-sadm": _sadm,
    "mbo-sgd": _subgradient,
    "sgd": lambda _images: SGD(learning_rate=1e-6, momentum=0.9, batch_size=8),
    **{f"adam-{rate:g}": _adam(rate) for rate in ADAM_RATES},
    "mse": lambda _images: Probed(),  # the loss differs, not the method
}


def method_settings(name: str, images: bool) -> Method:
    """The settings of the method called `name`, for autoencoders or for regressors."""
    return METHOD_SETTINGS[check_choice("method", name, METHOD_SETTINGS)](images)


_KINDS = {entry.name: entry.kind for entry in list_datasets()}


def has_images(dataset: str) -> bool:
    """Whether the data set holds images (an autoencoder) rather than a table (a regressor)."""
    return _KINDS[dataset] != "table"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training run: everything that decides its outcome, the version of the code apart.

    `p` is the exponent of the loss it trains with, "mse" for the squared-error baseline.
    """

    dataset: str
    outliers: float  # probability that a training row is replaced by noise
    p: Exponent
    method: str  # one of `METHOD_SETTINGS`
    seed: int = 0  # of the outliers, the first parameters and the batches
    seconds: float | None = 60.0
    steps: int | None = None
    rows: int | None = None  # training rows, spread evenly over the data set; None: all

    def __post_init__(self) -> None:
        check_choice("dataset", self.dataset, _KINDS)
        check_share("outliers", self.outliers)
        check_choice("method", self.method, METHOD_SETTINGS)
        if self.p != "mse":
            check_exponent("p", self.p)
        if (self.p == "mse") != (self.method == "mse"):
            raise InvalidInputError(
                f'p="mse" and method="mse" go together; got {self.p!r} and {self.method!r}.'
            )
        check_count("seed", self.seed, minimum=0)
        if self.seconds is not None:
            check_positive("seconds", self.seconds)
        if self.steps is not None:
            check_count("steps", self.steps)
        if self.seconds is None and self.steps is None:
            raise InvalidInputError("a cell needs a budget: give seconds, steps or both.")
        if self.rows is not None:
            check_count("rows", self.rows, minimum=2)

    @property
    def name(self) -> str:
        """A file name that no other cell has."""
        p = self.p if isinstance(self.p, str) else f"{self.p!r}".removesuffix(".0")
        loss = "" if self.method == "mse" else f"_p{p}"
        budget = "" if self.seconds is None else f"_{_short(self.seconds)}s"
        budget += "" if self.steps is None else f"_{self.steps}steps"
        rows = "" if self.rows is None else f"_{self.rows}rows"
        start = f"{self.dataset}_outliers{_short(self.outliers)}{loss}_{self.method}"
        return f"{start}{budget}{rows}_seed{self.seed}"

    def labels(self) -> dict[str, Any]:
        """The columns by which tables and figures tell cells apart; p is text, as "mse" is."""
        return {
            "dataset": self.dataset,
            "outliers": self.outliers,
            "p": str(self.p),
            "method": family(self.method),
            "seed": self.seed,
        }

    def config(self) -> dict[str, Any]:
        """What the file of the cell must state for the cell to count as finished."""
        return {
            **asdict(self),
            "settings": repr(method_settings(self.method, has_images(self.dataset))),
        }


def _short(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Every combination of its axes. "adam" stands for one cell at each of its learning rates.

    The squared-error baseline "mse" takes one cell for all exponents: it is trained once and
    measured with each of them.

    >>> len(Grid(methods=("probed",)).cells())
    45
    """

    datasets: tuple[str, ...] = PAPER_DATASETS
    outliers: tuple[float, ...] = PAPER_OUTLIERS
    exponents: tuple[float, ...] = PAPER_EXPONENTS
    methods: tuple[str, ...] = METHODS
    seeds: tuple[int, ...] = (0,)
    seconds: float | None = 60.0
    steps: int | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        for axis in ("datasets", "outliers", "exponents", "methods", "seeds"):
            if not getattr(self, axis):
                raise InvalidInputError(f"{axis} must name at least one value; got none.")
        for method in self.methods:
            check_choice("methods", method, {*METHODS, *METHOD_SETTINGS})
        self.cells()  # each checks its own values

    def cells(self) -> list[Cell]:
        """The cells, those that share data next to each other, none twice."""
        cells = [
            Cell(
                dataset=dataset,
                outliers=ratio,
                p=p,
                method=method,
                seed=seed,
                seconds=self.seconds,
                steps=self.steps,
                rows=self.rows,
            )
            for dataset in self.datasets
            for ratio in self.outliers
            for seed in self.seeds
            for method in expand(self.methods)
            for p in self._losses(method)
        ]
        return list(dict.fromkeys(cells))

    def _losses(self, method: str) -> tuple[Exponent, ...]:
        return ("mse",) if method == "mse" else self.exponents


def expand(methods: Iterable[str]) -> list[str]:
    """The methods that the names stand for."""
    adam = [f"adam-{rate:g}" for rate in ADAM_RATES]
    return [single for name in methods for single in (adam if name == "adam" else [name])]


def family(method: str) -> str:
    """The name under which tables show a variant: the rates of Adam are one method."""
    return re.sub(r"^adam-.*", "adam", method)

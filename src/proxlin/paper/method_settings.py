"""The methods that are compared, with the settings of the paper's App. F where it has them."""

from __future__ import annotations

from collections.abc import Callable

from proxlin._checks import check_choice
from proxlin.methods import MBO, SGD, Adam, Method, Probed
from proxlin.methods.search import Armijo
from proxlin.methods.subproblem import SADM, Subgradient

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


CONTENDERS: dict[str, Callable[[bool], Method]] = {
    "probed": lambda _images: Probed(),
    "mbo-sadm": _sadm,
    "mbo-sgd": _subgradient,
    "sgd": lambda _images: SGD(learning_rate=1e-6, momentum=0.9, batch_size=8),
    **{f"adam-{rate:g}": _adam(rate) for rate in ADAM_RATES},
    "mse": lambda _images: Probed(),  # the loss differs, not the method
}


def contender(name: str, images: bool) -> Method:
    """The settings of the method called `name`, for autoencoders or for regressors."""
    return CONTENDERS[check_choice("method", name, CONTENDERS)](images)

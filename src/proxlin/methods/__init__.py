"""Methods: frozen settings, each of which knows how to take one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proxlin._checks import check_choice
from proxlin.methods.baselines import SGD, Adam
from proxlin.methods.contract import Method, State, Step
from proxlin.methods.mbo import MBO
from proxlin.methods.probed.method import Probed
from proxlin.methods.subproblem import ADMM, SADM, Subgradient

METHODS: dict[str, Callable[[], Any]] = {
    "probed": Probed,
    "mbo-sadm": lambda: MBO(solver=SADM()),
    "mbo-sgd": lambda: MBO(solver=Subgradient()),
    "mbo-admm": lambda: MBO(solver=ADMM(), decrease_rows=None),
    "sgd": SGD,
    "adam": Adam,
}


def method_named(name: str) -> Method:
    """The default settings of the method called `name`."""
    method: Method = METHODS[check_choice("method", name, METHODS)]()
    return method


__all__ = ["MBO", "METHODS", "SGD", "Adam", "Method", "Probed", "State", "Step", "method_named"]

"""Settings of estimators as they are given, read or refused: seeds, regularisers, nets, devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_random_state
from torch import nn

from proxlin._checks import check_choice, check_count, check_non_negative, shown
from proxlin.errors import InvalidInputError
from proxlin.terms import ElasticNet, GroupLasso, Lasso, Regularizer, Ridge

REGULARIZERS = ("ridge", "lasso", "elasticnet", "group")


def drawn_seed(random_state: Any) -> int:
    """A seed drawn from what scikit-learn takes as `random_state`."""
    try:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    except (ValueError, TypeError) as cause:
        raise InvalidInputError(
            "random_state must be None, a whole number from 0 to 2**32 - 1 or a numpy RandomState;"
            f" got {shown(random_state)}."
        ) from cause


def named_regularizer(
    regularizer: str | Regularizer | None, alpha: float | str, on: str | None
) -> Regularizer | None:
    """g for the parameters `on`: alpha/2 ||.||^2, alpha ||.||_1, half of each, or alpha ||.||_2,1.

    The groups of "group" are columns: one for each input feature. An object is left as it is.
    """
    if regularizer is None:
        return None
    if isinstance(regularizer, str):
        name = check_choice("regularizer", regularizer, REGULARIZERS)
        weight = check_non_negative("alpha", alpha)
        if name == "ridge":
            return Ridge(weight, on=on)
        if name == "lasso":
            return Lasso(weight, on=on)
        if name == "elasticnet":
            return ElasticNet(weight / 2, weight / 2, on=on)
        return GroupLasso(weight, groups="columns", on=on)
    if not isinstance(regularizer, Regularizer):
        expected = ", ".join(map(repr, REGULARIZERS))
        raise InvalidInputError(
            f"regularizer must be None, one of {expected}, or an object such as Ridge(1e-3);"
            f" got {regularizer!r}."
        )
    return regularizer


def check_widths(hidden: Any) -> tuple[int, ...]:
    """The widths of the hidden layers as whole numbers."""
    array = isinstance(hidden, np.ndarray) and hidden.ndim > 0
    if isinstance(hidden, str | bytes) or not (array or isinstance(hidden, Sequence)):
        raise InvalidInputError(
            f"hidden must be a sequence of widths such as (64, 32); got {shown(hidden)}."
        )
    return tuple(check_count("hidden[...]", width) for width in hidden)


def check_factory(module: Any, arguments: str) -> None:
    """Refuse what cannot make a net, and nets, of which every fit would train the same one."""
    if not callable(module) or isinstance(module, nn.Module):
        raise InvalidInputError(
            f"module must be a function ({arguments}) -> net, not a net: every fit starts from a"
            f" fresh one; got {type(module).__name__}."
        )


def made_by(factory: Any, *arguments: Any) -> Any:
    """What the factory makes of these arguments; one that does not take them is refused."""
    try:
        return factory(*arguments)
    except TypeError as cause:
        raise InvalidInputError(
            f"module{arguments} must return a net; the call ended with: {shown(cause)}."
        ) from cause


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw torch's random numbers from `seed` inside the block; the global state is left alone.

    Modules initialise themselves from the global generator, which belongs to the caller.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def check_device(device: str | torch.device | None) -> torch.device:
    """The device; one that torch cannot use here is refused."""
    if device is None:
        return torch.device("cpu")
    try:
        usable = torch.device(device)
        torch.empty(1, device=usable).item()  # which "meta" cannot say
    except (RuntimeError, AssertionError, TypeError, ValueError) as cause:
        raise InvalidInputError(
            f'device must be None or one that torch can use here, such as "cpu"; got {device!r}.'
        ) from cause
    return usable

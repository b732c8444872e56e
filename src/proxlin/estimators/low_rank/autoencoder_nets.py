"""The nets behind RobustAutoencoder: rows or images to a code and back, and what a net must be."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, prod, sqrt
from typing import Any

import torch
from torch import Tensor, nn

from proxlin._checks import check_choice, check_count, shown
from proxlin.errors import InvalidInputError
from proxlin.estimators.estimator_settings import check_factory, check_widths, made_by
from proxlin.models import Autoencoder, image_autoencoder, mlp_autoencoder
from proxlin.terms import Constraint, Penalty
from proxlin.terms.layout import Layout

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "identity": nn.Identity,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
}
_WIDTH, _CHANNELS = 32, (8, 16)  # of the hidden layers: for tables, for images
_WEIGHTS_PER_CELL = 1 / 10  # with more weights a net learns outliers by heart

Factory = Callable[[Any, int], nn.Module]  # (features or image shape, code width) -> net


@dataclass(frozen=True)
class RowForm:
    """What one row is: so many features, or the pixels of a (c, h, w) image."""

    n_features: int
    image: tuple[int, int, int] | None = None

    def shaped(self, rows: Tensor) -> Tensor:
        """Rows (n, features) in the form that the net takes."""
        return rows if self.image is None else rows.reshape(len(rows), *self.image)

    def code_width(self, wanted: int | None) -> int:
        """The width of the code: as wanted, or about the square root of the features."""
        if wanted is not None:
            return check_count("n_components", wanted)
        return max(1, min(ceil(sqrt(self.n_features)), self.n_features - 1))


def build_net(
    form: RowForm,
    code: int,
    *,
    n_rows: int,
    hidden: Sequence[int] | None,
    activation: str | Callable[[], nn.Module],
    factory: Factory | None,
    tied: bool,
) -> nn.Module:
    """A net for rows of this form: convolutions for images, Linear layers for tables.

    Code and output are linear. Weights start tied where they have to stay so.
    """
    net: nn.Module
    if factory is not None:
        net = _from_factory(factory, form, code)
    elif form.image is not None:
        net = image_autoencoder(
            form.image,
            code,
            channels=_CHANNELS if hidden is None else check_widths(hidden),
            activation=_activation(activation),
        )
    else:
        between = default_widths(form, code, n_rows) if hidden is None else check_widths(hidden)
        widths = (form.n_features, *between, code)
        chain = mlp_autoencoder(widths, activation=_activation(activation))
        chain.encoder[-1] = nn.Identity()
        net = chain
    if tied:
        _tie(net)
    return net


def check_net(net: Any, form: RowForm, code: int) -> None:
    """Send two rows through the halves and refuse codes and reconstructions of a wrong shape."""
    rows = form.shaped(torch.zeros(2, form.n_features))
    with torch.no_grad():
        try:
            codes = net.encoder(rows)
            back = net.decoder(codes)
        except RuntimeError as cause:
            raise InvalidInputError(
                f"module's net must take rows of shape {tuple(rows.shape[1:])}; it refused them:"
                f" {str(cause).splitlines()[0]}."
            ) from cause
    if codes.shape[0] != 2 or prod(codes.shape[1:]) != code:
        raise InvalidInputError(
            f"module's encoder must return n_components={code} numbers a row; got"
            f" {tuple(codes.shape[1:])}. Change its last layer, or n_components."
        )
    if back.shape != rows.shape:
        raise InvalidInputError(
            f"module's decoder must return rows of shape {tuple(rows.shape[1:])}; got"
            f" {tuple(back.shape[1:])}. Change its last layer."
        )


def _from_factory(factory: Any, form: RowForm, code: int) -> nn.Module:
    check_factory(factory, "features or image shape, n_components")
    net = made_by(factory, form.n_features if form.image is None else form.image, code)
    halves = [getattr(net, name, None) for name in ("encoder", "decoder")]
    if not isinstance(net, nn.Module) or not all(isinstance(half, nn.Module) for half in halves):
        raise InvalidInputError(
            "module must return a torch.nn.Module whose parts are `encoder` and `decoder`, such as"
            f" proxlin.models.Autoencoder; got {type(net).__name__}."
        )
    check_net(net, form, code)
    if next(net.parameters(), None) is None:
        raise InvalidInputError(
            f"module must return a net with weights to train; got {type(net).__name__} without."
        )
    # A factory may hand out the same net every time; what is learned stays in the estimator.
    return copy.deepcopy(net)


def _activation(activation: str | Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    if isinstance(activation, str):
        return ACTIVATIONS[check_choice("activation", activation, ACTIVATIONS)]
    made = None
    if callable(activation) and not isinstance(activation, nn.Module):
        with suppress(TypeError):  # one that needs arguments
            made = activation()
    if not isinstance(made, nn.Module):
        raise InvalidInputError(
            "activation must be a name or make a torch.nn.Module, such as torch.nn.SiLU;"
            f" got {shown(activation)}."
        )
    return activation


def _tie(net: nn.Module) -> None:
    """Start at the nearest tied point, so that no run has to begin outside of its constraint."""
    parameters = [(name, tensor.detach()) for name, tensor in net.named_parameters()]
    layout = Layout.of(parameters)
    penalty = Penalty(layout, None, joint_constraint(net, True, None))
    values = layout.split(penalty.project(layout.join(dict(parameters))))
    with torch.no_grad():
        for name, tensor in net.named_parameters():
            tensor.copy_(values[name])


def joint_constraint(
    net: nn.Module, tied: bool, constraint: Constraint | None
) -> Constraint | None:
    """C, and if `tied` the equality of the halves' weights with it."""
    if not tied:
        return constraint
    if not isinstance(net, Autoencoder):
        raise InvalidInputError(
            "tied=True needs a net whose halves mirror each other, a proxlin.models.Autoencoder;"
            f" module made a {type(net).__name__}."
        )
    return net.tied() if constraint is None else net.tied() & constraint


def has_hidden_layers(net: nn.Module) -> bool:
    """Whether more than one matrix leads each way, enough to learn single rows by heart."""
    return sum(tensor.ndim > 1 for tensor in net.parameters()) > 2


def default_widths(form: RowForm, code: int, n_rows: int) -> tuple[int, ...]:
    """One hidden layer, or none for tables with too few cells to learn its weights from."""
    weights = 2 * _WIDTH * (form.n_features + code)
    cells = n_rows * form.n_features
    return (_WIDTH,) if weights <= _WEIGHTS_PER_CELL * cells else ()

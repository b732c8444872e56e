"""Regressors with several targets: linear, MLP, and the paper's net for SCM1d."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from proxlin._checks import check_count, check_layers


def linear_regressor(n_features: int, n_targets: int = 1, *, bias: bool = True) -> nn.Linear:
    """x -> W x + b, starting at zero: the problem is convex, so the start decides nothing."""
    layer = nn.Linear(
        check_count("n_features", n_features), check_count("n_targets", n_targets), bias=bias
    )
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


def mlp_regressor(
    n_features: int,
    n_targets: int = 1,
    *,
    hidden: Sequence[int] = (64, 64),
    activation: Callable[[], nn.Module] = nn.SiLU,
) -> nn.Sequential:
    """Linear layers with a smooth activation between them; the output is linear."""
    layers: list[nn.Module] = []
    width = check_count("n_features", n_features)
    sizes = [check_count("hidden[...]", size) for size in hidden]
    check_layers("hidden", (width, *sizes, check_count("n_targets", n_targets)))
    for size in sizes:
        layers += [nn.Linear(width, size), activation()]
        width = size
    layers.append(nn.Linear(width, n_targets))
    return nn.Sequential(*layers)


def paper_regressor(n_features: int = 280, n_targets: int = 16) -> nn.Sequential:
    """The paper's net for SCM1d (App. F): 4,468 parameters.

    The softplus at the output cannot be negative while standardised targets are, so the loss has a
    high floor. It is kept for comparison with the published table; `mlp_regressor` predicts better.
    """
    check_count("n_features", n_features, minimum=3)
    check_count("n_targets", n_targets)
    return nn.Sequential(
        nn.Unflatten(1, (1, n_features)),
        nn.Conv1d(1, 1, 3),
        nn.Softplus(),
        nn.Flatten(),
        nn.Linear(n_features - 2, n_targets),
        nn.Softplus(),
    )


class FeatureSelector(nn.Linear):
    """A linear regressor whose columns are features: with GroupLasso, whole columns become zero.

    Use `Problem(selector, (x, y), p=2, regularizer=GroupLasso(0.1, groups="columns", on="weight"))`
    (l2 loss and l2,1 norm, Nie et al. 2010).
    """

    def __init__(self, n_features: int, n_targets: int = 1) -> None:
        super().__init__(check_count("n_features", n_features), check_count("n_targets", n_targets))
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def importance(self) -> Tensor:
        """The Euclidean norm of each feature's column, (n_features,)."""
        length: Tensor = torch.linalg.vector_norm(self.weight.detach(), dim=0)
        return length

    def selected(self) -> Tensor:
        """The numbers of the features whose column is not exactly zero."""
        return self.importance().nonzero().squeeze(1)

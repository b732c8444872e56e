"""The metric H of the proximal term 1/2 ||theta - anchor||_H^2 (Eq. 6; Bregman terms in App. A)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from proxlin._checks import check_floating, check_positive
from proxlin.errors import InvalidInputError


class Metric(Protocol):
    """A Bregman distance D: quadratic with the diagonal H, and more where `Bregman` says so."""

    def weights(self, like: Tensor) -> Tensor:
        """The diagonal of H as a tensor that broadcasts to `like` (d,), of its type and device."""
        ...

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """D(x, y), a 0-dimensional tensor; 1/2 ||x - y||_H^2 for a diagonal H."""
        ...


@dataclass(frozen=True)
class Euclidean:
    """H = weight * I: the proximal term weight/2 ||x - y||_2^2 of the paper.

    >>> import torch
    >>> float(Euclidean(2.0).distance(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])))
    25.0
    """

    weight: float = 1.0  # h in Eq. 6

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", check_positive("Euclidean(weight=...)", self.weight))

    def weights(self, like: Tensor) -> Tensor:
        """The weight as a 0-dimensional tensor."""
        return like.new_tensor(self.weight)

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """weight/2 ||x - y||_2^2."""
        return 0.5 * self.weight * (x - y).square().sum()


@dataclass(frozen=True, eq=False)
class Diagonal:
    """H = diag(diagonal): each parameter has its own weight in the proximal term.

    >>> import torch
    >>> metric = Diagonal(torch.tensor([1.0, 3.0]))
    >>> float(metric.distance(torch.tensor([2.0, 1.0]), torch.tensor([0.0, 0.0])))
    3.5
    """

    diagonal: Tensor  # (d,) all > 0

    def __post_init__(self) -> None:
        diagonal = check_floating("Diagonal(diagonal=...)", self.diagonal)
        if diagonal.ndim != 1 or diagonal.numel() == 0:
            raise InvalidInputError(
                "Diagonal(diagonal=...) must be a vector with one weight a parameter;"
                f" got shape {tuple(diagonal.shape)}."
            )
        lowest, highest = float(diagonal.min()), float(diagonal.max())
        if not 0 < lowest <= highest < float("inf"):
            raise InvalidInputError(
                "Diagonal(diagonal=...) must hold finite weights > 0;"
                f" got values from {lowest!r} to {highest!r}."
            )
        # A copy: settings do not change when the caller's tensor does.
        object.__setattr__(self, "diagonal", diagonal.detach().clone())

    def weights(self, like: Tensor) -> Tensor:
        """The diagonal, (d,)."""
        if self.diagonal.shape != like.shape:
            raise InvalidInputError(
                f"Diagonal(diagonal=...) must hold {like.numel()} weights, one a parameter;"
                f" got {self.diagonal.numel()}."
            )
        return self.diagonal.to(like)

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """1/2 sum_j diagonal_j (x_j - y_j)^2."""
        return 0.5 * (self.weights(x) * (x - y).square()).sum()

"""Proximal terms beyond a diagonal metric: entropy, and the curvature of the data term (App. A).

MBO adds D(theta, anchor) = psi(theta) - psi(anchor) - <grad psi(anchor), theta - anchor> to its
model, for a convex psi. These are settings; `at` binds them to a problem and an anchor.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from proxlin._checks import check_count, check_positive
from proxlin.errors import InvalidInputError
from proxlin.linearize import linearize
from proxlin.methods.subproblem.metric import Metric
from proxlin.methods.subproblem.splitting import Prox
from proxlin.problem import Problem
from proxlin.problem.rows import evenly_spread
from proxlin.problem.scales import scales_of
from proxlin.problem.shards import LocalBatch

_NEWTON_STEPS = 40
_LEAST = 1e-12  # of the mean of the parameters: what the entropy still tells from 0


class Bregman(Protocol):
    """A proximal term that depends on the problem and on the anchor."""

    def at(self, problem: Problem, anchor: Tensor) -> BoundBregman:
        """The term at an anchor."""
        ...


class BoundBregman(Metric, Protocol):
    """A proximal term at its anchor: a diagonal part, and a matrix or a prox beside it."""

    @property
    def matrix(self) -> Tensor | None:
        """H (d, d) in float64 of a part 1/2 ||theta - anchor||_H^2; None: there is none."""
        ...

    @property
    def prox(self) -> Prox | None:
        """(v, step) -> argmin_w step * rest(w) + 1/2 ||w - v||^2 of what is not quadratic."""
        ...

    def force(self, theta: Tensor) -> Tensor:
        """The pull of the term at theta, in the units of a gradient, (d,); 0 at the anchor."""
        ...


def bound(metric: Metric | Bregman, problem: Problem, anchor: Tensor) -> Metric:
    """The metric, or the Bregman term at the anchor."""
    at = getattr(metric, "at", None)
    result: Metric = metric if at is None else at(problem, anchor)  # type: ignore[assignment]
    return result


def force_of(metric: Metric, anchor: Tensor, theta: Tensor) -> Tensor:
    """H (theta - anchor), or the force of a Bregman term."""
    own = getattr(metric, "force", None)
    pull: Tensor = metric.weights(theta) * (theta - anchor) if own is None else own(theta)
    return pull


@dataclass(frozen=True)
class Entropy:
    """D = weight * sum_j theta_j log(theta_j / anchor_j) - theta_j + anchor_j, for theta > 0.

    For simplices and positive parameters: steps multiply, so that all of them stay positive and a
    parameter of 10^-3 moves by its own size as easily as one of 10^3. `on` names the parameters, as
    for regularisers; the others have the term weight/2 ||theta - anchor||^2.
    """

    weight: float = 1.0
    on: str = "*"

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", check_positive("Entropy(weight=...)", self.weight))
        if not isinstance(self.on, str):
            raise InvalidInputError(
                f"Entropy(on=...) must be a name such as '*.weight'; got {self.on!r}."
            )

    def at(self, problem: Problem, anchor: Tensor) -> BoundEntropy:
        """Where the anchor is; refuses parameters that are not positive."""
        layout = problem.layout
        chosen = torch.zeros_like(anchor, dtype=torch.bool)
        for name in fnmatch.filter(layout.names, self.on):
            chosen[layout.slice(name)] = True
        if not bool(chosen.any()):
            raise InvalidInputError(
                f"Entropy(on=...) must name parameters; got {self.on!r}, and there are"
                f" {', '.join(layout.names)}."
            )
        positive = anchor[chosen].double()
        if not bool((positive >= 0).all()) or not bool((positive > 0).any()):
            raise InvalidInputError(
                "Entropy() needs parameters >= 0, and some that are not 0, to start from; got"
                f" values from {float(positive.min()):g}. Start inside, or name those that are by"
                " on=...."
            )
        return BoundEntropy(self.weight, chosen, anchor.double())


@dataclass(frozen=True, eq=False)
class BoundEntropy:
    """The entropy at its anchor."""

    weight: float
    chosen: Tensor  # (d,) which parameters it is for
    anchor: Tensor  # (d,) float64

    matrix = None

    @property
    def size(self) -> float:
        """The mean of the parameters."""
        return float(self.anchor[self.chosen].mean())

    @property
    def stiffness(self) -> float:
        """The curvature at a parameter of mean size."""
        return self.weight / self.size

    @property
    def base(self) -> Tensor:
        """The anchor of the chosen parameters, none of them 0, which would stay so for ever."""
        return self.anchor[self.chosen].clamp_min(_LEAST * self.size)

    def weights(self, like: Tensor) -> Tensor:
        """That of the parameters for which there is no entropy; 0 for the others."""
        return torch.where(self.chosen.to(like.device), 0.0, self.weight).to(like)

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """D(x, y)."""
        near, far = x[self.chosen], y[self.chosen].clamp_min(_LEAST * self.size)
        entropy = (torch.xlogy(near, near / far) - near + far).sum()
        rest = (x[~self.chosen] - y[~self.chosen]).square().sum()
        return self.weight * (entropy + 0.5 * rest)

    def prox(self, v: Tensor, step: float) -> Tensor:
        """w with w + step * weight * log(w / anchor) = v for the chosen ones, v for the others."""
        scale, base, value = step * self.weight, self.base, v[self.chosen]
        # With w = base e^t the left side is convex and grows in t: Newton from the right is
        # monotone. Both of these lie on the right of the root.
        t = torch.minimum(value / scale, (value / base).clamp_min(1.0).log())
        for _ in range(_NEWTON_STEPS):
            w = base * t.exp()
            change = (w + scale * t - value) / (w + scale)
            t = t - change
            if float(change.abs().max()) <= 1e-14 * (1.0 + float(t.abs().max())):
                break
        result = v.clone()
        result[self.chosen] = base * t.exp()
        return result

    def force(self, theta: Tensor) -> Tensor:
        """weight * (theta - anchor) over the mean parameter; its logarithms would not end at 0."""
        scale = torch.where(self.chosen, self.stiffness, self.weight)
        return scale * (theta.double() - self.anchor)


@dataclass(frozen=True)
class Curvature:
    """D = weight/2 ||theta - anchor||_H^2, H = C + damping * (mean diagonal of C) I.

    C = (1/R) sum_i J_i^T diag(w_i) J_i is the curvature of the quadratic that majorises the data
    term, averaged over R = `rows` rows evenly spread. The step no longer depends on the units of
    the parameters. For up to about a thousand of them.
    """

    weight: float = 1.0
    damping: float = 1e-2
    rows: int = 256
    floor: float = 1e-2  # |r| below this part of its scale counts as that

    def __post_init__(self) -> None:
        for name in ("weight", "damping", "floor"):
            object.__setattr__(
                self, name, check_positive(f"Curvature({name}=...)", getattr(self, name))
            )
        check_count("Curvature(rows=...)", self.rows)

    def at(self, problem: Problem, anchor: Tensor) -> BoundCurvature:
        """C at the anchor."""
        batch = problem.take(evenly_spread(problem.n_rows, self.rows))
        size = anchor.numel()
        total = torch.zeros(size, size, dtype=torch.float64, device=anchor.device)
        residuals = [linearize(problem, anchor, batch.tensors).residual] if batch.count else []
        own = residuals or [anchor.new_empty(0, problem.n_outputs)]
        losses = [problem.loss(residual) for residual in own]
        (scales,) = scales_of([batch], own, losses, clip=True)
        for part, residual in zip(*_pieces(batch, own[0]), strict=True):
            weights = problem.loss.curvature_weights(residual, self.floor * scales.size)
            jacobian = linearize(problem, anchor, part).rows().double()
            scaled = (jacobian * weights.double().sqrt().unsqueeze(-1)).flatten(0, 1)
            total += scaled.T @ scaled
        curvature = batch.communicator.sum(total) / batch.n_rows
        curvature.diagonal().add_(self.damping * float(curvature.diagonal().mean()))
        return BoundCurvature(self.weight * curvature, anchor.double())


@dataclass(frozen=True, eq=False)
class BoundCurvature:
    """The curvature's metric at its anchor."""

    matrix: Tensor  # (d, d) H in float64
    anchor: Tensor  # (d,) float64

    prox = None

    def weights(self, like: Tensor) -> Tensor:
        """Nothing beside the matrix."""
        return torch.zeros_like(like)

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """1/2 ||x - y||_H^2."""
        shift = (x - y).double()
        return 0.5 * shift @ (self.matrix @ shift)

    def force(self, theta: Tensor) -> Tensor:
        """H (theta - anchor)."""
        return self.matrix @ (theta.double() - self.anchor)


def _pieces(batch: LocalBatch, residual: Tensor) -> tuple[list[tuple[Tensor, ...]], list[Tensor]]:
    """A few rows at a time, with their residuals."""
    if not batch.count:
        return [], []
    splits = [torch.split(tensor, 16) for tensor in batch.tensors]
    return list(zip(*splits, strict=True)), list(torch.split(residual, 16))

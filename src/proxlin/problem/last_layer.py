"""A last layer that outputs are proportional to: the units that targets give it, and its start."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

from proxlin.problem.loss import Pinball, RowLoss
from proxlin.problem.scales import clipped_mean, median, row_sizes
from proxlin.terms import Penalty, Regularizer, Ridge
from proxlin.terms.layout import Layout

LARGE = 1024.0  # times a size: a bound on the outputs would show
_DEVIATION = 1.25  # of a Gaussian, in means of its size
_NEGLIGIBLE = 1 / 16  # of the targets' size: outputs below it explain nothing
_ORDINARY = 0.2  # outputs of a net as it is made
_EXTRAORDINARY = 100.0  # times more or less than that: the module itself multiplies
_PERTURBATION = 0.1  # added to every parameter, lest zeros hide how the outputs depend on them
_ROUNDING = 1e-3  # relative difference of outputs that counts as such


class Outputs(Protocol):
    """Some rows, of which a module with other parameters can be asked."""

    def outputs(self, theta: Tensor) -> Tensor:
        """(B, N)."""
        ...

    def targets(self) -> Tensor:
        """(B, N)."""
        ...


@dataclass(frozen=True)
class LastLayer:
    """The parameters of one module, to which outputs may be proportional."""

    layout: Layout
    names: tuple[str, ...]

    def times(self, theta: Tensor, number: float) -> Tensor:
        """The same parameters, those of the layer times a number."""
        return theta * self.factor(theta, number)

    def factor(self, theta: Tensor, number: float) -> Tensor:
        """The number for the layer, else 1; (d,)."""
        factor = torch.ones_like(theta)
        for name in self.names:
            factor[self.layout.slice(name)] = number
        return factor

    def own_multiple(self, few: Outputs, theta: Tensor, spread: float) -> float:
        """What the module itself multiplies the layer's outputs by; 1 where that is unclear.

        A bias tells by what it adds. Without one, outputs by a last layer as it is made are
        compared with what is ordinary for them.
        """
        multiple = self._multiple_of_bias(few, theta)
        if multiple is None:
            parts = self.layout.split(theta)
            matrices = [parts[name].flatten(1) for name in self.names if parts[name].ndim > 1]
            made = [float(m.square().mean().sqrt()) * math.sqrt(3 * m.shape[1]) for m in matrices]
            multiple = spread / made[0] / _ORDINARY if made and made[0] > 0 else 1.0
        clear = multiple > _EXTRAORDINARY or 0 < multiple < 1 / _EXTRAORDINARY
        return multiple if clear and math.isfinite(multiple) else 1.0

    def _multiple_of_bias(self, few: Outputs, theta: Tensor) -> float | None:
        """How far outputs move with the parameter that moves those of all rows alike."""
        output = few.outputs(theta)
        by = max(1.0, float(output.abs().max()))
        for name in self.names:
            moved = theta.clone()
            moved[self.layout.slice(name)] += by
            shift = few.outputs(moved) - output
            if nearly_equal(shift, shift[:1].expand_as(shift)):
                return float(shift.abs().mean()) / by
        return None

    def start(self, few: Outputs, theta: Tensor, scale: float, middle: Tensor) -> Tensor:
        """The same numbers in units of `scale`, the bias at the middle of the targets, (N,)."""
        start, bias = theta.clone(), self._bias(few, theta)
        if bias is not None:
            name, tiled = bias
            part = self.layout.slice(name)
            count = part.stop - part.start
            each = middle.view(-1, count).mean(0) if tiled else middle.view(count, -1).mean(1)
            start[part] = each / scale
        return start

    def _bias(self, few: Outputs, theta: Tensor) -> tuple[str, bool] | None:
        """The parameter that is added to the outputs, and whether they repeat it as a whole.

        Otherwise they repeat each of its numbers, as those of channels that come first.
        """
        output = few.outputs(theta)
        for name in self.names:
            part = self.layout.slice(name)
            count, width = part.stop - part.start, output.shape[1]
            if width % count:
                continue
            moved, by = theta.clone(), torch.arange(1, count + 1).to(theta)
            moved[part] += by
            shift = few.outputs(moved) - output
            for tiled in (False, True):
                wanted = (
                    by.repeat(width // count) if tiled else by.repeat_interleave(width // count)
                )
                if nearly_equal(shift, wanted.expand_as(shift)):
                    return name, tiled
        return None


def layers_from_the_last(layout: Layout) -> Iterator[LastLayer]:
    """The parameters of each module, normalised ones with those of their module."""
    layers: dict[str, list[str]] = {}
    for name in layout.names:
        module = name.partition(".parametrizations.")[0]
        module = module if module != name else name.rpartition(".")[0]
        layers.setdefault(module, []).append(name)
    return (LastLayer(layout, tuple(names)) for names in reversed(layers.values()))


def size_of(targets: Tensor) -> float:
    """How far a typical one is from their middle, as a deviation."""
    return _DEVIATION * typical_size(targets - targets.median(0).values)


def in_units(
    last: LastLayer,
    sample: Outputs,
    few: Outputs,
    theta: Tensor,
    loss: RowLoss | Pinball,
    *,
    exactly: bool = False,
) -> tuple[float, Tensor]:
    """The number of the last layer's units, and the start in them.

    A start at `theta` that explains the targets better than a constant stays what it is. Any other
    one keeps its numbers in the new units, and its bias begins at the middle of the targets.
    `exactly`: the number is a power of two, by which parameters are divided without rounding.
    """
    targets, outputs = sample.targets(), sample.outputs(theta)
    size, spread, middle = size_of(targets), size_of(outputs), targets.median(0).values
    scale = size / last.own_multiple(few, theta, spread)
    scale = 2.0 ** round(math.log2(scale)) if exactly else scale
    own, constant = (clipped_mean(loss(rows - targets)) for rows in (outputs, middle))
    if own < constant and spread > _NEGLIGIBLE * size:
        return scale, theta / last.factor(theta, scale)
    return scale, last.start(few, theta, scale, middle)


def shaken(theta: Tensor) -> Tensor:
    """Other parameters nearby, none of them zero."""
    noise = torch.randn(len(theta), generator=torch.Generator().manual_seed(0))
    return theta + _PERTURBATION * noise.to(theta)


def typical_size(away: Tensor) -> float:
    """Of what is not 0 in the rows of (B, N): classes as zeros and ones have the size 1."""
    some = (away != 0).sum(1).clamp_min(1)
    return float(median(row_sizes(away) * away.shape[1] / some))


def nearly_equal(one: Tensor, other: Tensor) -> bool:
    """Up to rounding, and not all zero."""
    size = float(other.abs().max())
    return 0 < size < math.inf and float((one - other).abs().max()) <= _ROUNDING * size


def penalty_in_units(penalty: Penalty, factor: Tensor, size: float) -> Penalty:
    """A quadratic g of theta = factor * theta' over the units of the loss, as one of theta'."""
    weights = penalty.quadratic * (factor.cpu().double() ** 2 / size)
    return Penalty(penalty.layout, _ridges(penalty.layout, weights))


def _ridges(layout: Layout, weights: Tensor) -> Regularizer | None:
    """1/2 sum_j a_j theta_j^2 for weights that are the same within each parameter."""
    total: Regularizer | None = None
    ends = accumulate(layout.sizes)
    for name, end in zip(layout.names, ends, strict=True):
        alpha = float(weights[end - 1]) if layout.shape(name).count(0) == 0 else 0.0
        if alpha:
            ridge = Ridge(alpha, on=name)
            total = ridge if total is None else total + ridge
    return total

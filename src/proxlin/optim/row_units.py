"""Residual rows in units in which a typical target is about 1, as `minimize` sees targets.

A closure tells no targets. But rows that are proportional to the parameters of a last layer, up to
a constant, tell both: that constant is the rows without the layer, and what the layer adds to it
are the outputs. Its parameters and the rows are then seen divided by the same number.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from proxlin.problem.last_layer import (
    LARGE,
    LastLayer,
    in_units,
    layers_from_the_last,
    nearly_equal,
    shaken,
    size_of,
    typical_size,
)
from proxlin.problem.loss import Pinball, RowLoss
from proxlin.terms.layout import Layout

_LOG = logging.getLogger("proxlin")
_ABSENT = 2.0**-40  # times a layer: it adds next to nothing
_NOTHING = 2.0**-30  # of the rows: less is what a normalised layer adds
_PRESENT = 1 / 16  # of the largest constant: what a layer adds is seen beside it
_MOST = 2.0**60  # times a layer
_ROUNDINGS = 4  # by which constants may differ that are the same
_LAYERS = 8  # of which one may be the last; each costs two calls of the closure
_FAR = 300.0  # times what shaken parameters change in the rows: nothing would be learnt

At = Callable[[Tensor], Tensor]  # theta -> the rows of a batch (B, N), of all processes


@dataclass(frozen=True)
class RowUnits:
    """theta = factor * theta', with the rows divided by `scale`."""

    scale: float  # a power of two
    last: tuple[str, ...]  # the parameters of factor `scale`; 1 for the others

    def factor(self, layout: Layout, theta: Tensor) -> Tensor:
        """(d,)."""
        return LastLayer(layout, self.last).factor(theta, self.scale)

    def of_loss(self, loss: RowLoss | Pinball) -> float:
        """What losses are divided by."""
        return self.scale**2 if loss.p == "mse" else self.scale


def row_units(
    rows: At, layout: Layout, theta: Tensor, loss: RowLoss | Pinball
) -> tuple[RowUnits, Tensor] | None:
    """The units of rows as functions of theta, and the start in them; None where there are none."""
    point = shaken(theta)
    here, there = rows(theta), rows(point)
    for last in islice(layers_from_the_last(layout), _LAYERS):
        seen = _Split(rows, last, _without(rows, last, theta, here))
        if not seen.bears_out(theta, point, there):
            continue
        seen = replace(seen, constant=_rounded(rows, seen, theta, here))
        if not 0 < size_of(seen.targets()) < math.inf:
            return None
        scale, start = in_units(last, seen, seen, theta, loss, exactly=True)
        return RowUnits(scale, last.names), start
    return None


def _without(rows: At, last: LastLayer, theta: Tensor, whole: Tensor) -> Tensor:
    """The rows, `whole` with the layer, without what it adds if they are proportional to it.

    Told without a layer of zeros, from which normalised ones and what follows them would not
    recover: the singular vectors and running statistics that they keep would be no numbers.
    """
    faint = rows(last.times(theta, _ABSENT))
    return faint - _ABSENT * (whole - faint)


def _rounded(rows: At, seen: _Split, theta: Tensor, whole: Tensor) -> Tensor:
    """The same to the last bit, once the rows are known to be proportional to the layer."""
    constant = rows(seen.last.times(theta, 0.0))
    if bool(constant.isfinite().all()):
        return constant
    return torch.where(seen.constant.abs() > _NOTHING * typical_size(whole), seen.constant, 0.0)


def warn_of_size(rows: At, theta: Tensor) -> None:
    """Say where steps are far too short for the rows."""
    here = rows(theta)
    if typical_size(here) > _FAR * typical_size(rows(shaken(theta)) - here):
        _LOG.warning(
            "The residual rows are so large that Probed would take very many steps: moving each"
            " parameter by a tenth changes them by less than a hundredth. Scale the targets to"
            " about 1."
        )


@dataclass(frozen=True, eq=False)
class _Split:
    """Rows as outputs, proportional to a layer, less targets, which know nothing of it."""

    rows: At
    last: LastLayer
    constant: Tensor  # (B, N)

    def targets(self) -> Tensor:
        """(B, N)."""
        return -self.constant

    def outputs(self, theta: Tensor) -> Tensor:
        """(B, N)."""
        times, added = self._visible(theta)
        return added / times

    def bears_out(self, theta: Tensor, point: Tensor, whole: Tensor) -> bool:
        """Whether the constant is the same at this point, with rows `whole`, too, and what the
        layer adds is proportional to it at both.

        Rounding alone may part the constants: beside large targets all of a net that another layer
        or a tied one adds to is little more.
        """
        constant = _without(self.rows, self.last, point, whole)
        rounding = _ROUNDINGS * torch.finfo(constant.dtype).eps * self.constant.abs()
        faint = 2 * _ABSENT * float((whole - constant).abs().max())
        same = (constant - self.constant).abs() <= rounding + faint
        if not (bool(same.all()) and math.isfinite(faint)):
            return False
        return self._is_proportional(point) and self._is_proportional(theta, or_nothing=True)

    def _is_proportional(self, theta: Tensor, *, or_nothing: bool = False) -> bool:
        times, added = self._visible(theta)
        if or_nothing and not bool(added.any()):  # a layer that begins at zero
            return True
        return nearly_equal(self._added(theta, LARGE * times), LARGE * added)

    def _visible(self, theta: Tensor) -> tuple[float, Tensor]:
        """A multiple of the layer beside which rounding of the rows does not show; what it adds."""
        times, enough = 1.0, _PRESENT * float(self.constant.abs().max())
        added = self._added(theta, times)
        while typical_size(added) < enough and times < _MOST:
            times *= LARGE
            added = self._added(theta, times)
        return times, added

    def _added(self, theta: Tensor, times: float) -> Tensor:
        return self.rows(self.last.times(theta, times)) - self.constant

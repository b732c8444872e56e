"""One equation for each coordinate, w = t x + s x^(r-1), solved for many coordinates at once.

Here x is the unit dual vector of the solution: u = s x^(r-1) is the proximal point, y = t x the
point of the dual ball, 1/p + 1/r = 1, and sum(x^r) = 1 at the right s. With a = min(p, r) - 1,
b = 1 - a and `share` the share of w that the term with the smaller exponent takes (u for p < 2,
y for p > 2) this is Alg. 3's equation for g:

    share + theta * share^a = 1,    log(theta) = log(t) - a log(s) - b log(w)

for p < 2; s and t change places for p > 2. Vectors are the rows of a block, their scalars are
columns, and everything happens inside the buffers that the caller hands over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

LN2 = math.log(2.0)
_NEAR = 0.5  # bits: coordinates closer than this are moved with their curvature
_ROUGH = 0.2  # bits: good enough for the first trial, whose s is rough as well
_MAX_STEPS = 100


class NormTrial(NamedTuple):
    """What the root finder needs of a trial s; the columns scale the tensors before them."""

    weight: Tensor  # x^r
    weight_scale: Tensor
    rate: Tensor  # -d log(x^r) / d log(s) over 1 + a
    rate_scale: Tensor


class PowerSums(NamedTuple):
    """Sums over each vector w, as columns."""

    p: Tensor  # w^p
    p_steep: Tensor  # w^(2p-2)
    r: Tensor  # w^r
    r_steep: Tensor  # w^(2r-2)


class CoordinateSolver(Protocol):
    """The coordinates of a block of vectors, for one exponent."""

    settled: bool  # whether the last trial was exact up to rounding

    def power_sums(self) -> PowerSums:
        """The sums behind the norms and the first guess; to be called first."""

    def trial(self, s: Tensor) -> NormTrial:
        """Weights and rates at the norms s; they live in buffers and may be overwritten."""

    def fraction(self, s: Tensor, *, dual: bool) -> Tensor:
        """u/w, or y/w if `dual`, at norms s close to the last trial; to be called last."""


class QuadraticSolver:
    """p = 3/2 and p = 3: linear * z + square * z^2 = w has z = 2w / (linear + q) in closed form.

    p = 3/2 has x = z, linear = t, square = s; p = 3 has x = z^2, linear = s, square = t.
    Either way x^r = z^3, and q = sqrt(linear^2 + 4 square w) is also linear + 2 square z.
    """

    buffers = 4
    settled = True

    def __init__(self, w: Tensor, t: Tensor, buffers: Sequence[Tensor], *, p: float) -> None:
        self._w, self._t = w, t
        self._q, self._half, self._cube = buffers[:3]
        self._above_two = p > 2

    def power_sums(self) -> PowerSums:
        """See CoordinateSolver."""
        w = self._w
        three_halves = _row_sum(torch.sqrt(w, out=self._q).mul_(w))
        square = torch.mul(w, w, out=self._half)
        three, four = _row_sum(torch.mul(square, w, out=self._q)), _row_sum(square.mul_(square))
        first = _row_sum(w)
        if self._above_two:
            return PowerSums(three, four, three_halves, first)
        return PowerSums(three_halves, first, three, four)

    def trial(self, s: Tensor) -> NormTrial:
        """See CoordinateSolver."""
        q, half = self._solve(s)
        weight = torch.mul(half, half, out=self._cube).mul_(half)
        eight = torch.full_like(s, 8.0)
        if self._above_two:
            return NormTrial(weight, eight, q.reciprocal_(), 2.0 * s)
        return NormTrial(weight, eight, half.div_(q), 4.0 * s)

    def fraction(self, s: Tensor, *, dual: bool) -> Tensor:
        """See CoordinateSolver."""
        coefficient = self._t if dual else s
        if dual != self._above_two:  # the linear term
            q = self._root(s).add_(coefficient)
            return torch.div(2.0 * coefficient, q, out=q)
        q, half = self._solve(s)
        linear = s if self._above_two else self._t
        return half.mul_(4.0 * coefficient).div_(q.add_(linear))

    def _root(self, s: Tensor) -> Tensor:
        linear, square = (s, self._t) if self._above_two else (self._t, s)
        return torch.mul(self._w, 4.0 * square, out=self._q).add_(linear * linear).sqrt_()

    def _solve(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """q and z / 2."""
        q = self._root(s)
        half = torch.add(q, s if self._above_two else self._t, out=self._half)
        return q, torch.div(self._w, half, out=half)


class LogSolver:
    """Every other exponent: a k + b log2(1 + 2^k) = xi with k = log2(share / (1 - share)).

    The left side is convex and increasing in k with slopes between a and 1, and
    xi = b log2(w) - log2(t) + a log2(s) (p < 2; t and s change places for p > 2). Exponents near 1,
    huge exponents, zeros and tiny coordinates are all harmless in these variables: an error of xi
    moves the shares by no more than itself.
    """

    buffers = 10

    def __init__(self, w: Tensor, t: Tensor, buffers: Sequence[Tensor], *, p: float) -> None:
        self._above_two = p > 2
        self._a = 1.0 / (p - 1.0) if self._above_two else p - 1.0
        self._b = (p - 2.0) / (p - 1.0) if self._above_two else 2.0 - p
        self._w, self._t, self._log_t = w, t, t.log2()
        self._logs, self._xi, self._next, self._k = buffers[:4]
        self._share, self._rest, self._product, self._change, self._slope = buffers[4:9]
        # Bits: after a step of this size the next one would be lost in rounding.
        self._exact = torch.finfo(w.dtype).eps ** 0.5
        # Shares below 2^-limit are nothing; the limit keeps k, and with it its rounding, small.
        self._limit = 126.0 if w.dtype == torch.float32 else 1020.0
        self._started = self.settled = False
        torch.log2(w, out=self._logs)

    def power_sums(self) -> PowerSums:
        """See CoordinateSolver."""
        a, w, product = self._a, self._w, self._next
        low = torch.mul(self._logs, a, out=self._xi).exp2_()  # w^(min(p, r) - 1)
        low_sum, low_steep = _row_sum(torch.mul(low, w, out=product)), _row_sum(low.mul_(low))
        high = torch.mul(self._logs, 1.0 / a, out=low).exp2_()  # w^(max(p, r) - 1)
        high_sum, high_steep = _row_sum(torch.mul(high, w, out=product)), _row_sum(high.mul_(high))
        self._squares = w.mul_(w)  # all that is needed of w from here on
        if self._above_two:
            return PowerSums(high_sum, high_steep, low_sum, low_steep)
        return PowerSums(low_sum, low_steep, high_sum, high_steep)

    def trial(self, s: Tensor) -> NormTrial:
        """See CoordinateSolver."""
        self.settled = self._started
        if self._started:
            self._advance(s)
        else:
            self._start(s)
        self._correct(self._exact if self.settled else _ROUGH)
        weight = torch.mul(self._share, self._rest, out=self._change).mul_(self._squares)
        taker = self._rest if self._above_two else self._share
        rate = torch.div(taker, self._slope, out=self._next)
        return NormTrial(weight, 1.0 / (s * self._t), rate, torch.ones_like(s))

    def fraction(self, s: Tensor, *, dual: bool) -> Tensor:
        """See CoordinateSolver."""
        if not self._advance(s):
            self._correct(self._exact)
        k = self._k.neg_() if dual == self._above_two else self._k
        return k.exp2_().add_(1.0).reciprocal_()

    def _right_side(self, s: Tensor, out: Tensor) -> Tensor:
        log_s = s.log2()
        shift = self._a * self._log_t - log_s if self._above_two else self._a * log_s - self._log_t
        xi = torch.add(shift, self._logs, alpha=self._b, out=out)
        return xi.clamp_(-self._limit * self._a, self._limit)

    def _start(self, s: Tensor) -> None:
        """Set k to an upper bound: the least of some tangents, k(xi) being concave."""
        xi = self._right_side(s, self._xi)
        torch.minimum(xi, torch.div(xi, self._a, out=self._k), out=self._k)
        for k in _tangent_points(self._a):
            slope = self._a + self._b / (1.0 + 2.0**-k)
            offset = k - (self._a * k + self._b * math.log2(1.0 + 2.0**k)) / slope
            torch.add(xi.new_tensor(offset), xi, alpha=1.0 / slope, out=self._next)
            torch.minimum(self._k, self._next, out=self._k)
        self._started = True

    def _advance(self, s: Tensor) -> bool:
        """Follow a small change of s to second order; after a large one start again: False."""
        xi = self._right_side(s, self._next)
        change = torch.sub(xi, self._xi, out=self._change).div_(self._slope)
        if _largest(change) >= _NEAR:
            self._start(s)
            return False
        self._xi, self._next = xi, self._xi
        torch.mul(self._share, self._rest, out=self._product)
        self._add_bend(change)
        self._k.add_(change)
        return True

    def _add_bend(self, change: Tensor) -> None:
        bend = torch.div(self._product, self._slope, out=self._next).mul_(change)
        change.addcmul_(change, bend, value=-0.5 * LN2 * self._b)

    def _correct(self, tolerance: float) -> None:
        """Solve for k: Newton's steps from above, then Chebyshev's of order three."""
        a, b, k = self._xi.new_tensor(self._a), self._b, self._k
        share, rest, change, slope = self._share, self._rest, self._change, self._slope
        near_steps = 0
        for _ in range(_MAX_STEPS):
            torch.log1p(torch.exp2(k, out=share), out=rest)
            torch.add(self._xi, k, alpha=-self._a, out=change).sub_(rest, alpha=b / LN2)
            torch.add(share, 1.0, out=rest).reciprocal_()
            share.mul_(rest)
            torch.add(a, share, alpha=b, out=slope)
            error = _largest(change.div_(slope))
            torch.mul(share, rest, out=self._product)
            if self._exact < error < _NEAR:
                near_steps += 1
                self._add_bend(change)
            k.add_(change)
            # The steps shrink like their cubes; more of them would only stir the rounding.
            if error <= tolerance or near_steps > 3:
                break
        # The shares follow the last, small step to first order.
        moved = self._product.mul_(change)
        share.add_(moved, alpha=LN2)
        rest.sub_(moved, alpha=LN2)
        slope.add_(moved, alpha=b * LN2)


def _row_sum(x: Tensor) -> Tensor:
    return x.sum(-1, keepdim=True)


def _largest(x: Tensor) -> float:
    least, most = x.aminmax()
    return max(-float(least), float(most))


def _tangent_points(a: float) -> list[float]:
    """Values of k, two bits apart, where k bends as a function of xi: from log2(a) to 2."""
    lowest = math.floor(math.log2(a)) - 1.0
    return [lowest + 2.0 * i for i in range(max(1, math.ceil((3.0 - lowest) / 2.0)))]

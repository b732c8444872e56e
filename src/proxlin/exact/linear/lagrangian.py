"""The augmented Lagrangian in theta: a convex function, its gradient and generalised Hessian.

phi(theta) = sum_i w_i envelope(Z theta - V + dual/rho)_i + 1/2 <Q theta, theta> + envelope of h
             + hold/2 ||theta - anchor||^2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from proxlin.exact.linear.coordinates import Coordinates, chunks
from proxlin.exact.linear.losses import Loss
from proxlin.exact.linear.penalties import PenaltyHessian, ScaledPenalty

_LARGEST = 1500  # unknowns of one dense system
_COUPLED = 400  # unknowns beyond which products cost less than assembling coupled targets
_SPARSE = 0.7  # share of the rows below which only those with curvature are gathered
_PRODUCTS = 500  # steps of conjugate gradients
_SINGULAR = 1e-10  # share of the largest curvature below which a preconditioner has none
_RETRIES = 10  # times that a system that is not positive definite is shifted further


@dataclass
class Point:
    """Where the solver is: primal theta, residuals, multipliers."""

    theta: Tensor  # (k, t)
    residual: Tensor  # (n, t) Z theta - V
    dual: Tensor  # (n, t) multipliers of the residuals over their row weight, in the dual ball
    penalty_dual: Tensor  # (m, t) multipliers of theta = c


@dataclass(frozen=True)
class Lagrangian:
    """phi for one penalty parameter rho and the multipliers of one point."""

    where: Coordinates
    loss: Loss
    penalty: ScaledPenalty
    rho: float
    dual: Tensor  # (n, t)
    penalty_dual: Tensor  # (m, t)
    hold: float  # weight of the proximal term, which keeps singular Newton systems away
    anchor: Tensor  # (k, t) theta when the multipliers were moved last

    @property
    def blocks(self) -> bool:
        """Whether the targets are problems of their own."""
        rest = self.penalty.rest
        return self.loss.separable and (rest is None or rest.separable)

    def rows_gradient(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """v and the gradient of the envelope at each of its rows."""
        v = residual if self.loss.smooth else torch.add(residual, self.dual, alpha=1.0 / self.rho)
        return v, self.loss.gradient(v, self.rho)

    def penalty_gradient(self, theta: Tensor) -> Tensor:
        """Q theta + D on the charged rows, 0 on the others."""
        full = torch.zeros_like(theta)
        m = self.penalty.rows
        if m:
            full[:m] = self.penalty.quadratic * theta[:m]
            if self.penalty.rest is not None:
                full[:m] += self.penalty.rest.split(theta[:m], self.penalty_dual, self.rho)[1]
        return full

    def gradient(self, theta: Tensor, rows: Tensor) -> Tensor:
        """(k, t) gradient of phi, given that of the rows."""
        design, weights = self.where.design, self.where.weights
        return design.T @ (weights[:, None] * rows) + self.smooth_gradient(theta)

    def smooth_gradient(self, theta: Tensor) -> Tensor:
        """What the penalty and the proximal term add to the gradient."""
        return self.penalty_gradient(theta).add_(theta - self.anchor, alpha=self.hold)

    def per_block(self, products: Tensor) -> Tensor:
        """Column sums: one for each target, or one for all."""
        sums = products.sum(0)
        return sums if self.blocks else sums.sum().reshape(1)


class GeneralizedHessian:
    """Z^T w (diag(a) - b b^T) Z + Q + the curvature of the rest, at one point."""

    def __init__(self, phi: Lagrangian, theta: Tensor, v: Tensor, rows: Tensor) -> None:
        self.phi, self.k, self.t = phi, theta.shape[0], theta.shape[1]
        self.a, self.b = phi.loss.curvature(v, rows, phi.rho)
        m, rest = phi.penalty.rows, phi.penalty.rest
        self.penalty_hessian: PenaltyHessian | None = None
        if m:
            bend = rest.curvature(theta[:m], phi.penalty_dual, phi.rho) if rest else None
            self.penalty_hessian = (
                PenaltyHessian(phi.penalty.quadratic)
                if bend is None
                else PenaltyHessian(bend.diagonal + phi.penalty.quadratic, bend.rows, bend.matrix)
            )

    def solve(self, gradient: Tensor, accuracy: float) -> Tensor:
        """(H + small I)^-1 gradient; the small part, and what CG leaves, fade with `accuracy`.

        Targets that are problems of their own and have no gradient are left out.
        """
        blocks = self.phi.blocks
        unknowns = self.k * (1 if blocks else self.t)
        if unknowns > (_LARGEST if blocks else min(_COUPLED, _LARGEST)):
            few = self._few_rows(_COUPLED)
            direction, solved = self._conjugate_gradients(gradient, accuracy, by_rows=few)
            if not solved and not few and self._few_rows(_LARGEST):
                direction, solved = self._conjugate_gradients(gradient, accuracy, by_rows=True)
            if solved or unknowns > _LARGEST:
                return direction
        moving = gradient.abs().amax(0).nonzero().squeeze(1) if blocks else None
        hessian = self.matrix()[None] if moving is None else self.blocks(moving)
        kept = gradient if moving is None else gradient[:, moving]
        flat = kept.T.reshape(len(hessian), -1, 1)
        diagonal = hessian.diagonal(dim1=1, dim2=2)
        diagonal.add_(self.phi.hold)
        # Relative to each unknown: a steep penalty must not freeze the others.
        shift = diagonal.clamp(min=max(1e-8 * self.phi.rho, 1e-300)) * _slack(self.phi, accuracy)
        for _ in range(_RETRIES):
            shifted = hessian.clone()
            shifted.diagonal(dim1=1, dim2=2).add_(shift)
            factor, bad = torch.linalg.cholesky_ex(shifted)
            if not bool(bad.any()):
                break
            shift = shift * 100.0
        solution = torch.cholesky_solve(flat, factor).reshape(-1, self.k).T
        if moving is None:
            return solution.T.reshape(self.t, self.k).T
        return torch.zeros_like(gradient).index_copy_(1, moving, solution)

    def blocks(self, targets: Tensor | None = None) -> Tensor:
        """(t, k, k): the part that does not couple the targets, of some of them or all.

        Target by target: the rows with curvature are few and others for each.
        """
        design, weights = self.phi.where.design, self.phi.where.weights
        chosen = list(range(self.t)) if targets is None else targets.tolist()
        blocks = design.new_zeros(len(chosen), self.k, self.k)
        for block, j in zip(blocks, chosen, strict=True):
            curved = self.a[:, j] * weights
            index = curved.nonzero().squeeze(1)
            dense = len(index) >= _SPARSE * len(curved)
            for part in chunks(len(curved) if dense else len(index), 2 * self.k):
                here = part if dense else index[part]
                z = design[here] * curved[here].sqrt()[:, None]
                block.addmm_(z.T, z)
        if self.penalty_hessian is not None:
            m = len(self.penalty_hessian.diagonal)
            added = self.penalty_hessian.diagonal[:, chosen].T
            blocks.diagonal(dim1=1, dim2=2)[:, :m] += added
        return blocks

    def matrix(self) -> Tensor:
        """(t k, t k), running through theta target by target."""
        size = self.k * self.t
        full = self.phi.where.design.new_zeros(size, size)
        for j, block in enumerate(self.blocks()):
            here = slice(j * self.k, (j + 1) * self.k)
            full[here, here] = block
        if self.b is not None:
            roots = self.b * self.phi.where.weights.sqrt()[:, None]
            for part in chunks(len(roots), 2 * size):
                spread = roots[part, :, None] * self.phi.where.design[part, None, :]
                spread = spread.reshape(len(spread), size)
                full.addmm_(spread.T, spread, alpha=-1.0)
        if self.penalty_hessian is not None:
            m = len(self.penalty_hessian.diagonal)
            place = torch.arange(size).reshape(self.t, self.k)[:, :m].T  # (m, t) in theta's order
            if self.penalty_hessian.rows is not None:
                outer = (
                    self.penalty_hessian.rows[:, :, None] * self.penalty_hessian.rows[:, None, :]
                )
                full[place[:, :, None], place[:, None, :]] -= outer
            if self.penalty_hessian.matrix is not None:
                flat = place.reshape(-1)
                full[flat[:, None], flat] += self.penalty_hessian.matrix
        return full

    def factor(self) -> Tensor | None:
        """The Cholesky factors of H, block by block; None if it is singular or too large."""
        blocks = self.phi.blocks
        if self.k * (1 if blocks else self.t) > _LARGEST:
            return None
        hessian = self.blocks() if blocks else self.matrix()[None]
        diagonal = hessian.diagonal(dim1=1, dim2=2)
        diagonal.add_(diagonal.clone() * 1e-15)
        factor, bad = torch.linalg.cholesky_ex(hessian)
        return None if bool(bad.any()) else factor

    def bend(self, change: Tensor) -> Tensor:
        """(diag(a) - b b^T) times a change of the residuals (n, t), row by row."""
        bent = self.a * change
        if self.b is not None:
            bent -= self.b * (self.b * change).sum(1, keepdim=True)
        return bent

    def product(self, direction: Tensor) -> Tensor:
        """H times a direction (k, t)."""
        where = self.phi.where
        bent = self.bend(where.design @ direction)
        product = where.design.T @ (bent * where.weights[:, None])
        if self.penalty_hessian is not None:
            m = len(self.penalty_hessian.diagonal)
            product[:m] += self.penalty_hessian @ direction[:m]
        return product

    def _diagonal(self) -> Tensor:
        where = self.phi.where
        net = self.a if self.b is None else self.a - self.b.square()
        net = net.clamp(min=0.0) * where.weights[:, None]
        total = torch.zeros(self.k, self.t, dtype=net.dtype)
        for part in chunks(len(net), self.k):
            total += where.design[part].square().T @ net[part]
        if self.penalty_hessian is not None:
            m = len(self.penalty_hessian.diagonal)
            total[:m] += self.penalty_hessian.diagonal
            if self.penalty_hessian.rows is not None:
                total[:m] -= self.penalty_hessian.rows.square()
            if self.penalty_hessian.matrix is not None:
                total[:m] += self.penalty_hessian.matrix.diagonal().reshape(m, self.t)
        return total

    def _few_rows(self, most: int) -> bool:
        """Whether a system of the rows' unknowns is at most that, and half of one of theta's."""
        curved = self.penalty_hessian
        small = self.t * len(self.a) <= min(most, self.k * self.t // 2)
        return small and not self.phi.blocks and curved is not None and curved.matrix is None

    def _inverse_by_rows(self, floor: Tensor) -> Callable[[Tensor], Tensor]:
        """About H^-1 times a gradient, by the formula of Woodbury: a system of n t unknowns.

        H = P + Z^T L L^T Z with P = diag(p) - q q^T within each row of theta; P^-1 = 1/p + u u^T.
        Directions in which P is nearly 0 are given `floor` of it: H is preconditioned, not solved.
        """
        assert self.penalty_hessian is not None
        z, m = self.phi.where.design, len(self.penalty_hessian.diagonal)
        p = floor.clone()
        p[:m] += self.penalty_hessian.diagonal
        u = torch.zeros_like(p)
        if self.penalty_hessian.rows is not None:
            q = self.penalty_hessian.rows
            left = 1.0 - (q.square() / p[:m]).sum(1, keepdim=True)
            u[:m] = q / p[:m] / left.clamp(min=_SINGULAR).sqrt()
        curved = torch.diag_embed(self.a)
        if self.b is not None:
            curved -= self.b[:, :, None] * self.b[:, None, :]
        values, vectors = torch.linalg.eigh(curved * self.phi.where.weights[:, None, None])
        root = vectors * values.clamp(min=0.0).sqrt()[:, None, :]  # (n, t, t) L

        def unpenalized(part: Tensor) -> Tensor:
            return part / p + u * (u * part).sum(1, keepdim=True)

        n, t = self.a.shape
        # L^T Z P^-1 Z^T L, from the part of 1/p, target by target, and that of u u^T.
        middle = torch.zeros(n, t, n, t, dtype=p.dtype)
        middle.diagonal(dim1=1, dim2=3).copy_(torch.einsum("ij,jt,lj->ilt", z, 1.0 / p, z))
        moved = u.abs().amax(1) > 0
        spread = (z[:, None, moved] * u[moved].T).reshape(n * t, -1)
        middle = (middle.reshape(n * t, n * t) + spread @ spread.T).reshape(n, t, n, t)
        middle = torch.einsum("iar,ialc->irlc", root, middle)
        middle = torch.einsum("irlc,lcs->irls", middle, root).reshape(n * t, n * t)
        middle.diagonal().add_(1.0)
        factor = torch.linalg.cholesky_ex((middle + middle.T) / 2)[0]

        def inverse(part: Tensor) -> Tensor:
            first = unpenalized(part)
            seen = torch.einsum("iar,ia->ir", root, z @ first).reshape(-1, 1)
            answer = torch.cholesky_solve(seen, factor).reshape(n, t)
            return first - unpenalized(z.T @ torch.einsum("iar,ir->ia", root, answer))

        return inverse

    def _conjugate_gradients(
        self, gradient: Tensor, accuracy: float, *, by_rows: bool
    ) -> tuple[Tensor, bool]:
        diagonal = self._diagonal()
        top = max(float(diagonal.max()), 1e-8 * self.phi.rho, 1e-300)
        shift = self.phi.hold + diagonal.clamp(min=1e-8 * top) * _slack(self.phi, accuracy)
        scale = 1.0 / (diagonal.clamp(min=1e-8 * top) + shift)
        inverse: Callable[[Tensor], Tensor] = scale.mul
        if by_rows:
            inverse = self._inverse_by_rows(shift.clamp(min=_SINGULAR * top))
        x, r = torch.zeros_like(gradient), gradient.clone()
        z = inverse(r)
        d, rz = z.clone(), float((r * z).sum())
        stop = min(1e-2, accuracy**0.5) ** 2 * rz
        for _ in range(_PRODUCTS):
            hd = self.product(d) + shift * d
            bent = float((d * hd).sum())
            if not bent > 0.0 or rz <= stop:
                return x, True
            step = rz / bent
            x += step * d
            r -= step * hd
            z = inverse(r)
            before, rz = rz, float((r * z).sum())
            d = z + (rz / before) * d
        return x, False


def _slack(phi: Lagrangian, accuracy: float) -> float:
    """The share of its diagonal that is added to a system, next to what the proximal term adds.

    Without that term it fades with the gradient.
    """
    return 1e-15 if phi.hold else 1e-12 + min(1e-4, 1e-3 * accuracy)

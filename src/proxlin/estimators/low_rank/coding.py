"""Coding: a trained autoencoder with its scaling, from plain rows to codes and back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proxlin.errors import InvalidInputError
from proxlin.estimators.low_rank.autoencoder_nets import RowForm
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.tables import Array, as_array, as_tensor
from proxlin.problem.loss import Exponent, RowLoss

_CHUNK_NUMBERS = 2**20  # cells of the rows that go through the net at once
_FARTHEST = 1e4  # scaled cells beyond count as that in training, so that float32 can square them
_SAMPLE = 10_000  # rows that tell how large the data are
_NOISY_ROWS = 20_000  # noisy copies of the rows are made up to about so many


@dataclass(frozen=True, eq=False)
class Coding:
    """x -> code -> x, for plain rows (n, features) whatever the net takes.

    Computed in the type of the rows: the float32 weights count as exact.
    """

    module: Any  # torch module with parts encoder and decoder, float32
    form: RowForm
    scaling: RobustScaling
    code_shape: tuple[int, ...]  # of one row as the encoder returns it

    @classmethod
    def of(cls, module: Any, form: RowForm, scaling: RobustScaling) -> Coding:
        """Find out what shape the codes have."""
        place = next(module.parameters())
        row = torch.zeros(1, form.n_features, device=place.device, dtype=place.dtype)
        with torch.no_grad():
            code = module.encoder(form.shaped(row))
        return cls(module, form, scaling, tuple(code.shape[1:]))

    def encode(self, rows: Array) -> Array:
        """The codes of the rows, (n, code width)."""
        return self._map(rows, lambda net, x: net.encoder(self.form.shaped(x)), self.scaling.apply)

    def decode(self, codes: Array) -> Array:
        """The rows of the codes, (n, features)."""
        back = self._map(codes, lambda net, c: net.decoder(c.reshape(len(c), *self.code_shape)))
        return self.scaling.invert(back).astype(codes.dtype, copy=False)

    def reconstruct(self, rows: Array) -> Array:
        """The rows after a way through the code, (n, features)."""
        back = self._map(rows, lambda net, x: net(self.form.shaped(x)), self.scaling.apply)
        return self.scaling.invert(back).astype(rows.dtype, copy=False)

    def norms(self, rows: Array, p: Exponent) -> NDArray[np.float64]:
        """||decode(encode(x)) - x||_p of each row after scaling, (n,)."""
        loss = RowLoss(p)

        def residual(net: nn.Module, x: Tensor) -> Tensor:
            return loss(net(self.form.shaped(x)).flatten(1) - x).unsqueeze(1)

        return self._map(rows, residual, self.scaling.apply)[:, 0].astype(np.float64)

    def training_rows(self, rows: Array, noise: float, seed: int) -> tuple[Tensor, ...]:
        """The scaled rows as the net takes them; with noise, several (noisy row, clean row).

        Memory at the peak: one float64 and one float32 copy of the rows.
        """
        scaled = self.scaling.apply(rows)
        np.clip(scaled, -_FARTHEST, _FARTHEST, out=scaled)
        clean = self.form.shaped(as_tensor(scaled, device=next(self.module.parameters()).device))
        if not noise:
            return (clean,)
        # A fixed set of noisy copies keeps the objective one function, which can be measured.
        copies = max(1, min(5, _NOISY_ROWS // len(clean)))
        target = clean.repeat(copies, *(1,) * (clean.ndim - 1))
        generator = torch.Generator().manual_seed(seed)
        draws = torch.randn(target.shape, generator=generator).to(target.device)
        return target + noise * draws, target

    def _map(
        self,
        rows: Array,
        function: Callable[[Any, Tensor], Tensor],
        before: Callable[[Array], Array] = lambda part: part,
    ) -> Array:
        """The function of all rows, a bounded number at a time, in their own type."""
        dtype = torch.float32 if rows.dtype == np.float32 else torch.float64
        device = next(self.module.parameters()).device
        net = copy.deepcopy(self.module).to(dtype).eval()
        size = max(1, _CHUNK_NUMBERS // max(1, rows.shape[1]))
        parts = []
        with torch.no_grad():
            for first in range(0, len(rows), size):
                part = as_tensor(before(rows[first : first + size]), dtype=dtype, device=device)
                parts.append(as_array(function(net, part).flatten(1)))
        return np.concatenate(parts).astype(rows.dtype, copy=False)


def read_image_shape(image_shape: Any, x: Any) -> tuple[int, int, int] | None:
    """(c, h, w) of the rows: given, seen in x of four dimensions, or None for a table."""
    seen = tuple(int(size) for size in np.shape(x)[1:]) if has_images(x) else None
    if image_shape is None:
        return seen  # type: ignore[return-value]
    given = tuple(np.ravel(image_shape).tolist())
    if len(given) != 3 or not all(isinstance(side, int) and side > 0 for side in given):
        raise InvalidInputError(
            f"image_shape must be (channels, height, width), three numbers > 0; got {given}."
        )
    pixels = prod(np.shape(x)[1:])
    if (seen is not None and seen != given) or prod(given) != pixels:
        raise InvalidInputError(
            f"image_shape={given} must be the shape of each row of X, {prod(given)} numbers; X has"
            f" shape {tuple(np.shape(x))}."
        )
    return given


def has_images(x: Any) -> bool:
    """Whether x has four dimensions; what is no array yet is looked at only if it is a list."""
    return bool((np.ndim(x) if isinstance(x, list | tuple) else getattr(x, "ndim", 0)) == 4)


def flat_rows(x: Any) -> Any:
    """Images (n, c, h, w) as rows of pixels; all else as it is."""
    if not has_images(x) or not len(x):
        return x
    images = np.asarray(x) if isinstance(x, list | tuple) else x
    return images.reshape(len(images), prod(images.shape[1:]))


def typical_norm(rows: Array, scaling: RobustScaling, p: Exponent) -> float:
    """The median norm of some of the rows, the unit in which a residual counts as none."""
    some = scaling.apply(rows[:: max(1, len(rows) // _SAMPLE)])
    return float(np.median(RowLoss(p)(as_tensor(some, dtype=torch.float64)).numpy()))

"""Layer pieces: which stretches of theta form the matrix of one layer, bias included."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from proxlin.terms.layout import Layout

_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


@dataclass(frozen=True)
class LayerPiece:
    """One layer as a matrix: a row for each output unit, its bias as the last column."""

    weight: slice  # where the weight lies in theta
    shape: tuple[int, ...]  # of the weight
    bias: slice | None  # where the bias lies, if it belongs to the units
    transposed: bool  # the weight has its output units in the second dimension

    @property
    def units(self) -> int:
        """The number of rows."""
        return self.shape[1] if self.transposed else self.shape[0]

    @property
    def width(self) -> int:
        """The number of columns."""
        return prod(self.shape) // self.units + (self.bias is not None)

    def take(self, vectors: Tensor) -> Tensor:
        """The rows of this layer in vectors (K, d): (K, units, width)."""
        block = vectors[:, self.weight].reshape(-1, *self.shape)
        if self.transposed:
            block = block.transpose(1, 2)
        block = block.flatten(2) if block.ndim > 2 else block.unsqueeze(2)
        if self.bias is None:
            return block
        return torch.cat([block, vectors[:, self.bias].unsqueeze(2)], dim=2)

    def put(self, matrix: Tensor, vector: Tensor) -> None:
        """Write a (units, width) matrix back into the flat vector (d,)."""
        if self.bias is not None:
            vector[self.bias] = matrix[:, -1]
            matrix = matrix[:, :-1]
        if self.transposed:
            out_first = (self.shape[1], self.shape[0], *self.shape[2:])
            matrix = matrix.reshape(out_first).transpose(0, 1)
        vector[self.weight] = matrix.reshape(-1)


def layer_pieces(layout: Layout, module: nn.Module) -> list[LayerPiece]:
    """Cut theta into layers; a parameter that is no layer's weight forms a piece of its own."""
    pieces, used = [], set()
    for name, shape in zip(layout.names, layout.shapes, strict=True):
        if name in used:
            continue
        owner = module.get_submodule(name.rpartition(".")[0])
        transposed = (
            isinstance(owner, _TRANSPOSED) and name.endswith("weight") and owner.groups == 1
        )
        units = (shape[1] if transposed else shape[0]) if shape else 1
        # "weight", "in_proj_weight", "weight_hh_l0": the bias is called alike.
        mate = "bias".join(name.rsplit("weight", 1))
        has_mate = (
            len(shape) > 1
            and mate != name
            and mate in layout.names
            and layout.shape(mate) == (units,)
        )
        if has_mate:
            used.add(mate)
        bias = layout.slice(mate) if has_mate else None
        rows = (1, *shape) if len(shape) == 1 else shape or (1,)  # a vector is one row
        pieces.append(LayerPiece(layout.slice(name), rows, bias, transposed))
    return pieces

"""Small problems in float64, where two roads to one answer agree to many digits."""

import torch
from torch import nn

N_ROWS = 240


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def table(n_rows=N_ROWS, seed=0):
    """Rows with outliers: x and y."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n_rows, 4, generator=generator, dtype=torch.float64)
    y = torch.randn(n_rows, 3, generator=generator, dtype=torch.float64) + x[:, :3]
    y[: n_rows // 10] *= 10
    return x, y


def own_part(rank, size, n_rows=N_ROWS):
    """Uneven shards; with four processes the second has no rows."""
    ends = {1: [n_rows], 2: [170, n_rows], 4: [100, 100, 110, n_rows]}[size]
    return slice(([0, *ends])[rank], ends[rank])

"""Batch sizes that fit a net: as many rows as keep the machine busy without filling its cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from proxlin.problem import Problem

_ACTIVATIONS = 2**20  # of one batch
_WHOLE = 2**19  # numbers of all rows, up to which every batch is the whole data
_WHOLE_IN_A_BOX = 2**20  # the same where smaller batches could only take proximal steps


def fitting_batch_size(problem: Problem) -> int:
    """All rows if they are few, else a power of two with about a million activations a batch."""
    activations = activations_of_a_row(problem)
    inputs = sum(tensor[:1].numel() for tensor in problem.example)
    few = _WHOLE if problem.penalty.box is None else _WHOLE_IN_A_BOX
    if problem.n_rows * (activations + inputs) <= few:
        return problem.n_rows
    rows = _ACTIVATIONS // max(activations, 1)
    size = 1 << max(rows, 1).bit_length() - 1
    return min(max(size, 32), 1024, problem.n_rows)


def activations_of_a_row(problem: Problem) -> int:
    """The numbers that the leaf modules put out for one row."""
    count = 0

    def tally(_module: nn.Module, _inputs: Any, output: Any) -> None:
        nonlocal count
        count += output.numel() if isinstance(output, Tensor) else 0

    leaves = [m for m in problem.network.modules() if not any(m.children())]
    hooks = [leaf.register_forward_hook(tally) for leaf in leaves]
    try:
        with torch.no_grad():
            problem.residual(problem.theta(), tuple(tensor[:1] for tensor in problem.example))
    finally:
        for hook in hooks:
            hook.remove()
    return max(count, problem.n_outputs)

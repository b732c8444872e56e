"""Running averages of curvature, in a structure that fits the number of parameters."""

from __future__ import annotations

from proxlin.methods.curvature.dense import AveragedCurvature, DenseCurvature
from proxlin.methods.curvature.layered import LayeredCurvature
from proxlin.methods.curvature.layers import layer_pieces
from proxlin.problem import Problem

_DENSE_UP_TO = 1500  # parameters; beyond, renewing the factor costs more than the steps it serves


def curvature_for(problem: Problem, kind: str = "auto") -> AveragedCurvature:
    """An empty average of the given kind, "auto" for the one that fits d."""
    size = problem.layout.size
    if kind == "dense" or (kind == "auto" and size <= _DENSE_UP_TO):
        return DenseCurvature(size, problem.device)
    return LayeredCurvature(layer_pieces(problem.layout, problem.network), problem.theta())


__all__ = [
    "AveragedCurvature",
    "DenseCurvature",
    "LayeredCurvature",
    "curvature_for",
    "layer_pieces",
]

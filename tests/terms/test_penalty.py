"""Penalty: named parameters, glob patterns, convolution kernels, moduli, types, speed."""

from __future__ import annotations

import copy
from math import inf
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from proxlin.errors import InvalidInputError
from proxlin.terms import (
    Ball,
    Box,
    Constraint,
    ElasticNet,
    GroupLasso,
    Lasso,
    LpNorm,
    NonNegative,
    Penalty,
    Regularizer,
    Ridge,
    Simplex,
    Tied,
)
from proxlin.terms.layout import Layout

from .oracle import distance_to_oracle, oracle_prox

CONV = Layout(("conv.weight", "conv.bias", "out.weight"), ((4, 3, 2, 2), (4,), (2, 5)))


def random_theta(layout: Layout, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(layout.size, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("groups", ["rows", "columns"])
def test_group_lasso_on_kernels_groups_outputs_or_inputs(groups: str) -> None:
    g = GroupLasso(2.5, groups, on="*.weight")  # type: ignore[arg-type]
    penalty, theta = Penalty(CONV, g), random_theta(CONV)
    kernel, shrunk = CONV.split(theta)["conv.weight"], CONV.split(penalty.prox(theta, 1.0))
    axis = 0 if groups == "rows" else 1
    for before, after in zip(kernel.unbind(axis), shrunk["conv.weight"].unbind(axis), strict=True):
        size = torch.linalg.vector_norm(before)
        assert torch.allclose(after, before * (1 - 2.5 / size).clamp(min=0), rtol=1e-12)
    assert torch.equal(shrunk["conv.bias"], CONV.split(theta)["conv.bias"])
    expected = oracle_prox(CONV, g, None, theta, 1.0)
    point = penalty.prox(theta, 1.0)
    objective = float(penalty.value(point) + 0.5 * (point - theta).square().sum())
    assert torch.linalg.vector_norm(point - expected) <= distance_to_oracle(objective)


def test_value_is_that_of_the_matched_parameters() -> None:
    theta = random_theta(CONV)
    parts = CONV.split(theta)
    patterns = ["out.*", "*.bias"]
    penalty = Penalty(CONV, Ridge(0.2, on="conv.weight") + LpNorm(0.5, 3.0, on=patterns))
    others = torch.cat([parts["conv.bias"], parts["out.weight"].reshape(-1)])
    expected = 0.1 * parts["conv.weight"].square().sum() + 0.5 * torch.linalg.vector_norm(others, 3)
    assert penalty.value(theta) == pytest.approx(float(expected), rel=1e-13)


def test_unknown_names_are_refused_with_the_nearest_match() -> None:
    with pytest.raises(InvalidInputError, match=r"on='conv.wieght'.*Did you mean 'conv.weight'"):
        Penalty(CONV, Ridge(1.0, on="conv.wieght"))
    with pytest.raises(InvalidInputError, match=r"second='out.weights'.*Did you mean 'out.weight'"):
        Penalty(CONV, constraint=Tied("conv.weight", "out.weights"))
    with pytest.raises(InvalidInputError, match=r"'conv.bias' has shape \(4,\). Name the matrices"):
        Penalty(CONV, GroupLasso(1.0))
    with pytest.raises(InvalidInputError, match=r"'conv.bias' has shape \(4,\). Name the matrices"):
        Penalty(CONV, constraint=Simplex(along="rows", on="conv.*"))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="Pass it as constraint="):
        Penalty(CONV, NonNegative())  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="Pass it as regularizer="):
        Penalty(CONV, constraint=Ridge(1.0))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="regularizer must be one such as"):
        Penalty(CONV, 0.1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"flat vector of 62 numbers; got shape \(3,\)"):
        Penalty(CONV, Ridge(1.0)).prox(torch.ones(3), 1.0)


def test_modulus_is_the_smallest_weight_of_the_quadratic_part() -> None:
    assert Penalty(CONV).modulus == 0
    assert Penalty(CONV, ElasticNet(1.0, 0.3) + Ridge(0.2, on="*.bias")).modulus == 0.3
    weights = Penalty(CONV, Ridge(0.3, on="*.weight"))
    assert weights.modulus == 0
    assert weights.quadratic.dtype == torch.float64
    parts = CONV.split(weights.quadratic)
    assert [float(part.unique()) for part in parts.values()] == [0.3, 0.0, 0.3]


def test_what_is_quadratic_and_what_is_constrained() -> None:
    assert Penalty(CONV).is_quadratic
    assert Penalty(CONV, Ridge(0.1) + ElasticNet(0.0, 0.3, on="*.bias")).is_quadratic
    assert Penalty(CONV, Ridge(0.1) + Lasso(0.0) + LpNorm(0.0, 3.0)).is_quadratic
    for g in (Lasso(0.1), ElasticNet(0.1, 0.1), LpNorm(1.0, 2.0), GroupLasso(1.0, on="out.*")):
        assert not Penalty(CONV, g).is_quadratic
    constrained = Penalty(CONV, Ridge(0.1), NonNegative())
    assert not constrained.is_quadratic
    assert constrained.constrained
    assert constrained.rest.constrained
    assert constrained.rest.regularizer is None
    assert not Penalty(CONV, Ridge(0.1)).constrained


def test_describe_is_one_line_with_both_parts() -> None:
    assert Penalty(CONV).describe() == "g = 0; C = everything"
    penalty = Penalty(CONV, Ridge(0.1) + Lasso(0.2, on="*.bias"), NonNegative() & Ball(2.0))
    assert penalty.describe() == (
        "g = Ridge(weight=0.1) + Lasso(weight=0.2, on='*.bias');"
        " C = NonNegative() & Ball(radius=2.0)"
    )


def test_tied_layers_stay_equal_to_the_bit() -> None:
    module = nn.Sequential(nn.Linear(203, 117), nn.Tanh(), nn.Linear(117, 203))
    layout = Layout.of(module.named_parameters())
    tied = Tied("0.weight", "2.weight", transposed=True)
    g = GroupLasso(3.0, "columns", on="0.weight") + Ridge(0.1)
    penalty = Penalty(layout, g, tied)
    theta = random_theta(layout).float()
    for point in (penalty.prox(theta, 0.4), penalty.project(theta)):
        parts = layout.split(point)
        assert torch.equal(parts["0.weight"], parts["2.weight"].T)
        assert penalty.contains(point, tolerance=0.0)
    before, after = layout.split(theta), layout.split(penalty.project(theta))
    assert torch.equal(after["0.weight"], (before["0.weight"] + before["2.weight"].T) / 2)
    assert torch.equal(after["0.bias"], before["0.bias"])
    assert not penalty.contains(theta)


def test_several_layers_are_tied_in_order() -> None:
    layout = Layout(("e.0", "e.1", "d.0", "d.1"), ((2, 3), (4, 1), (2, 3), (4, 1)))
    parts = layout.split(
        Penalty(layout, constraint=Tied("e.*", "d.*")).project(random_theta(layout))
    )
    assert torch.equal(parts["e.0"], parts["d.0"])
    assert torch.equal(parts["e.1"], parts["d.1"])


def test_nothing_at_all_is_the_identity_on_a_copy() -> None:
    theta = random_theta(CONV).requires_grad_()
    penalty = Penalty(CONV)
    penalty.value(theta).backward()
    assert theta.grad is not None
    assert not theta.grad.any()
    point = penalty.prox(theta, 3.0)
    assert torch.equal(point, theta)
    assert point.data_ptr() != theta.data_ptr()


def test_one_penalty_serves_both_types_and_inference_mode_leaves_no_trace() -> None:
    penalty = Penalty(CONV, Ridge(0.2, on="*.weight") + Lasso(0.1, on="*.bias"))
    theta = random_theta(CONV)
    with torch.inference_mode():
        exact = penalty.prox(theta, 0.5)
    single = penalty.prox(theta.float(), 0.5)
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), exact, atol=1e-6)
    theta.requires_grad_()
    penalty.value(theta).backward()
    parts = CONV.split(theta.detach())
    expected = {n: 0.2 * t if n.endswith("weight") else 0.1 * t.sign() for n, t in parts.items()}
    assert theta.grad is not None
    assert torch.allclose(theta.grad, CONV.join(expected), rtol=1e-12)


def test_a_copy_behaves_alike() -> None:
    penalty = Penalty(CONV, Ridge(0.2, on="*.weight"), NonNegative(on="*.bias"))
    theta = random_theta(CONV)
    assert torch.equal(copy.deepcopy(penalty).prox(theta, 0.5), penalty.prox(theta, 0.5))


class WrittenNumbers(TorchDispatchMode):
    """Counts the numbers that operations write into memory of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and not func.is_view:
            self.count += result.numel()
        return result


@pytest.mark.parametrize(
    ("g", "constraint", "passes"),
    [
        (Ridge(0.1), None, 1),
        (ElasticNet(0.1, 0.1), NonNegative(), 4),
        (Ridge(0.1, on="*.weight") + Lasso(0.1, on="*.bias"), None, 3),
        (ElasticNet(0.1, 0.1) + LpNorm(0.1, 2.0), Ball(1.0), 12),
        (GroupLasso(0.1, "columns", on="*.weight"), None, 8),
    ],
    ids=repr,
)
def test_a_prox_costs_a_handful_of_passes(
    g: Regularizer, constraint: Constraint | None, passes: float
) -> None:
    names = tuple(f"{k}.{kind}" for k in range(4) for kind in ("weight", "bias"))
    layout = Layout(names, ((100, 100), (100,)) * 4)
    penalty, theta = Penalty(layout, g, constraint), random_theta(layout)
    with WrittenNumbers() as written:
        penalty.prox(theta, 0.3)
    assert written.count <= passes * layout.size


def test_the_box_of_named_bounds_leaves_the_other_parameters_free() -> None:
    penalty = Penalty(CONV, Ridge(0.1), NonNegative(on="conv.*") & Box(-1.0, 2.0, on="conv.bias"))
    assert penalty.box is not None
    low, high = (CONV.split(end) for end in penalty.box)
    assert set(low["conv.weight"].flatten().tolist()) == {0.0}
    assert set(low["conv.bias"].tolist()) == {0.0}
    assert set(high["conv.bias"].tolist()) == {2.0}
    assert set(high["conv.weight"].flatten().tolist()) == {inf}
    assert set(low["out.weight"].flatten().tolist()) == {-inf}


@pytest.mark.parametrize(
    ("regularizer", "constraint"),
    [
        (Ridge(0.1), None),
        (Lasso(0.1), NonNegative()),
        (GroupLasso(0.1, "rows", on="conv.weight"), NonNegative(on="conv.bias")),
        (None, Simplex(on="conv.bias")),
        (None, Ball(1.0)),
    ],
)
def test_what_is_more_than_a_box_has_none(
    regularizer: Regularizer | None, constraint: Constraint | None
) -> None:
    assert Penalty(CONV, regularizer, constraint).box is None

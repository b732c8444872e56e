"""Regularisers on bare tensors: values, closed forms, exact zeros, settings that are refused."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
import torch
from torch import Tensor

from proxlin.errors import InvalidInputError
from proxlin.terms import ElasticNet, GroupLasso, Lasso, LpNorm, Regularizer, Ridge


def matrix(seed: int = 0, shape: tuple[int, ...] = (4, 3)) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


ALL: list[Regularizer] = [
    Ridge(0.3),
    Lasso(0.3),
    ElasticNet(0.2, 0.4),
    *(LpNorm(0.5, p) for p in (1.0, 1.3, 2.0, 5.0, inf)),
    GroupLasso(0.4, "rows"),
    GroupLasso(0.4, "columns"),
    Ridge(0.1) + Lasso(0.2) + LpNorm(0.3, 1.5),
]


def test_values_are_the_formulas() -> None:
    x = matrix()
    entries = x.reshape(-1)
    assert Ridge(0.3).value(x) == pytest.approx(float(0.15 * entries @ entries))
    assert Lasso(0.3).value(x) == pytest.approx(float(0.3 * entries.abs().sum()))
    both = Lasso(0.2).value(x) + Ridge(0.4).value(x)
    assert ElasticNet(0.2, 0.4).value(x) == pytest.approx(float(both))
    for p in (1.0, 1.3, 2.0, 5.0, inf):
        expected = 0.5 * torch.linalg.vector_norm(entries, p)
        assert LpNorm(0.5, p).value(x) == pytest.approx(float(expected))
    rows = 0.4 * sum(torch.linalg.vector_norm(row) for row in x)
    columns = 0.4 * sum(torch.linalg.vector_norm(column) for column in x.T)
    assert GroupLasso(0.4, "rows").value(x) == pytest.approx(float(rows))
    assert GroupLasso(0.4, "columns").value(x) == pytest.approx(float(columns))
    assert (Ridge(0.3) + Lasso(0.3)).value(x) == Ridge(0.3).value(x) + Lasso(0.3).value(x)


@pytest.mark.parametrize("g", ALL, ids=repr)
def test_prox_is_the_minimiser(g: Regularizer) -> None:
    # F is 1-strongly convex, so F(y) >= F(x) + 1/2 ||y - x||^2 holds at the minimiser x only.
    v, step = matrix(1), 0.8
    x = g.prox(v, step)

    def objective(y: Tensor) -> Tensor:
        return step * g.value(y) + 0.5 * (y - v).square().sum()

    for seed in range(30):
        y = x + 10.0 ** -(seed % 4) * matrix(50 + seed)
        assert objective(y) - objective(x) >= 0.5 * (y - x).square().sum() - 1e-12


@pytest.mark.parametrize("g", ALL, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shape_and_type_are_kept_and_the_input_untouched(
    g: Regularizer, dtype: torch.dtype
) -> None:
    v = matrix(2).to(dtype)
    before = v.clone()
    x = g.prox(v, 0.5)
    assert (x.shape, x.dtype) == (v.shape, dtype)
    assert (g.value(v).shape, g.value(v).dtype) == ((), dtype)
    assert torch.equal(v, before)
    assert torch.equal(g.prox(v, 0.0), v)
    assert g.prox(v, 0.0).data_ptr() != v.data_ptr()


@pytest.mark.parametrize("g", ALL, ids=repr)
def test_gradients_of_the_value(g: Regularizer) -> None:
    assert torch.autograd.gradcheck(g.value, (matrix(3).requires_grad_(),))
    origin = torch.zeros(4, 3, requires_grad=True)
    g.value(origin).backward()
    assert origin.grad is not None
    assert torch.equal(origin.grad, torch.zeros(4, 3))  # the subgradient 0 at the kink


@pytest.mark.parametrize("g", ALL, ids=repr)
def test_gradients_of_the_prox(g: Regularizer) -> None:
    assert torch.autograd.gradcheck(
        lambda v: g.prox(v, 0.5), (matrix(4).requires_grad_(),), atol=1e-6
    )


def test_zeros_are_exact() -> None:
    v = torch.tensor([[3.0, 0.4, -0.2], [0.1, -0.1, 0.1]])
    assert Lasso(1.0).prox(v, 0.5).tolist() == [[2.5, 0.0, 0.0], [0.0, 0.0, 0.0]]
    grouped = GroupLasso(1.0, "rows").prox(v, 0.5)
    assert (grouped[0] != 0).all()
    assert grouped[1].tolist() == [0.0, 0.0, 0.0]
    by_column = GroupLasso(1.0, "columns").prox(v, 0.45)
    assert (by_column != 0).any(dim=0).tolist() == [True, False, False]
    assert LpNorm(10.0, 3.0).prox(v, 1.0).tolist() == torch.zeros(2, 3).tolist()


def test_group_lasso_reads_a_bare_tensor_as_a_batch_of_matrices() -> None:
    batch = matrix(5, (2, 4, 3))
    for groups in ("rows", "columns"):
        g = GroupLasso(0.7, groups)
        one_by_one = torch.stack([g.prox(one, 0.9) for one in batch])
        assert torch.allclose(g.prox(batch, 0.9), one_by_one, rtol=1e-14)
        assert g.value(batch) == pytest.approx(float(sum(g.value(one) for one in batch)))
    with pytest.raises(InvalidInputError, match="must act on matrices"):
        GroupLasso(1.0).prox(torch.ones(3), 1.0)


def test_modulus_is_that_of_the_quadratic_part() -> None:
    assert (Ridge(0.3).modulus, Lasso(0.3).modulus, ElasticNet(0.2, 0.4).modulus) == (0.3, 0, 0.4)
    assert (Ridge(0.3) + ElasticNet(0.2, 0.4)).modulus == pytest.approx(0.7)
    assert (Ridge(0.3, on="a") + Ridge(0.4, on="a")).modulus == pytest.approx(0.7)
    assert (Ridge(0.3, on="a") + Ridge(0.4)).modulus == pytest.approx(0.4)
    assert (Ridge(0.3, on="a") + Ridge(0.4, on="b")).modulus == 0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Ridge(-1), r"Ridge\(weight=...\) must be >= 0; got -1"),
        (lambda: Lasso(float("nan")), r"Lasso\(weight=...\) must be a finite number"),
        (lambda: ElasticNet(1.0, "x"), r"ElasticNet\(l2=...\) must be a finite number"),
        (lambda: LpNorm(1.0, 0.5), r"LpNorm\(p=...\) must be a number >= 1 or inf; got 0.5"),
        (lambda: GroupLasso(1.0, "row"), r"GroupLasso\(groups=...\).*Did you mean 'rows'"),
        (lambda: Ridge(1.0, on=3), r"Ridge\(on=...\) must be a name or glob pattern"),
        (lambda: Ridge(1.0, on=[]), r"Ridge\(on=...\) must name a parameter"),
        (lambda: Ridge(1.0, on="a").prox(torch.ones(2), 1.0), "cannot be used on a bare tensor"),
        (lambda: Ridge(1.0).prox(torch.ones(2), -1.0), "step must be >= 0"),
        (lambda: Ridge(1.0).prox(torch.ones(2, dtype=torch.int64), 1.0), "float32 or float64"),
        (lambda: Ridge(1.0).value([1.0]), "theta must be a torch tensor; got list"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        make()


def test_terms_print_what_was_set() -> None:
    assert repr(Ridge(0.1)) == "Ridge(weight=0.1)"
    term = Ridge(0.1, on=["a", "b"]) + GroupLasso(2.0, "columns", on="w")
    expected = "Ridge(weight=0.1, on=('a', 'b')) + GroupLasso(weight=2.0, groups='columns', on='w')"
    assert repr(term) == expected
    assert hash(term) == hash(Ridge(0.1, on=("a", "b")) + GroupLasso(2.0, "columns", on="w"))

import pytest
import torch

from proxlin.errors import NonFiniteError
from proxlin.methods.subproblem.normal_equations import (
    ConjugateGradient,
    DenseRows,
    Gram,
    Woodbury,
    gram_of,
    product_of_columns,
)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


ROADS = {
    "gram": lambda rows: Gram(product_of_columns(rows.matrix)),
    "woodbury": Woodbury,
    "conjugate gradient": lambda rows: ConjugateGradient(rows, tolerance=1e-13, max_steps=1000),
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("shape", [(4, 3, 7), (2, 2, 9), (1, 1, 1), (5, 1, 5)])
@pytest.mark.parametrize("vector", [False, True])
def test_solves_the_system(road, shape, vector):
    tensor, right = draw(*shape), draw(shape[-1], seed=1)
    weights = draw(shape[-1], seed=2).abs() + 0.1 if vector else torch.tensor(0.3).double()
    rows = DenseRows(tensor)
    equations = ROADS[road](rows)
    for rho in (2.0, 0.05, 30.0):  # one object serves many penalties
        equations.prepare(weights, rho)
        matrix = rho * rows.matrix.T @ rows.matrix + torch.diag(weights.expand(shape[-1]))
        expected = torch.linalg.solve(matrix, right)
        torch.testing.assert_close(equations.solve(right), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("road", ROADS)
def test_takes_new_weights(road):
    rows, right = DenseRows(draw(2, 2, 6)), draw(6, seed=1)
    equations = ROADS[road](rows)
    for weights in (torch.tensor(1.0).double(), torch.tensor(4.0).double(), draw(6).abs() + 1):
        equations.prepare(weights, 1.0)
        x = equations.solve(right)
        back = weights * x + rows.adjoint(rows.apply(x))
        torch.testing.assert_close(back, right, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("road", ROADS)
def test_keeps_float32(road):
    rows = DenseRows(draw(2, 3, 5).float())
    equations = ROADS[road](rows)
    equations.prepare(torch.tensor(1.0), 1.0)
    assert equations.solve(torch.ones(5)).dtype == torch.float32


@pytest.mark.parametrize("columns", [1, 2, 7, 10])
def test_product_of_columns(columns):
    matrix = draw(13, columns)
    torch.testing.assert_close(product_of_columns(matrix), matrix.T @ matrix)


def test_gram_of_blocks_is_the_gram_of_the_whole():
    rows = draw(11, 3, 4)
    gram = gram_of(iter(rows.float().split(4)), 4)
    whole = rows.float().double().reshape(-1, 4)
    torch.testing.assert_close(gram, whole.T @ whole)


@pytest.mark.parametrize("road", ROADS)
def test_refuses_a_system_that_is_not_finite(road):
    tensor = draw(2, 3, 5)
    tensor[0, 0, 0] = torch.nan
    equations = ROADS[road](DenseRows(tensor))

    def solve():
        equations.prepare(torch.tensor(1.0).double(), 1.0)
        equations.solve(torch.ones(5).double())

    with pytest.raises(NonFiniteError, match="cannot be factored"):
        solve()

import pytest
import torch

from proxlin.errors import InvalidInputError
from proxlin.methods.subproblem.metric import Diagonal, Euclidean


def test_euclidean_distance_is_half_the_weighted_square():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([0.0, -1.0])
    assert float(Euclidean(3.0).distance(x, y)) == pytest.approx(0.5 * 3 * 10)


def test_diagonal_with_equal_weights_is_euclidean():
    x, y = torch.randn(2, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    equal = Diagonal(torch.full((7,), 0.3))
    torch.testing.assert_close(
        equal.distance(x, y), Euclidean(0.3).distance(x, y), rtol=1e-6, atol=0
    )


def test_distance_is_the_bregman_distance_of_its_quadratic():
    weights = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    x, y = torch.randn(2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def quadratic(v):
        return 0.5 * (weights * v.square()).sum()

    bregman = quadratic(x) - quadratic(y) - (weights * y) @ (x - y)
    torch.testing.assert_close(Diagonal(weights).distance(x, y), bregman)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_take_the_type_of_theta(dtype):
    theta = torch.zeros(3, dtype=dtype)
    for metric in (Euclidean(2.0), Diagonal(torch.ones(3))):
        weights = metric.weights(theta)
        assert weights.dtype == dtype
        assert (weights + theta).shape == (3,)


def test_diagonal_does_not_follow_its_argument():
    weights = torch.ones(3)
    metric = Diagonal(weights)
    weights.zero_()
    assert float(metric.distance(torch.ones(3), torch.zeros(3))) == 1.5


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf"), "1"])
def test_refuses_weights(weight):
    with pytest.raises(InvalidInputError, match="Euclidean"):
        Euclidean(weight)


@pytest.mark.parametrize(
    "diagonal",
    [
        torch.tensor([1.0, 0.0]),
        torch.tensor([1.0, -1.0]),
        torch.tensor([1.0, float("nan")]),
        torch.tensor([1.0, float("inf")]),
        torch.ones(2, 2),
        torch.ones(0),
        torch.ones(2, dtype=torch.int64),
        [1.0, 2.0],
    ],
)
def test_refuses_diagonals(diagonal):
    with pytest.raises(InvalidInputError, match="Diagonal"):
        Diagonal(diagonal)


def test_refuses_a_diagonal_of_another_length():
    with pytest.raises(InvalidInputError, match="5 weights"):
        Diagonal(torch.ones(3)).weights(torch.zeros(5))

import pytest
import torch
from torch import nn

from proxlin import ADMM, MBO, Euclidean, GroupLasso, Problem, minimize
from proxlin.errors import InvalidInputError
from proxlin.models import FeatureSelector, linear_regressor, mlp_regressor, paper_regressor


def size(net):
    return sum(t.numel() for t in net.parameters())


def test_the_papers_net_has_4468_parameters():
    net = paper_regressor()
    # A kernel of 3 with its bias, then 278 numbers to 16 targets.
    assert size(net) == (3 + 1) + (278 * 16 + 16) == 4468
    output = net(torch.randn(5, 280, generator=torch.Generator().manual_seed(0)))
    assert output.shape == (5, 16)
    assert bool((output > 0).all())


def test_a_linear_regressor_starts_at_zero():
    net = linear_regressor(4, 2)
    assert size(net) == 10
    assert torch.equal(net(torch.ones(3, 4)), torch.zeros(3, 2))
    assert linear_regressor(4, bias=False).bias is None


def test_a_mlp_has_the_layers_it_was_asked_for():
    net = mlp_regressor(6, 2, hidden=(5, 4), activation=nn.Tanh)
    kinds = [type(layer).__name__ for layer in net]
    assert kinds == ["Linear", "Tanh", "Linear", "Tanh", "Linear"]
    assert size(net) == (6 * 5 + 5) + (5 * 4 + 4) + (4 * 2 + 2)
    assert net(torch.ones(3, 6)).shape == (3, 2)
    assert len(mlp_regressor(6, hidden=())) == 1


def test_group_lasso_keeps_the_planted_features_and_sets_the_others_to_zero():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(80, 9, generator=generator, dtype=torch.float64)
    weight = torch.zeros(3, 9, dtype=torch.float64)
    weight[:, [1, 4, 7]] = torch.randn(3, 3, generator=generator, dtype=torch.float64) + 2
    y = x @ weight.T + 0.05 * torch.randn(80, 3, generator=generator, dtype=torch.float64)
    y[::10] = 100.0  # gross outliers in a tenth of the rows
    net = FeatureSelector(9, 3).double()
    g = GroupLasso(0.25, groups="columns", on="weight")
    problem = Problem(net, (x, y), p=2, regularizer=g)
    method = MBO(solver=ADMM(tolerance=1e-4), metric=Euclidean(0.1), decrease_rows=None)
    minimize(problem, method, max_seconds=None, max_iter=5)
    assert net.selected().tolist() == [1, 4, 7]
    others = [j for j in range(9) if j not in (1, 4, 7)]
    assert not bool(net.weight[:, others].any())  # exactly zero, not merely small
    torch.testing.assert_close(
        net.importance(), torch.linalg.vector_norm(weight, dim=0), rtol=0.03, atol=0
    )


def test_group_lasso_strong_enough_selects_nothing():
    # With |J_i^T u| <= |x_ij| a weight above mean |x_j| holds every column at zero.
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 4, generator=generator, dtype=torch.float64)
    net = FeatureSelector(4, 2).double()
    strong = float(x.abs().mean(0).max()) * 1.01
    problem = Problem(
        net,
        (x, x[:, :2] * 5),
        p=2,
        regularizer=GroupLasso(strong, groups="columns", on="weight"),
    )
    minimize(problem, "mbo-admm", max_seconds=None, max_iter=5)
    assert net.selected().tolist() == []


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: linear_regressor(0), "n_features must be a whole number >= 1; got 0."),
        (lambda: linear_regressor(3, -1), "n_targets must be a whole number >= 1; got -1."),
        (
            lambda: mlp_regressor(3, hidden=(4, 0)),
            "hidden[...] must be a whole number >= 1; got 0.",
        ),
        (lambda: mlp_regressor(2.5), "n_features must be a whole number >= 1; got 2.5."),
        (lambda: paper_regressor(2), "n_features must be a whole number >= 3; got 2."),
        (lambda: FeatureSelector(0), "n_features must be a whole number >= 1; got 0."),
        (lambda: FeatureSelector(3, 0), "n_targets must be a whole number >= 1; got 0."),
    ],
)
def test_bad_input_is_one_sentence(build, words):
    with pytest.raises(InvalidInputError) as caught:
        build()
    assert str(caught.value) == words

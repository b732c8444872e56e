import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from proxlin.errors import InvalidInputError
from proxlin.terms.layout import Layout

SHAPES = st.lists(st.lists(st.integers(0, 4), max_size=3).map(tuple), min_size=1, max_size=5)


def layout_of(shapes):
    return Layout(tuple(f"p{i}" for i in range(len(shapes))), tuple(shapes))


@given(SHAPES)
def test_split_and_join_are_inverse(shapes):
    layout = layout_of(shapes)
    theta = torch.arange(layout.size, dtype=torch.float64)
    pieces = layout.split(theta)
    assert [tuple(piece.shape) for piece in pieces.values()] == shapes
    assert torch.equal(layout.join(pieces), theta)


@given(SHAPES)
def test_slices_cut_theta_into_its_parameters(shapes):
    layout = layout_of(shapes)
    theta = torch.arange(layout.size, dtype=torch.float64)
    slices = [layout.slice(name) for name in layout.names]
    assert torch.equal(torch.cat([theta[s] for s in slices]), theta)
    for name, piece in layout.split(theta).items():
        assert torch.equal(theta[layout.slice(name)].view(layout.shape(name)), piece)


def test_order_is_that_of_the_module():
    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1, bias=False))
    layout = Layout.of(net.named_parameters())
    assert layout.names == ("0.weight", "0.bias", "2.weight")
    assert layout.shapes == ((2, 3), (2,), (1, 2))
    assert (layout.sizes, layout.size) == ((6, 2, 2), 10)
    expected = nn.utils.parameters_to_vector(net.parameters())
    assert torch.equal(layout.join(dict(net.named_parameters())), expected)


def test_pieces_are_views_through_which_gradients_flow():
    layout = Layout(("w", "b"), ((2, 2), (2,)))
    theta = torch.zeros(6, requires_grad=True)
    pieces = layout.split(theta)
    (3 * pieces["w"].sum() - pieces["b"].sum()).backward()
    assert theta.grad.tolist() == [3, 3, 3, 3, -1, -1]
    assert pieces["b"].untyped_storage().data_ptr() == theta.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    ("patterns", "matched"),
    [
        ("*.weight", ("0.weight", "2.weight")),
        (("2.*", "0.weight"), ("0.weight", "2.weight")),  # the order is that of theta
        (("*", "0.bias"), ("0.weight", "0.bias", "2.weight")),  # nothing twice
        ("[02].w*", ("0.weight", "2.weight")),
        ((), ()),
    ],
)
def test_patterns(patterns, matched):
    layout = Layout(("0.weight", "0.bias", "2.weight"), ((2, 3), (2,), (1, 2)))
    assert layout.match(patterns) == matched


def test_each_pattern_must_match():
    layout = Layout(("weight", "bias"), ((2, 3), (2,)))
    with pytest.raises(InvalidInputError) as caught:
        layout.match(("weight", "biass"), label="Ridge(on=...)")
    assert str(caught.value) == (
        "Ridge(on=...)='biass' must match a parameter name; the module has weight, bias."
        " Did you mean 'bias'?"
    )


@pytest.mark.parametrize("shape", [(7,), (9,), (8, 1), ()])
def test_a_theta_of_another_shape_is_refused(shape):
    layout = Layout(("weight", "bias"), ((2, 3), (2,)))
    with pytest.raises(InvalidInputError) as caught:
        layout.split(torch.zeros(shape))
    assert str(caught.value) == f"theta must be a vector of the 8 parameters; got shape {shape}."

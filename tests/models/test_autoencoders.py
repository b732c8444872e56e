import pytest
import torch
from torch import nn

from proxlin import ADMM, MBO, SGD, Problem, Ridge, minimize
from proxlin.errors import InvalidInputError
from proxlin.models import Autoencoder, conv_autoencoder, mlp_autoencoder, paper_autoencoder


def size(net):
    return sum(t.numel() for t in net.parameters())


def images(n=6, side=8, channels=1):
    return torch.rand(n, channels, side, side, generator=torch.Generator().manual_seed(0))


def test_the_papers_net_has_741_parameters_and_returns_the_image():
    net = paper_autoencoder()
    # Each convolution and its way back: in * out * 9 weights, and a bias for each output.
    assert size(net) == (72 + 8) + (288 + 4) + (288 + 8) + (72 + 1) == 741
    x = images(2, side=28)
    assert net(x).shape == x.shape
    assert net.encoder(x).shape == (2, 4, 24, 24)
    assert bool((net(x) > 0).all())  # softplus after each layer, the last one too


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "side"),
    [((1, 4, 2), 3, 1, 8), ((3, 5), 5, 1, 9), ((1, 2, 3), 3, 2, 15), ((1, 2), 4, 2, 8)],
)
def test_convolutions_return_the_shape_of_the_image(channels, kernel, stride, side):
    net = conv_autoencoder(channels, kernel=kernel, stride=stride)
    x = images(2, side=side, channels=channels[0])
    assert net(x).shape == x.shape
    code = side
    for _ in channels[1:]:
        code = (code - kernel) // stride + 1
    assert net.encoder(x).shape == (2, channels[-1], code, code)


def test_a_mlp_counts_its_parameters_and_takes_images():
    net = mlp_autoencoder((64, 16, 4), image=(1, 8, 8))
    assert size(net) == (64 * 16 + 16) + (16 * 4 + 4) + (4 * 16 + 16) + (16 * 64 + 64)
    assert net(images()).shape == (6, 1, 8, 8)
    assert net.encoder(images()).shape == (6, 4)
    assert mlp_autoencoder((5, 2))(torch.ones(3, 5)).shape == (3, 5)


def test_activations_stand_between_layers_and_the_output_after_the_last():
    net = mlp_autoencoder((4, 3, 2), activation=nn.Tanh, output=nn.Sigmoid)
    kinds = [type(layer).__name__ for layer in (*net.encoder, *net.decoder)]
    assert kinds == ["Linear", "Tanh", "Linear", "Tanh", "Linear", "Tanh", "Linear", "Sigmoid"]


NETS = {
    "mlp": (lambda: mlp_autoencoder((64, 9, 4), image=(1, 8, 8)), True),
    "conv": (lambda: conv_autoencoder((1, 3, 2)), False),
    "strided": (lambda: conv_autoencoder((1, 3), kernel=4, stride=2), False),
}


def halves(net):
    """Pairs of an encoder weight and the decoder weight that mirrors it."""
    encoder = [m.weight.detach() for m in net.encoder if hasattr(m, "weight")]
    decoder = [m.weight.detach() for m in net.decoder if hasattr(m, "weight")]
    return list(zip(encoder, reversed(decoder), strict=True))


@pytest.mark.parametrize(("build", "linear"), NETS.values(), ids=NETS)
def test_tied_weights_are_the_nearest_equal_ones(build, linear):
    torch.manual_seed(0)
    net = build()
    problem = Problem(net, images(), constraint=net.tied())
    before = halves(net)
    biases = {n: t.clone() for n, t in net.named_parameters() if n.endswith("bias")}
    problem.assign(problem.penalty.project(problem.theta()))
    for (old, other), (first, second) in zip(before, halves(net), strict=True):
        mirrored = second.T if linear else second
        assert torch.equal(first, mirrored)
        # The nearest pair of equal weights is the mean of the two.
        torch.testing.assert_close(first, (old + (other.T if linear else other)) / 2)
    for name, bias in biases.items():
        assert torch.equal(net.get_parameter(name), bias)


@pytest.mark.parametrize(
    "method", [MBO(solver=ADMM(max_steps=20)), SGD(), "probed"], ids=["mbo", "sgd", "probed"]
)
@pytest.mark.parametrize(("build", "linear"), NETS.values(), ids=NETS)
def test_a_run_keeps_the_weights_tied(build, linear, method):
    torch.manual_seed(0)
    net = build()
    problem = Problem(net, images(), constraint=net.tied(), regularizer=Ridge(1e-3))
    start = problem.objective(problem.penalty.project(problem.theta()))
    result = minimize(problem, method, max_seconds=None, max_iter=3)
    assert result.objective <= start
    for first, second in halves(net):
        mirrored = second.T if linear else second
        torch.testing.assert_close(first, mirrored, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: mlp_autoencoder((8,)), "widths must name at least two sizes; got (8,)."),
        (lambda: mlp_autoencoder((8, 0)), "widths[...] must be a whole number >= 1; got 0."),
        (lambda: mlp_autoencoder((63, 4), image=(1, 8, 8)), "image=(1, 8, 8), 64; got 63."),
        (lambda: conv_autoencoder((1,)), "channels must name at least two sizes; got (1,)."),
        (lambda: conv_autoencoder((1, 2.5)), "channels[...] must be a whole number >= 1; got 2.5."),
        (lambda: conv_autoencoder(kernel=0), "kernel must be a whole number >= 1; got 0."),
        (lambda: conv_autoencoder(stride=-1), "stride must be a whole number >= 1; got -1."),
        (
            lambda: Autoencoder(nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.ReLU())).tied(),
            "as many layers with weights in the decoder as in the encoder, at least one; got 1"
            " and 0.",
        ),
    ],
)
def test_bad_input_is_one_sentence(build, words):
    with pytest.raises(InvalidInputError) as caught:
        build()
    assert words in str(caught.value)


def test_a_net_whose_strides_miss_the_image_is_refused_by_the_problem():
    net = conv_autoencoder((1, 2), kernel=3, stride=2)
    with pytest.raises(InvalidInputError, match="must have the shape of its target"):
        Problem(net, images(side=8))

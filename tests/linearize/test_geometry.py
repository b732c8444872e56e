"""Reaches, taps and tables against the definition of a convolution and against autograd."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from proxlin.linearize import linearize
from proxlin.linearize.layerwise.geometry import Axis, Convolution, Reach, everywhere
from tests.linearize.stand_in import oracle, problem_of


@st.composite
def layers(draw: st.DrawFn, channels: int, out: int) -> nn.Module:
    kernel, stride, dilation = (draw(st.integers(1, 3)) for _ in range(3))
    padding = draw(st.integers(0, 2))
    groups = draw(st.sampled_from([1, 2]))
    bias = draw(st.booleans())
    if draw(st.booleans()):
        return nn.Conv1d(channels, out, kernel, stride, padding, dilation, groups, bias)
    extra = draw(st.integers(0, max(stride, dilation) - 1))
    return nn.ConvTranspose1d(channels, out, kernel, stride, padding, extra, groups, bias, dilation)


@st.composite
def chains(draw: st.DrawFn) -> nn.Module:
    middle = draw(st.sampled_from([[nn.Tanh()], []]))
    return nn.Sequential(
        draw(layers(2, 4)), *middle, draw(layers(4, 2)), *middle, draw(layers(2, 2))
    )


@settings(max_examples=40, deadline=None)
@given(network=chains(), size=st.integers(14, 24), seed=st.integers(0, 99))
def test_any_three_convolutions_have_the_rows_of_jacrev(
    network: nn.Module, size: int, seed: int
) -> None:
    try:
        problem, theta, batch = problem_of(network, 2, size, rows=2, seed=seed)
    except RuntimeError:  # a map became smaller than the kernel
        return
    linearization = linearize(problem, theta, batch)
    assert linearization.path == "chain"
    torch.testing.assert_close(linearization.rows(), oracle(problem, theta, batch))
    assert linearization.path == "chain"


def test_outputs_that_see_only_padding_have_zero_rows() -> None:
    network = nn.Sequential(
        nn.Conv1d(2, 4, 1, 3, bias=False),
        nn.Tanh(),
        nn.Conv1d(4, 2, 1, 3, padding=2, bias=False),
        nn.Tanh(),
        nn.Conv1d(2, 2, 1, 3, bias=False),
    )
    problem, theta, batch = problem_of(network, 2, 14, rows=2, seed=0)
    rows = linearize(problem, theta, batch).rows()
    torch.testing.assert_close(rows, oracle(problem, theta, batch))


axes = st.builds(
    Axis,
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
    dilation=st.integers(1, 3),
    size_in=st.just(12),
    size_out=st.just(12),
    transposed=st.booleans(),
)


def joined(axis: Axis, output: int) -> dict[int, int]:
    """Input -> tap for one output, from the definition."""
    taps = {}
    for i in range(-60, 60):
        for tap in range(axis.kernel):
            near, far = (output, i) if not axis.transposed else (i, output)
            if far == near * axis.stride - axis.padding + tap * axis.dilation:
                taps[i] = tap
    return taps


@settings(max_examples=80, deadline=None)
@given(axis=axes, start=st.integers(-3, 6), size=st.integers(1, 4))
def test_reach_is_the_hull_of_what_is_joined(axis: Axis, start: int, size: int) -> None:
    near = Reach(start, 6, size, 3)  # a step that every stride divides
    far = axis.behind(near)
    for q in range(near.count):
        first = near.start + near.step * q
        inputs = {i for o in range(first, first + size) for i in joined(axis, o)}
        window = range(far.start + far.step * q, far.start + far.step * q + far.size)
        assert inputs <= set(window)
        if inputs and axis.dilation == 1 and axis.stride == 1:
            assert inputs == set(window)
    assert far.size <= axis.widest(size)
    taps = axis.taps(near, far)
    for row in range(size):
        found = {far.start + n: int(t) for n, t in enumerate(taps[row]) if t < axis.kernel}
        assert found == joined(axis, start + row)


@settings(max_examples=40, deadline=None)
@given(axis=axes, first=st.integers(-3, 6))
def test_sources_are_the_inputs_of_an_output(axis: Axis, first: int) -> None:
    table = axis.sources(first, 5)
    for row in range(5):
        output = first + row
        expected = {i: t for i, t in joined(axis, output).items() if 0 <= i < axis.size_in}
        found = {int(i): t for t, i in enumerate(table[row]) if i < axis.size_in}
        assert found == (expected if 0 <= output < axis.size_out else {})


def test_unfolded_input_times_weight_is_the_convolution() -> None:
    torch.manual_seed(0)
    for layer in (
        nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=1, bias=False),
        nn.ConvTranspose2d(2, 3, (3, 2), stride=(2, 3), padding=1, bias=False),
    ):
        x = torch.randn(2, 2, 5, 6)
        y = layer(x).detach()
        conv = Convolution.of(layer, x.shape[2:], y.shape[2:])
        full = everywhere(conv.positions_out)
        seen = conv.unfold(x, full, conv.table(full)).values
        weight = layer.weight.detach()
        weight = weight.transpose(0, 1) if conv.transposed else weight
        torch.testing.assert_close(seen @ weight.flatten(1).T, y.movedim(1, -1))


def test_matrix_and_convolution_pull_alike() -> None:
    torch.manual_seed(0)
    for layer in (nn.Conv2d(2, 3, 3, stride=2), nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1)):
        x = torch.randn(1, 2, 8, 8)
        conv = Convolution.of(layer, x.shape[2:], layer(x).shape[2:])
        near = (Reach(1, 2, 3, 2), Reach(0, 4, 2, 2))
        far = conv.behind(near)
        values = torch.randn(5, 3, 3, 2)
        pulled = conv.pull(values, layer.weight.detach(), near, far)
        matrix = conv.matrix(layer.weight.detach(), near, far)
        flat = values.movedim(1, -1).flatten(1) @ matrix
        torch.testing.assert_close(flat, pulled.movedim(1, -1).flatten(1))

"""Averages of probes: each structure against the dense matrix that it stands for."""

import pytest
import torch
from torch import nn

from proxlin import Problem
from proxlin.methods.curvature import DenseCurvature, LayeredCurvature, curvature_for, layer_pieces
from proxlin.methods.curvature.layered import KroneckerBlock, Side, UnitBlocks
from proxlin.terms.layout import Layout


def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 2, 3),
        nn.Softplus(),
        nn.ConvTranspose2d(2, 3, 2),
        nn.Flatten(),
        nn.Linear(27, 4),
    )


def pieces():
    module = net()
    return layer_pieces(Layout.of(module.named_parameters()), module)


def test_pieces_cover_every_parameter_once():
    total = sum(piece.units * piece.width for piece in pieces())
    assert total == sum(t.numel() for t in net().parameters())


def test_put_undoes_take():
    size = sum(t.numel() for t in net().parameters())
    vectors = torch.arange(2.0 * size).view(2, size)
    back = torch.empty(size)
    for piece in pieces():
        piece.put(piece.take(vectors)[1], back)
    assert torch.equal(back, vectors[1])


def test_rows_are_the_parameters_of_one_output_unit():
    module = net()
    theta = torch.cat([t.detach().flatten() for t in module.parameters()])
    convolution, transposed, linear = (piece.take(theta.unsqueeze(0))[0] for piece in pieces())
    expected = torch.cat([module[0].weight.flatten(1), module[0].bias[:, None]], 1)
    assert torch.equal(convolution, expected)
    swapped = module[2].weight.transpose(0, 1).flatten(1)
    assert torch.equal(transposed, torch.cat([swapped, module[2].bias[:, None]], 1))
    assert torch.equal(linear, torch.cat([module[4].weight, module[4].bias[:, None]], 1))


def probes(count, size, dtype=torch.float64):
    return torch.randn(count, size, generator=torch.Generator().manual_seed(1), dtype=dtype)


def test_dense_averages_and_solves():
    v, extra = probes(30, 6), torch.full((6,), 0.3, dtype=torch.float64)
    curvature = DenseCurvature(6, v.device)
    curvature.add(v[:10], 1.0)
    curvature.add(v[10:], 20 / 30)
    matrix = v.T @ v / 30
    curvature.factor(0.1, extra)
    damped = matrix + torch.diag(0.1 * matrix.diagonal().mean() + extra)
    torch.testing.assert_close(curvature.matrix, matrix)
    torch.testing.assert_close(curvature.solve(v[0]), torch.linalg.solve(damped, v[0]))
    assert curvature.quadratic(v[1]) == pytest.approx(float(v[1] @ matrix @ v[1]))


def test_unit_blocks_are_the_diagonal_blocks_of_the_dense_matrix():
    v = probes(40, 12)
    block = UnitBlocks(3, 4, v)
    block.add(v.view(40, 3, 4), 1.0)
    dense = v.T @ v / 40
    for unit in range(3):
        here = slice(4 * unit, 4 * unit + 4)
        torch.testing.assert_close(block.blocks[unit], dense[here, here])
    assert block.trace() == pytest.approx(float(dense.trace()))


def test_kronecker_block_is_exact_for_a_kronecker_product():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    b = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    left, right = a @ a.T + torch.eye(3), b @ b.T + torch.eye(4)
    block = KroneckerBlock(3, 4, a)
    block.left.matrix[0].copy_(left * right.trace())  # E[V V^T]
    block.right.matrix[0].copy_(right * left.trace())  # E[V^T V]
    dense = torch.kron(left, right)
    g = torch.randn(12, generator=generator, dtype=torch.float64)
    block.factor(1e-14, torch.zeros(3, 4, dtype=torch.float64))
    torch.testing.assert_close(
        block.solve(g.view(3, 4)).flatten(), torch.linalg.solve(dense, g), rtol=1e-5, atol=1e-7
    )
    assert block.quadratic(g.view(3, 4)) == pytest.approx(float(g @ dense @ g))


def test_kronecker_damping_is_at_least_what_was_asked_for():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    b = torch.randn(4, 2, generator=generator, dtype=torch.float64)
    left, right = a @ a.T, b @ b.T  # right is singular
    block = KroneckerBlock(3, 4, a)
    block.left.matrix[0].copy_(left * right.trace())
    block.right.matrix[0].copy_(right * left.trace())
    block.factor(0.2, torch.full((3, 4), 0.3, dtype=torch.float64))
    inverse = torch.stack([block.solve(e.view(3, 4)).flatten() for e in torch.eye(12).double()])
    dense = torch.kron(left, right)
    added = torch.linalg.eigvalsh(torch.linalg.inv(inverse) - dense)
    # The least is reached where both factors vanish; here the left one does not.
    asked = 0.2 * float(dense.diagonal().mean()) + 0.3
    assert float(added.min()) >= asked * (1 - 1e-9)
    block.left.matrix[0].copy_(torch.diag(torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)))
    block.right.matrix[0].copy_(torch.diag(torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)))
    block.factor(0.0, torch.full((3, 4), 0.3, dtype=torch.float64))
    corner = torch.zeros(3, 4, dtype=torch.float64)
    corner[2, 3] = 1.0
    torch.testing.assert_close(block.solve(corner), corner / 0.3)


def test_kronecker_average_converges_to_the_product():
    generator = torch.Generator().manual_seed(0)
    a = torch.tensor([[1.0, 0.0], [0.8, 0.5]])
    b = torch.diag(torch.tensor([2.0, 1.0, 0.1]))
    samples = a @ torch.randn(40_000, 2, 3, generator=generator) @ b
    block = KroneckerBlock(2, 3, a)
    block.add(samples, 1.0)
    estimate = torch.kron(block.left.matrix[0], block.right.matrix[0]) / block.trace()
    torch.testing.assert_close(estimate, torch.kron(a @ a.T, b @ b), atol=0.08, rtol=0.05)


def test_layered_solves_layer_by_layer():
    module = net()
    size = sum(t.numel() for t in module.parameters())
    v = probes(3 * size, size)
    layered = LayeredCurvature(pieces(), v[0])
    layered.add(v, 1.0)
    layered.factor(0.5, torch.zeros(size, dtype=torch.float64))
    g = v[0]
    solution = layered.solve(g)
    for piece, block in zip(layered.pieces, layered.blocks, strict=True):
        rows = piece.take(g.unsqueeze(0))[0]
        torch.testing.assert_close(piece.take(solution.unsqueeze(0))[0], block.solve(rows))
    shift = 0.5 * block.trace() / rows.numel() * torch.eye(rows.shape[1])
    expected = torch.linalg.solve(block.blocks + shift, rows)  # units of the last layer bend apart
    torch.testing.assert_close(block.solve(rows), expected)


def test_units_before_the_last_layer_bend_together():
    *before, last = LayeredCurvature(pieces(), torch.zeros(1)).blocks
    assert all(isinstance(block, KroneckerBlock) for block in before)
    assert isinstance(last, UnitBlocks)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_biases_of_recurrent_layers_belong_to_their_weights(kind):
    module = kind(3, 5)
    found = layer_pieces(Layout.of(module.named_parameters()), module)
    gates = module.weight_ih_l0.shape[0]
    assert [(piece.units, piece.width) for piece in found] == [(gates, 4), (gates, 6)]


def test_a_lone_vector_is_one_block_with_what_couples_its_entries():
    module = nn.LayerNorm(4)
    found = layer_pieces(Layout.of(module.named_parameters()), module)
    v = probes(50, 8)
    layered = LayeredCurvature(found, v[0])
    layered.add(v, 1.0)
    torch.testing.assert_close(layered.blocks[0].blocks[0], v[:, :4].T @ v[:, :4] / 50)


def test_slices_of_wide_probes_average_to_the_whole():
    v = probes(4, 256 * 384, torch.float32).view(4, 256, 384)
    sliced = KroneckerBlock(256, 384, v)
    for _ in range(2):  # 256 = 2 * 128: every second column or row, the others the next time
        sliced.add(v, 1.0 / (sliced.turn + 1))
    torch.testing.assert_close(sliced.left.matrix[0], (v @ v.mT).mean(0), rtol=1e-4, atol=1e-2)
    torch.testing.assert_close(sliced.right.matrix[0], (v.mT @ v).mean(0), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("shape", [(40, 50), (4, 50), (50, 4)])
def test_single_precision_factors_solve_as_double_ones_do(shape):
    v = probes(30, shape[0] * shape[1]).view(30, *shape)
    answers = []
    for rows in (v, v.float()):
        block = KroneckerBlock(*shape, rows)
        block.add(rows, 1.0)
        block.factor(1e-2, torch.zeros(shape, dtype=torch.float64))
        answers.append(block.solve(rows[0]).double())
    torch.testing.assert_close(answers[1], answers[0], rtol=1e-3, atol=1e-4)


def test_structure_follows_the_number_of_parameters():
    x = torch.randn(3, 60)
    small = Problem(nn.Linear(60, 3), (x, x[:, :3]))
    large = Problem(nn.Linear(60, 60), x)
    assert isinstance(curvature_for(small), DenseCurvature)
    assert isinstance(curvature_for(large), LayeredCurvature)
    assert isinstance(curvature_for(large, "dense"), DenseCurvature)


@pytest.mark.parametrize("width", [5, 513, 700, 1025])
def test_a_wide_side_is_the_blocks_on_its_diagonal(width):
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(width, 40, generator=generator, dtype=torch.float64)
    side = Side(width, vectors)
    side.add(vectors, 0.0, 1.0)
    blocks, size, _ = side.matrix.shape
    assert size <= 512
    dense = torch.block_diag(*side.matrix)[:width, :width]
    whole = vectors @ vectors.T
    same = torch.arange(width).unsqueeze(1) // size == torch.arange(width) // size
    torch.testing.assert_close(dense, torch.where(same, whole, 0.0))
    assert side.trace() == pytest.approx(float(whole.trace()))
    side.factor(0.3)
    shifted = dense + 0.3 * torch.eye(width, dtype=torch.float64)
    torch.testing.assert_close(shifted @ side.solve(vectors), vectors)
    torch.testing.assert_close(side.times(vectors), dense @ vectors)
    assert (blocks == 1) is (width <= 512)

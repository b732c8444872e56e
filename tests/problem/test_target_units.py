"""Targets of any size: the same path, the same objective, and a start that is worth it stays."""

import copy
import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from proxlin import Ball, Checkpoints, Lasso, Pinball, Probed, Problem, Ridge, minimize
from proxlin.problem.target_units import target_units

ROWS = 300


def table(columns=2):
    """Features, the true targets, and the same with a fifth of them off."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 4, generator=generator)
    truth = torch.stack([torch.sin(2 * x[:, 0]) + x[:, 1], x[:, 2] * x[:, 3]], 1)[:, :columns]
    wrong = truth.clone()
    wrong[: ROWS // 5] += 10 * torch.randn(ROWS // 5, columns, generator=generator)
    return x, truth, wrong


def net(width=8, last=nn.Identity):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2), last())


class Times(nn.Module):
    """Outputs times a number."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return self.number * x


class Skipped(nn.Module):
    """A net beside an input that is passed on."""

    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, x):
        return x[:, :1] + self.net(x)


class Series(nn.Module):
    """A recurrent net with two outputs at each step."""

    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.hidden(x)[0])


def padded(x):
    """The same with zeros in the first rows."""
    return torch.cat([torch.zeros(2, 4), x[2:]])


def scaled(layer, scale):
    with torch.no_grad():
        layer.weight *= scale
        layer.bias *= scale


@pytest.mark.parametrize("p", [1, 1.5, "mse"])
@pytest.mark.parametrize(
    ("width", "method", "steps"),
    [(8, Probed(), 15), (8, Probed(batch_size=50), 60), (300, Probed(batch_size=50), 130)],
    ids=["Newton steps", "batches", "normed steps"],
)
def test_the_path_is_that_of_targets_of_another_size(p, width, method, steps):
    """A power of two changes no digit of float32: the last layer alone differs, by that factor."""
    x, _, y = table()
    found = []
    for scale in (1.0, 2.0**20, 2.0**-20):
        module = net(width)
        minimize(Problem(module, (x, scale * y), p), method, max_iter=steps)
        scaled(module[2], 1 / scale)
        found.append(torch.cat([t.detach().flatten() for t in module.parameters()]))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_targets_in_other_units_follow_the_same_path_up_to_rounding(scale):
    x, _, y = table()
    paths = []
    for times in (1.0, scale):
        result = minimize(Problem(net(), (x, times * y)), Probed(batch_size=50), max_iter=60)
        paths.append(torch.tensor(result.history.frame()["objective"].to_numpy()) / times)
    assert torch.allclose(paths[0][1:4], paths[1][1:4], rtol=1e-5)  # the first is that of the start
    assert torch.allclose(paths[0][-1], paths[1][-1], rtol=0.01)


@pytest.mark.parametrize(("scale", "middle"), [(1.0, 300.0), (1e6, -1e5), (1e-6, 300.0)])
def test_a_net_learns_targets_of_any_size_around_any_middle(scale, middle):
    x, truth, y = table()
    module = net()
    minimize(Problem(module, (x, scale * (y + middle)), p=1), max_iter=60)
    error = (module(x).detach() / scale - middle - truth)[ROWS // 5 :].abs().mean()
    assert float(error) < 0.2  # a constant has 0.9


@pytest.mark.parametrize("loss", [{"p": 1}, {"p": math.inf}, {"p": "mse"}, {"loss": Pinball(0.9)}])
def test_the_objective_inside_is_that_outside_in_other_units(loss):
    x, _, y = table()
    ridge = Ridge(0.03, on="*.weight") + Ridge(0.01)
    problem = Problem(net().double(), (x.double(), 1000 * y.double()), **loss, regularizer=ridge)
    units, start = target_units(problem, problem.theta())
    inside = units.inside(problem)
    size = units.scale**2 if problem.p == "mse" else units.scale
    assert 500 < units.scale < 2_100
    for theta in (start, start + 0.1):
        outside = problem.objective(units.outside(theta))
        assert inside.objective(theta) * size == pytest.approx(outside, rel=1e-12)


def test_the_limit_of_far_rows_is_told_in_the_units_of_the_losses():
    x, _, y = table()
    problem = Problem(net(), (x, 1000 * y), p=1)
    units, start = target_units(problem, problem.theta())
    limits = [problem, *map(problem.redescending, (3_000.0, 700.0)), problem]
    for limited in (*limits, limits[1]):
        losses = units.inside(limited).row_losses(start) * units.scale
        assert torch.allclose(losses, limited.row_losses(units.outside(start)), rtol=1e-5)


def test_a_start_that_explains_the_targets_is_kept():
    x, truth, _ = table()
    module = net()
    minimize(Problem(module, (x, 1e6 * truth), p=2), max_iter=100)
    problem = Problem(module, (x, 1e6 * truth), p=1)
    units, start = target_units(problem, problem.theta())
    assert units.scale > 1e5
    assert torch.allclose(units.outside(start), problem.theta(), rtol=1e-6)
    before = problem.objective(problem.theta())
    assert minimize(problem, max_iter=5).objective <= before


def test_a_start_that_explains_little_of_loud_targets_is_kept():
    x, truth, _ = table()
    y = 1e4 * (0.3 * truth + torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(3)))
    module = net()
    first = minimize(Problem(module, (x, y), p=1), max_iter=40)
    again = minimize(Problem(module, (x, y), p=1), max_iter=20, seed=1)
    objectives = again.history.frame()["objective"]
    assert float(objectives[1:].max()) < 1.05 * first.objective
    assert again.objective <= first.objective * (1 + 1e-6)


@pytest.mark.parametrize("kind", ["bias at the middle", "multiplied outputs"])
def test_a_module_that_knows_the_size_of_its_targets_learns_as_well_as_others(kind):
    x, truth, _ = table()
    plain, module = net(), net()
    minimize(Problem(plain, (x, truth)), max_iter=60)
    if kind == "bias at the middle":
        y, units = 1000 * (truth + 3), 1000.0
        with torch.no_grad():
            module[2].bias.copy_(y.median(0).values)
    else:
        module, y, units = nn.Sequential(module, Times(1000.0)), 1000 * truth, 1000.0
    minimize(Problem(module, (x, y)), max_iter=60)
    error = float((module(x).detach() - y).abs().mean()) / units
    assert error < 2 * float((plain(x).detach() - truth).abs().mean()) + 0.02


@pytest.mark.parametrize("sign", [1, -1])
def test_a_residual_that_subtracts_targets_of_several_inputs_has_their_units(sign):
    x, truth, _ = table()
    torch.manual_seed(1)
    problem = Problem(
        nn.Bilinear(2, 2, 2), (x[:, :2], x[:, 2:], 1e6 * (truth + 3)),
        residual=lambda module, left, right, y: sign * (module(left, right) - y),
    )  # fmt: skip
    units, start = target_units(problem, problem.theta())
    assert 1e5 < units.scale < 1e7
    wanted = 1e6 * (truth + 3).median(0).values / units.scale
    assert problem.layout.split(start)["bias"] == pytest.approx(wanted, rel=1e-4)


def test_marks_among_the_targets_keep_their_meaning():
    """A residual may leave out rows whose target says so, wherever the first of them is."""

    def unless_marked(module, x, y):
        return (module(x) - y) * (y != -999.0)

    x, truth, _ = table()
    marked = 1e4 * truth
    marked[200::2] = -999.0
    problem = Problem(net(), (x, marked), residual=unless_marked)
    assert target_units(problem, problem.theta()) is None
    problem = Problem(net(), (x, 1e4 * truth), residual=unless_marked)
    assert target_units(problem, problem.theta()) is not None


@pytest.mark.parametrize("middle", [0.0, 300.0])
def test_the_bias_of_a_series_begins_at_the_middle_wherever_its_channels_are(middle):
    """Channels last, as recurrent nets and attention have them."""
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(200, 6, 3, generator=generator)
    y = torch.stack([x[..., 0].cumsum(1), 2 * x[..., 1]], -1) + middle
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = Series()
    minimize(Problem(module, (x, y)), max_iter=60)
    assert float((module(x).detach() - y).abs().mean()) < 0.1  # a constant has 1.0


def test_wrong_rows_do_not_set_the_units():
    x, truth, _ = table()
    y = 1000 * truth
    y[: int(0.45 * ROWS)] = 1e12
    problems = [Problem(net(), (x, targets), p=1) for targets in (1000 * truth, y)]
    clean, wrong = (target_units(problem, problem.theta())[0].scale for problem in problems)
    assert clean / 4 <= wrong <= 4 * clean


def test_classes_as_zeros_and_ones_have_the_size_one():
    x, truth, _ = table()
    y = (truth > truth.quantile(0.8, dim=0)).float()
    problem = Problem(net(), (x, y), p=1)
    assert 1 <= target_units(problem, problem.theta())[0].scale <= 1.5


@pytest.mark.parametrize("scale", [1e21, 1e-25])
def test_sizes_near_the_ends_of_float32_are_sizes(scale):
    x, truth, _ = table()
    module = net()
    minimize(Problem(module, (x, scale * truth), p=1), max_iter=30)
    assert float((module(x).detach() / scale - truth).abs().mean()) < 0.5  # a constant has 0.9


def test_targets_may_be_whole_numbers_or_a_vector():
    x, truth, _ = table()
    module = net().double()
    minimize(Problem(module, (x.double(), (100 * truth).long()), p=1), max_iter=60)
    assert float((module(x.double()).detach() / 100 - truth).abs().mean()) < 0.5
    one = nn.Sequential(net(), nn.Linear(2, 1))
    minimize(Problem(one, (x, 1000 * truth[:, 0]), p=1), Probed(batch_size=50), max_iter=60)
    assert float((one(x)[:, 0].detach() / 1000 - truth[:, 0]).abs().mean()) < 0.5


def test_faint_outputs_of_a_deep_net_are_not_multiplied_by_the_module():
    x, _, y = table()
    torch.manual_seed(0)
    widths = [4, *[6] * 12, 2]
    layers = [m for a, b in pairwise(widths) for m in (nn.Linear(a, b), nn.Tanh())]
    problem = Problem(nn.Sequential(*layers[:-1]), (x, 1e5 * y))
    assert 1e4 < target_units(problem, problem.theta())[0].scale < 1e6


def test_a_normalised_last_layer_has_units_too():
    x, _, y = table()
    last = nn.utils.parametrizations.weight_norm(nn.Linear(4, 2))
    problem = Problem(nn.Sequential(nn.Tanh(), last), (x, 1e4 * y))
    assert target_units(problem, problem.theta())[0].scale > 1e3


@pytest.mark.parametrize(
    "problem",
    [
        lambda x, y: Problem(net(last=nn.Sigmoid), (x, y)),
        lambda x, y: Problem(net(last=lambda: nn.Hardtanh(-3e3, 3e3)), (x, 1e3 * y)),
        lambda x, y: Problem(Skipped(), (padded(x), 1e3 * y)),
        lambda x, y: Problem(net(), (x, y), constraint=Ball(3.0)),
        lambda x, y: Problem(net(), (x, y), regularizer=Lasso(0.1)),
        lambda x, y: Problem(net(), (x, y), residual=lambda module, x, y: 2 * (module(x) - y)),
        lambda x, _: Problem(nn.Linear(4, 4), x),
        lambda x, y: Problem(net(), (x, torch.zeros_like(y))),
    ],
    ids=[
        "bounded outputs",
        "bounds far away",
        "added inputs",
        "constraint",
        "kinks of g",
        "own residual",
        "no targets",
        "all zero",
    ],
)
def test_no_units_where_they_cannot_be_taken_out(problem):
    found = problem(*table()[::2])
    assert target_units(found, found.theta()) is None


def test_a_run_in_other_units_goes_on_bit_for_bit(tmp_path):
    x, _, y = table()

    def run(steps, checkpoint=None):
        problem = Problem(net(), (x, 5_000 * y), p=1)
        return minimize(problem, max_iter=steps, checkpoint=checkpoint)

    calls = []

    def crash(progress):
        calls.append(progress)
        if len(calls) == 3:
            raise KeyError

    whole = run(40)
    kept = Checkpoints(tmp_path, every_seconds=None, every_steps=1)
    problem = Problem(net(), (x, 5_000 * y), p=1)
    with pytest.raises(KeyError):
        minimize(problem, max_iter=40, checkpoint=kept, callbacks=[crash])
    assert torch.equal(run(40, kept).theta, whole.theta)


def test_rows_of_a_stream_are_scaled_as_they_come():
    x, _, y = table()
    found = []
    for scale in (1.0, 2.0**13):
        rows = torch.utils.data.TensorDataset(x, scale * y)
        sampler = torch.utils.data.RandomSampler(
            rows, replacement=True, num_samples=6_000, generator=torch.Generator().manual_seed(2)
        )
        loader = torch.utils.data.DataLoader(rows, batch_size=50, sampler=sampler)
        module = net()
        minimize(Problem(module, loader, p=1), max_iter=30)
        scaled(module[2], 1 / scale)
        found.append(module(x).detach())
    assert torch.equal(*found)


def test_the_module_and_its_problem_are_left_as_they_were():
    x, _, y = table()
    module = net()
    before = copy.deepcopy(module.state_dict())
    problem = Problem(module, (x, 1000 * y), p=1)
    target_units(problem, problem.theta())[0].inside(problem)
    assert all(torch.equal(before[name], t) for name, t in module.state_dict().items())
    assert torch.equal(problem.example[1], 1000 * y[:2])

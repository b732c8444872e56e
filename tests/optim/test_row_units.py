"""Targets of any size in a loop of one's own: the same path, and a word where there is none."""

import io
import logging

import pytest
import torch
from torch import nn

from proxlin import Lasso, NonNegative, Ridge
from proxlin.optim import Probed

ROWS = 256


def table(scale=1.0, middle=0.0, wrong=10.0):
    """Features, the true targets, and the same with a fifth of them off."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 4, generator=generator)
    truth = torch.stack([torch.sin(2 * x[:, 0]) + x[:, 1], x[:, 2] * x[:, 3]], 1) + middle
    off = truth.clone()
    off[: ROWS // 5] += wrong * torch.randn(ROWS // 5, 2, generator=generator)
    return x, scale * truth, scale * off


def net(width=8, last=nn.Identity, seed=1):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2), last())


def train(module, data, steps, *, p=1, optimizer=None, first=0):
    x, y = data
    if optimizer is None:
        optimizer = Probed(module.named_parameters(), p, total_steps=steps)
    for step in range(first, steps):
        part = torch.arange(step * 64, step * 64 + 64) % ROWS
        optimizer.step(lambda part=part: module(x[part]) - y[part])
    return optimizer


def flat(module):
    return torch.cat([tensor.detach().flatten() for tensor in module.parameters()])


@pytest.mark.parametrize("p", [1, 1.5, "mse"])
@pytest.mark.parametrize(("width", "steps"), [(8, 40), (300, 130)], ids=["curvature", "normed"])
def test_the_path_is_that_of_targets_of_another_size(p, width, steps):
    found = []
    for scale in (1.0, 2.0**20, 2.0**-20):
        module = net(width)
        x, _, y = table(scale)
        train(module, (x, y), steps, p=p)
        with torch.no_grad():
            module[2].weight /= scale
            module[2].bias /= scale
        found.append(flat(module))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize(
    ("scale", "middle", "wrong"), [(1e6, -300.0, 10), (1e-6, 0.0, 10), (1e3, 300.0, 1e9)]
)
@pytest.mark.parametrize("last", [nn.Identity, lambda: nn.Unflatten(1, (2, 1))])
def test_a_net_learns_targets_of_any_size_around_any_middle(scale, middle, wrong, last):
    x, truth, y = table(scale, middle, wrong)
    module = net(last=last)
    optimizer = Probed(module.named_parameters(), total_steps=80)
    for _ in range(80):
        optimizer.step(lambda: module(x).flatten(1) - y)
    good = slice(ROWS // 5, None)
    error = (module(x).detach().flatten(1) - truth)[good].abs().mean() / scale
    assert float(error) < 0.35  # the best constant has 0.8


@pytest.mark.parametrize("parametrized", ["weight_norm", "none"])
def test_a_start_that_explains_the_targets_is_kept(parametrized):
    x, truth, y = table(1e4)
    module = net()
    if parametrized == "weight_norm":
        nn.utils.parametrizations.weight_norm(module[2])
    train(module, (x, y), 80)
    before = (module(x) - truth).abs().median()
    optimizer = Probed(module.named_parameters(), total_steps=200)
    optimizer.step(lambda: module(x) - y)
    assert (module(x) - truth).abs().median() < 1.1 * before


def test_losses_and_averages_are_told_as_the_module_has_them():
    x, _, y = table(1e3)
    for p in (1, "mse"):
        module = net()
        optimizer = Probed(module.named_parameters(), p, total_steps=50)
        optimizer.step(lambda module=module: module(x) - y)
        rows = (module(x) - y).detach()
        expected = (rows.abs() if p == 1 else rows.square()).sum(1).mean()
        loss = optimizer.step(lambda module=module: module(x) - y)
        torch.testing.assert_close(loss, expected)
    point = optimizer.averaged()
    assert (point["2.weight"] - module[2].weight).norm() < module[2].weight.norm()


def test_g_is_that_of_the_parameters_of_the_module():
    """min |w - y| + a/2 w^2 has w = 1/a below y."""
    module = nn.Linear(1, 1, bias=False)
    y = torch.tensor([[4000.0], [2000.0], [3000.0], [3500.0]])
    optimizer = Probed(module.parameters(), regularizer=Ridge(1e-3), total_steps=200)
    for _ in range(200):
        optimizer.step(lambda: module(torch.ones(4, 1)) - y)
    assert float(module.weight.detach()) == pytest.approx(1000, rel=0.01)


@pytest.mark.parametrize("scale", [1.0, 1e5])
@pytest.mark.parametrize("steps", [1, 7, 50])
def test_resumed_in_its_units_it_goes_on_bit_for_bit(scale, steps):
    x, _, y = table(scale)
    module = net()
    optimizer = Probed(module.named_parameters(), total_steps=60)
    train(module, (x, y), steps, optimizer=optimizer)
    file = io.BytesIO()
    torch.save({"module": module.state_dict(), "optimizer": optimizer.state_dict()}, file)
    train(module, (x, y), 60, optimizer=optimizer, first=steps)
    file.seek(0)
    kept = torch.load(file, weights_only=True)
    again = net(seed=5)
    resumed = Probed(again.named_parameters(), total_steps=60, seed=9)
    again.load_state_dict(kept["module"])
    resumed.load_state_dict(kept["optimizer"])
    train(again, (x, y), 60, optimizer=resumed, first=steps)
    assert torch.equal(flat(module), flat(again))


@pytest.mark.parametrize("fail_at", [1, 3, 15])
def test_a_first_step_that_fails_leaves_the_module_and_no_units(fail_at):
    x, _, y = table(1e3)
    module, calls = net(), []
    before = flat(module)
    optimizer = Probed(module.named_parameters(), total_steps=60)

    def closure():
        calls.append(None)
        if len(calls) == fail_at:
            raise KeyboardInterrupt
        return module(x) - y

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure)
    assert torch.equal(flat(module), before)
    assert torch.equal(optimizer.averaged()["2.bias"], module[2].bias)
    train(module, (x, y), 60, optimizer=optimizer)
    assert float((module(x) - y).detach().abs().median()) < 500


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        (net(last=nn.Sigmoid), {}),
        (net(), {"regularizer": Lasso(1e-3)}),
        (net(), {"constraint": NonNegative(on="0.weight")}),
    ],
    ids=["bounded outputs", "a kink in g", "a constraint"],
)
def test_where_there_are_no_units_large_targets_are_named(module, settings, caplog):
    for scale, told in ((1.0, False), (1e4, True)):
        x, _, y = table(scale)
        optimizer = Probed(module.named_parameters(), total_steps=60, **settings)
        with caplog.at_level(logging.WARNING, "proxlin"):
            optimizer.step(lambda x=x, y=y: module(x) - y)
            optimizer.step(lambda x=x, y=y: module(x) - y)
        assert [("Scale the targets" in record.message) for record in caplog.records] == [
            True
        ] * told


@pytest.mark.parametrize("normalised", [False, True])
def test_classes_as_zeros_and_ones_have_the_size_one(normalised):
    """The first moves of the last layer are as long as for targets of size 1."""
    x, _, _ = table()
    y = torch.zeros(ROWS, 2)
    y[:20] = 1
    module = net()
    if normalised:
        nn.utils.parametrizations.weight_norm(module[2])
    before = module[2].weight.detach().clone()
    Probed(module.named_parameters(), total_steps=60).step(lambda: module(x) - y)
    ratio = module[2].weight.detach() / before
    assert 0.9 < float(ratio.median()) < 2.2


def test_a_layer_that_begins_at_zero_has_units_too(caplog):
    module = net()
    nn.init.zeros_(module[2].weight)
    x, truth, y = table(1e4)
    train(module, (x, y), 80)
    assert not caplog.records
    assert float((module(x) - truth).detach().abs().median()) < 4e3


@pytest.mark.parametrize("last", [nn.Identity, nn.Sigmoid])
def test_what_normalised_layers_keep_stays_finite(last):
    """Singular vectors and running statistics, which a layer of zeros would make no numbers."""
    parametrizations = nn.utils.parametrizations
    with torch.random.fork_rng():
        torch.manual_seed(1)
        module = nn.Sequential(
            parametrizations.weight_norm(nn.Linear(4, 8)),
            nn.BatchNorm1d(8),
            nn.Tanh(),
            parametrizations.spectral_norm(nn.Linear(8, 2)),
            last(),
        )
    train(module, table()[::2], 3)
    assert all(bool(tensor.isfinite().all()) for tensor in module.state_dict().values())


class TwoLastLayers(nn.Module):
    """A net beside a line."""

    def __init__(self):
        super().__init__()
        self.net, self.line = net(), nn.Linear(4, 2)

    def forward(self, x):
        return self.net(x) + self.line(x)


class Tied(nn.Module):
    """A net whose last layer has the weight of the first."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.last.weight = self.first.weight

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))[:, :2]


class Positive(nn.Module):
    """A net whose outputs are positive, and begin near zero."""

    def __init__(self):
        super().__init__()
        self.net = net()
        nn.init.constant_(self.net[2].bias, -1.0)

    def forward(self, x):
        return nn.functional.softplus(self.net(x))


@pytest.mark.parametrize("make", [TwoLastLayers, Tied, Positive])
def test_a_layer_that_is_not_all_of_the_last_one_has_no_units(make, caplog):
    """Beside targets of 1e5 the rest of the net can hardly be seen."""
    torch.manual_seed(1)
    module, (x, _, y) = make(), table(1e5)
    optimizer = Probed(module.named_parameters(), total_steps=60)
    optimizer.step(lambda: module(x) - y)
    assert optimizer.state_dict()["probed"]["units"] is None
    assert "Scale the targets" in caplog.text

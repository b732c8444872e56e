"""What loops do around the optimiser: dropout, groups, schedulers, other types, no rows."""

import copy
import pickle

import pytest
import torch
from torch import nn

from proxlin import Lasso, NonNegative, Ridge
from proxlin.errors import InvalidInputError, NonFiniteError, UnsupportedModuleError
from proxlin.optim import Probed


def table(n=256):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 6, generator=generator)
    y = torch.sin(x[:, :2])
    y[::5] += 20 * torch.randn(len(y[::5]), 2, generator=generator)
    return x, y


def net(*extra):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 24), nn.GELU(), *extra, nn.Linear(24, 2))


def train(module, optimizer, steps, rows=64):
    x, y = table()
    for step in range(steps):
        part = torch.arange(step * rows, (step + 1) * rows) % len(x)
        loss = optimizer.step(lambda part=part: module(x[part]) - y[part])
    return loss


def clean_error(module):
    x = torch.randn(500, 6, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        return float((module.eval()(x) - torch.sin(x[:, :2])).abs().mean())


def test_dropout_does_not_make_good_steps_look_bad():
    module = net(nn.Dropout(0.1))
    train(module, Probed(module.named_parameters(), total_steps=200), 200)
    # Predicting nothing has 0.55, and with other masks in each check no step passed.
    assert clean_error(module) < 0.25


def test_a_check_draws_what_the_step_drew_and_leaves_the_generator_alone():
    module = net()
    x, y = table(64)
    drawn = []

    def closure():
        drawn.append(float(torch.rand(())))
        return module(x) - y

    optimizer = Probed(module.named_parameters(), total_steps=50)
    torch.manual_seed(7)
    optimizer.step(closure)
    rest = torch.rand(3)
    batches = list(dict.fromkeys(drawn))
    assert len(batches) < len(drawn)  # units and checks repeat a batch
    torch.manual_seed(7)
    assert batches == [float(torch.rand(())) for _ in batches]
    assert torch.equal(rest, torch.rand(3))


def test_groups_of_modules_whose_names_are_alike_all_move():
    whole, parts = net(), net()
    groups = [{"params": list(parts[k].named_parameters())} for k in (0, 2)]
    train(whole, Probed(whole.named_parameters(), total_steps=30), 30)
    train(parts, Probed(groups, total_steps=30), 30)
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_terms_find_the_parameters_of_a_group():
    module = net()
    groups = [{"params": list(module[k].named_parameters())} for k in (0, 2)]
    train(module, Probed(groups, constraint=NonNegative(on="1.weight"), total_steps=20), 20)
    assert bool((module[2].weight >= 0).all())
    assert not bool((module[0].weight >= 0).all())


def test_what_a_group_cannot_do_is_refused():
    module = net()
    with pytest.raises(InvalidInputError, match="got lr, weight_decay"):
        Probed([{"params": module.parameters(), "lr": 0.1, "weight_decay": 0.1}])
    optimizer = Probed(module[0].parameters(), regularizer=Ridge(1e-3))
    with pytest.raises(InvalidInputError, match="takes none later"):
        optimizer.add_param_group({"params": module[2].parameters()})


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
def test_copies_are_refused_in_a_sentence(copied):
    with pytest.raises(InvalidInputError, match="load that into a new one"):
        copied(Probed(net().named_parameters()))


@pytest.mark.parametrize("made", ["new", "loaded"])
def test_schedulers_are_refused_in_a_sentence(made):
    module = net()
    optimizer = Probed(module.named_parameters())
    if made == "loaded":
        optimizer.load_state_dict(Probed(module.named_parameters()).state_dict())
    for scheduler in (torch.optim.lr_scheduler.StepLR, torch.optim.lr_scheduler.ExponentialLR):
        with pytest.raises(InvalidInputError, match="give it total_steps instead"):
            scheduler(optimizer, 0.5)


def test_rows_of_another_float_type_count_as_they_are():
    x, y = table()
    wide, narrow = net(), net()
    one = Probed(narrow.named_parameters(), total_steps=5)
    other = Probed(wide.named_parameters(), total_steps=5)
    for _ in range(5):
        one.step(lambda: narrow(x) - y)
        other.step(lambda: wide(x) - y.double())  # such as targets that were read by numpy
    for part, twin in zip(narrow.parameters(), wide.parameters(), strict=True):
        torch.testing.assert_close(part, twin, rtol=1e-3, atol=1e-5)


def test_rows_to_begin_from_must_be_there_and_finite():
    x, y = table()
    module = net()
    optimizer = Probed(module.named_parameters(), total_steps=120)
    with pytest.raises(InvalidInputError, match="at least one row"):
        optimizer.step(lambda: module(x[:0]) - y[:0])
    with pytest.raises(NonFiniteError, match="first batch must have finite"):
        optimizer.step(lambda: (module(x) - y) / 0)
    with pytest.raises(InvalidInputError, match="real numbers"):
        optimizer.step(lambda: (module(x) - y).to(torch.complex64))
    train(module, optimizer, 120)  # what was refused is not remembered
    assert clean_error(module) < 0.25


def test_a_batch_of_no_numbers_later_is_left_out():
    x, _ = table()
    module = net()
    optimizer = Probed(module.named_parameters(), total_steps=120)
    train(module, optimizer, 60)
    assert not bool(optimizer.step(lambda: module(x) * torch.nan).isfinite())
    train(module, optimizer, 59)
    assert clean_error(module) < 0.25


def test_parameters_that_are_frozen_or_freed_later_are_refused():
    x, y = table()
    module = net()
    module[2].bias.requires_grad_(False)
    for part in (module[2].bias, module[0].weight):
        optimizer = Probed(module.named_parameters(), total_steps=5)
        optimizer.step(lambda: module(x) - y)
        part.requires_grad_(not part.requires_grad)
        with pytest.raises(InvalidInputError, match="changed requires_grad"):
            optimizer.step(lambda: module(x) - y)


def test_a_closure_that_calls_backward_is_told_not_to():
    x, y = table()
    module = net()

    def closure():
        rows = module(x) - y
        rows.abs().mean().backward(retain_graph=True)
        return rows

    with pytest.raises(InvalidInputError, match=r"leave backward\(\) out"):
        Probed(module.named_parameters(), total_steps=5).step(closure)


def test_sparse_slopes_of_embeddings_are_those_of_dense_ones():
    codes = torch.randint(0, 9, (64, 3), generator=torch.Generator().manual_seed(0))
    ends = []
    for sparse in (False, True):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Embedding(9, 4, sparse=sparse), nn.Flatten(), nn.Linear(12, 1))
        optimizer = Probed(module.named_parameters(), total_steps=5)
        for _ in range(5):
            optimizer.step(lambda module=module: module(codes) - 1)
        ends.append(torch.cat([part.detach().flatten() for part in module.parameters()]))
    torch.testing.assert_close(*ends)


def test_the_batch_of_a_step_has_to_stay_the_same():
    module = net()
    x, y = table()
    sizes = iter(range(8, 500))

    def closure():
        rows = slice(0, next(sizes))
        return module(x[rows]) - y[rows]

    optimizer = Probed(module.named_parameters(), total_steps=50)
    with pytest.raises(InvalidInputError, match="same batch each time"):
        optimizer.step(closure)


@pytest.mark.parametrize("cause", [KeyboardInterrupt, ValueError])
def test_a_step_that_fails_moves_nothing_and_others_follow(cause):
    module = net()
    x, y = table()
    optimizer = Probed(module.named_parameters(), total_steps=120)
    train(module, optimizer, 5)
    before = [tensor.clone() for tensor in module.parameters()]
    calls = []

    def closure():
        calls.append(None)
        if len(calls) == 2:  # the check of the step, at another point
            raise cause
        return module(x) - y

    with pytest.raises(cause):
        optimizer.step(closure)
    assert all(map(torch.equal, before, module.parameters()))
    assert train(module, optimizer, 20) < 10


def test_autocast_is_the_closures_and_none_of_the_steps():
    module = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 24), nn.Linear(24, 2))
    x, y = table()
    kinds = []

    def closure():
        output = module(x)
        kinds.append(output.dtype)
        return output - y

    optimizer = Probed(module.named_parameters())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = [float(optimizer.step(closure)) for _ in range(12)]
    assert set(kinds) == {torch.bfloat16}
    assert losses[-1] < losses[0]
    assert optimizer.state_dict()["probed"]["memory"]["theta"].dtype == torch.float32


def test_rows_without_numbers_or_slopes_are_refused():
    module = net()
    x, y = table(64)
    optimizer = Probed(module.named_parameters(), total_steps=50)
    for rows, words in [
        (lambda: (module(x) - y)[:, :0], "at least one in each"),
        (lambda: (module(x) - y).abs().sum(1), "Use .unsqueeze"),
        (lambda: (module(x) - y).abs().mean(), "Leave out the mean"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            optimizer.step(rows)

    def broken():
        hidden = module(x).exp()
        hidden += 1
        return hidden - y

    with pytest.raises(UnsupportedModuleError, match="inplace operation"):
        optimizer.step(broken)


def test_parameters_without_a_shape_are_refused():
    with pytest.raises(InvalidInputError, match="Call the module with a few rows first"):
        Probed(nn.Sequential(nn.LazyLinear(2)).parameters())


def test_parameters_in_the_same_memory_are_refused():
    module = net()
    with pytest.raises(InvalidInputError, match="must not share memory"):
        Probed([module[0].weight, nn.Parameter(module[0].weight[1:])])


@pytest.mark.parametrize(
    ("others", "damage"),
    [
        ({"steps": "curvature"}, lambda own: None),
        ({"curvature": "layered"}, lambda own: None),
        ({"regularizer": Lasso(1e-3)}, lambda own: None),
        ({}, lambda own: own["memory"].pop("gradient")),
        ({}, lambda own: own.pop("memory")),
        ({}, lambda own: own.update(steps=-1)),
        ({}, lambda own: own["memory"].update(gradient=None)),
    ],
)
def test_a_state_of_another_kind_is_refused_and_changes_nothing(others, damage):
    def wide():
        torch.manual_seed(2)
        return nn.Sequential(nn.Linear(6, 200), nn.GELU(), nn.Linear(200, 2))

    module = wide() if "steps" in others else net()
    kept = Probed(module.named_parameters())
    train(module, kept, 2)
    state = kept.state_dict()
    damage(state["probed"])
    runs = []
    for load in (True, False):
        again = wide() if "steps" in others else net()
        optimizer = Probed(again.named_parameters(), **others)
        if load:
            with pytest.raises(InvalidInputError, match="must be of a Probed for the same"):
                optimizer.load_state_dict(state)
        runs.append(float(train(again, optimizer, 4)))
    assert runs[0] == runs[1]

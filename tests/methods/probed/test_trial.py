"""Normed steps, and the trial that tells how long they may be."""

import math

import pytest
import torch
from torch import nn

from proxlin import Checkpoints, Problem, Ridge, minimize
from proxlin.errors import InvalidInputError
from proxlin.linearize import linearize_local
from proxlin.methods import Probed
from proxlin.methods.contract import Budget
from proxlin.methods.probed.normed import NormedMemory, turned_sides
from proxlin.methods.probed.normed_rows import applied_rows, rows_cost_most, rows_of_a_run
from proxlin.methods.probed.normed_step import batch_slope, rounding_width
from proxlin.methods.probed.trial import new_trial
from proxlin.models import paper_regressor
from proxlin.problem.parallel import Communicator
from proxlin.problem.shards import LocalBatch
from proxlin.terms.layout import Layout

CURVATURE, BOLD, CAREFUL, SHORTER = range(4)


class CrashError(Exception):
    """What ends a run here; a run does not catch it."""


def memory_of(layout, rows=1_000):
    memory = NormedMemory(0.01, torch.empty(0), torch.empty(0), [], [], [], rows)
    memory.begin(torch.zeros(layout.size))
    return memory


@pytest.mark.parametrize("shape", [(5, 5), (3, 40), (40, 3)])
def test_the_first_move_has_its_singular_values_alike(shape):
    """In the directions of one slope alone, that slope is diagonal and its sign U V^T."""
    slope = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    layout = Layout(("weight",), (shape,))
    move = memory_of(layout).direction(slope.flatten(), layout).view(shape)
    u, _, v = torch.linalg.svd(slope, full_matrices=False)
    assert float(-(move * (u @ v)).sum() / move.norm() / (u @ v).norm()) > 0.9


def test_moves_turn_with_the_slopes():
    """Slopes given in other coordinates lead to the same moves in those."""
    layout = Layout(("weight",), ((8, 6),))
    generator = torch.Generator().manual_seed(3)
    left = torch.linalg.qr(torch.randn(8, 8, generator=generator, dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64))[0]
    spread = torch.logspace(0, 2, 8, dtype=torch.float64)[:, None] * torch.logspace(0, 1, 6)
    plain, turned = memory_of(layout), memory_of(layout)
    for memory in (plain, turned):
        memory.begin(torch.zeros(48, dtype=torch.float64))
    for _ in range(400):
        slope = spread * torch.randn(8, 6, generator=generator, dtype=torch.float64)
        move = plain.direction(slope.flatten(), layout).view(8, 6)
        other = turned.direction((left @ slope @ right).flatten(), layout).view(8, 6)
    assert float((left @ move @ right - other).norm() / move.norm()) < 0.05


def test_directions_in_which_slopes_are_only_rounding_hardly_move():
    layout = Layout(("weight",), ((12, 12),))
    memory, generator = memory_of(layout), torch.Generator().manual_seed(4)
    for _ in range(50):
        slope = 1e-9 * torch.randn(12, 12, generator=generator)
        slope[0, 0] += 1.0
        move = memory.direction(slope.flatten(), layout).view(12, 12)
    assert float(move.abs().flatten()[1:].max()) < 1e-3 * float(move[0, 0].abs())


def test_first_moves_are_no_longer_than_later_ones():
    """Each slope is as large as the only one known so far, which would move every entry by 1."""
    layout = Layout(("weight", "bias"), ((9, 7), (9,)))
    memory, generator = memory_of(layout), torch.Generator().manual_seed(5)
    lengths = [
        float(memory.direction(torch.randn(72, generator=generator), layout)[:63].norm())
        for _ in range(100)
    ]
    assert lengths[0] <= 1.01 * max(lengths[50:])
    assert lengths[0] >= 0.5 * max(lengths[50:])


def test_a_slope_of_zero_moves_nothing():
    layout = Layout(("weight", "bias"), ((2, 3), (2,)))
    assert torch.equal(memory_of(layout).direction(torch.zeros(8), layout), torch.zeros(8))


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_moves_do_not_depend_on_the_scale_of_the_loss(scale):
    layout = Layout(("weight", "bias"), ((2, 3), (2,)))
    slopes = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    moves = []
    for factor in (1.0, scale):
        memory = memory_of(layout)
        moves.append([memory.direction(factor * slope, layout) for slope in slopes][-1])
    assert torch.allclose(*moves, rtol=1e-4, atol=1e-5)


def test_sides_are_turned_unless_that_costs_more_than_the_backward_pass():
    assert turned_sides((256, 256), 512) == (True, True)
    assert turned_sides((32, 1568), 64) == (True, False)
    assert turned_sides((784, 512), 128) == (False, False)
    assert turned_sides((24, 24, 3, 3), 64) == (True, False)
    assert turned_sides((24, 24, 3, 3), 3_000) == (True, True)
    assert turned_sides((1, 40), 1_000) == (False, True)
    assert turned_sides((40,), 1_000) == (False, False)


WIDE = Layout(("weight",), ((120, 90),))  # of which 10 rows allow leading directions only


def test_the_leading_directions_of_a_slope_are_found():
    memory = memory_of(WIDE, rows=10)
    generator = torch.Generator().manual_seed(2)
    left = torch.linalg.qr(torch.randn(120, 16, generator=generator))[0]
    right = torch.linalg.qr(torch.randn(90, 16, generator=generator))[0]
    slope = left @ torch.diag(torch.logspace(0, 1, 16)) @ right.T
    for _ in range(40):
        move = memory.direction(slope.flatten(), WIDE).view(120, 90)
    assert float((-move * (left @ right.T)).sum() / move.norm() / 4) > 0.95  # ||U V^T|| = 4


def test_what_low_rank_moves_leave_of_a_slope_comes_later():
    """The second half of the directions is a fifth as large, and waits until it has grown."""
    memory = memory_of(WIDE, rows=10)
    slope = torch.zeros(120, 90)
    slope.diagonal()[:32] = torch.tensor([1.0] * 16 + [0.2] * 16)
    moved = sum(memory.direction(slope.flatten(), WIDE) for _ in range(200)).view(120, 90)
    along = -moved.diagonal()[:32]
    assert float(along.min()) > 0.1 * float(along.max())


@pytest.mark.parametrize(
    ("cell", "steps"), [(nn.Linear(100, 100), 1), (nn.GRU(100, 100, batch_first=True), 7)]
)
def test_a_matrix_is_counted_for_each_step_of_a_series(cell, steps):
    net = nn.Sequential(cell)
    x = torch.randn(8, *([7] if steps > 1 else []), 100)

    def residual(module, x):
        output = module(x)
        return output[0][:, -1] if isinstance(output, tuple) else output

    problem = Problem(net, (x,), p=1, residual=residual)
    rows = applied_rows(problem, problem.theta(), problem.take(slice(0, 8)))
    assert 0.6 * 8 * steps <= rows <= 8 * steps  # the first step of a series has no state


def played(budget, changes, losses=None, *, newton=False):
    """The winner of a trial in which every batch says `changes[k]` of entrant k, and its turns.

    During its turn the loss of entrant k falls or rises from 1 to `losses[k]`.
    """
    trial = new_trial(torch.zeros(3), newton)
    turns, lengths = [], []
    while not trial.over:
        if trial.comparing:
            trial.compare([changes[number] for number in trial.playing])
            if trial.decided:
                trial.decide()
            continue
        number = trial.playing[trial.turn]
        trial.begin_step(budget)
        if trial.over:
            break
        lengths.append(trial.length(budget))
        budget.iteration += 1
        loss = 1.0 if losses is None else 1.0 + (losses[number] - 1.0) * (1.0 - lengths[-1])
        if trial.turn_is_over(budget, loss):
            trial.end_turn(torch.zeros(3), budget)
            turns.append((number, lengths))
            lengths = []
    return trial.playing[0], turns


@pytest.mark.parametrize(
    ("winner", "players"),
    [
        (BOLD, [BOLD, CAREFUL]),
        (CAREFUL, [BOLD, CAREFUL, SHORTER]),
        (SHORTER, [BOLD, CAREFUL, SHORTER]),
    ],
)
@pytest.mark.parametrize("max_iter", [1_000, None])
def test_the_entrant_that_lowers_the_loss_most_goes_on(winner, players, max_iter):
    """Shorter steps than the careful ones are tried where these did better than bold ones."""
    changes = [0.0, -1.0, -1.0 if winner == BOLD else -1.5, -1.0]
    changes[winner] = -2.0
    chosen, turns = played(Budget(None, max_iter), changes)
    assert chosen == winner
    assert [number for number, _ in turns] == players
    steps = [50 if max_iter else 60] * len(players)
    assert [len(lengths) for _, lengths in turns] == pytest.approx(steps, abs=2)


def test_steps_of_a_turn_become_shorter_to_nothing():
    for _, lengths in played(Budget(None, 1_000), [-1.0] * 4)[1]:
        assert lengths[0] == 1
        assert lengths == sorted(lengths, reverse=True)
        assert lengths[-1] < 0.05


def test_a_turn_that_falls_far_behind_ends_at_once_and_is_out():
    changes, losses = [0.0, -1.0, -2.0, -1.0], [math.nan, 0.5, 0.7, 0.7]
    winner, turns = played(Budget(None, 1_000), changes, losses)
    assert winner == BOLD  # careful steps have gained 0.6 of what bold ones had
    assert [number for number, _ in turns] == [BOLD, CAREFUL]
    assert len(turns[-1][1]) < 0.3 * len(turns[0][1])


@pytest.mark.parametrize("bold", [0.55, 1.5, math.nan])
def test_turns_beside_one_that_gains_little_or_loses_are_not_cut_short(bold):
    losses = [math.nan, bold, 0.6, 0.6]
    winner, turns = played(Budget(None, 1_000), [0.0, -1.0, -2.0, -1.0], losses)
    assert winner == CAREFUL
    assert [len(lengths) for _, lengths in turns[:2]] == pytest.approx([50] * 2, abs=2)


def test_nan_never_wins():
    assert played(Budget(None, 1_000), [1.0, math.nan, -1.0, math.nan])[0] == CAREFUL


@pytest.mark.parametrize(
    ("max_iter", "newton", "kind"),
    [(300, True, CURVATURE), (300, False, BOLD), (100, False, CURVATURE)],
)
def test_small_budgets_are_not_spent_on_trials(max_iter, newton, kind):
    """Some hundred steps are bold ones, unless Newton's can be taken; very few are to be exact."""
    changes = [0.0, -1.0, -1.0, -1.0]
    assert played(Budget(None, max_iter), changes, newton=newton) == (kind, [])


def second_look(loss):
    """A trial that bold steps won with a loss of 0.5, after four times the steps of their turn."""
    trial, budget = new_trial(torch.zeros(3), newton=False), Budget(None, 1_000)
    for _ in range(2):
        trial.players[trial.turn].losses.append(0.5)
        trial.players[trial.turn].memory.steps = 50
        trial.end_turn(torch.ones(3), budget)
    trial.compare([-1.0, -0.9])
    assert torch.equal(trial.decide(), torch.ones(3))
    assert not trial.led_nowhere(2.0)  # too early to tell
    trial.normed.steps = 200
    return trial, trial.led_nowhere(loss)


def test_steps_that_undo_what_their_turn_had_learnt_go_back_and_are_shortened():
    trial, back = second_look(0.6)
    assert back
    before = trial.normed.rate
    assert torch.equal(trial.go_back(), torch.ones(3))
    assert trial.normed.rate == pytest.approx(before / 3)
    assert trial.normed.steps == 0
    assert not trial.led_nowhere(0.6)  # they have their time again
    trial.normed.steps = 200
    assert trial.led_nowhere(0.6)


def test_steps_that_have_come_further_are_not_looked_at_again():
    trial, back = second_look(0.4)
    assert not back
    assert not trial.led_nowhere(10.0)
    assert not trial.players[0].theta.numel()  # the point to go back to is let go


def test_where_none_lowers_the_loss_the_run_goes_on_from_its_start():
    trial, budget = new_trial(torch.zeros(3), newton=False), Budget(None, 1_000)
    for _ in trial.playing:
        trial.end_turn(torch.ones(3), budget)
    trial.compare([1.0, 1.05])
    assert torch.equal(trial.decide(), torch.zeros(3))
    assert trial.playing == [BOLD]


def test_a_run_begun_anew_goes_on_with_careful_steps():
    trial = new_trial(torch.zeros(3), newton=False)
    trial.go_carefully(0.5)
    assert trial.over
    assert trial.normed.rate == 0.005
    assert trial.length(Budget(None, 1_000)) == 1
    assert torch.equal(trial.normed.slope, torch.zeros(3))


def net_problem(p=1.0):
    """A net beyond what a dense curvature is for, on a curved truth with wrong targets."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 6, generator=generator)
    y = torch.sin(2 * x[:, :2]) + x[:, 2:4] * x[:, 4:]
    y[:60] = 1e6
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 32), nn.Tanh(), nn.Linear(32, 2))
    return Problem(net, (x, y), p, regularizer=Ridge(1e-5))


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_both_kinds_of_steps_and_the_trial_learn_in_spite_of_wrong_rows(p):
    errors = {}
    for kind in ("curvature", "auto"):
        problem = net_problem(p)
        minimize(problem, Probed(steps=kind, batch_size=64), max_seconds=None, max_iter=600)
        rows = problem.row_losses(problem.theta())
        errors[kind] = float(rows[60:].mean())
    untrained = float(net_problem(p).row_losses(net_problem(p).theta())[60:].mean())
    assert max(errors.values()) < 0.5 * untrained


@pytest.mark.parametrize(
    ("rows", "steps", "expected"),
    [
        (64, 600, 64), (64, 2_600, 256), (512, 1_000, 1_024), (256, 90, 256),
        (1_024, 5_000, 1_024), (1_024, 12_000, 2_048), (256, 48_000, 2_048), (1_024, 1e6, 4_096),
        (64, 192_000, 1_024),
    ],
)  # fmt: skip
def test_batches_are_larger_where_there_is_time_for_many_steps(rows, steps, expected):
    assert rows_of_a_run(rows, steps) == expected


@pytest.mark.parametrize(("bound", "expected"), [(0, 1_024), (1_000, 1_024), (2_500, 2_048)])
def test_batches_beyond_the_usual_number_of_rows_are_bounded(bound, expected):
    assert rows_of_a_run(1_024, 12_000, bound) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(60.0, 512), (15.0, 128), (None, 64)])
def test_the_first_steps_tell_how_many_rows_a_batch_has(seconds, expected):
    problem, method, time = many_rows(), Probed(), [0.0]
    budget = Budget(seconds, None if seconds else 1_000, clock=lambda: time[0])
    state = method.init(problem, problem.theta(), torch.Generator().manual_seed(0))
    state.batch_size = 64
    for _ in range(15):
        method.step(problem, state, budget)
        budget.iteration += 1
        time[0] += 0.015  # there is time for 4,000 or 1,000 steps
    assert state.normed_rows == expected


def rows_by_the_clock(seconds_of_a_step, rows, *, steps=30, busy=()):
    """The rows of a batch after some steps by a clock of its own; `busy` ones take ten times it."""
    problem, method, time = many_rows(), Probed(), [0.0]
    budget = Budget(10.0, None, clock=lambda: time[0])
    state = method.init(problem, problem.theta(), torch.Generator().manual_seed(0))
    state.batch_size = rows
    for number in range(steps):
        method.step(problem, state, budget)
        budget.iteration += 1
        time[0] += seconds_of_a_step(state.normed_rows) * (10 if number in busy else 1)
    return state.normed_rows


@pytest.mark.parametrize(("steps", "expected"), [(400, 64), (600, 64), (800, 1_024)])
def test_fewer_rows_are_taken_where_there_is_time_for_few_steps(steps, expected):
    def seconds(rows):
        return 10.0 / steps * (0.02 + 0.98 * rows / 1_024)

    assert rows_by_the_clock(seconds, 1_024) == expected


@pytest.mark.parametrize("steps", [400, 600])
@pytest.mark.parametrize(("overhead", "expected"), [(0.2, 256), (0.5, 1_024), (1.0, 1_024)])
def test_no_fewer_rows_than_cost_as_much_as_the_rest_of_a_step(steps, overhead, expected):
    def seconds(rows):
        return 10.0 / steps * (overhead + (1 - overhead) * rows / 1_024)

    assert rows_by_the_clock(seconds, 1_024) == expected


@pytest.mark.parametrize(("dearer", "expected"), [(1.0, 512), (1.5, 256)])
def test_half_of_more_rows_are_taken_where_the_cache_holds_no_more(dearer, expected):
    def seconds(rows):
        return 10.0 / 5_600 * rows / 64 * (dearer if rows >= 512 else 1.0)

    assert rows_by_the_clock(seconds, 64, steps=40) == expected


@pytest.mark.parametrize("busy", range(8))
def test_a_busy_moment_of_the_machine_does_not_choose_the_rows(busy):
    """Nor does it end the trial: one step of ten milliseconds has taken a hundred."""
    assert rows_by_the_clock(lambda rows: 0.01 * rows / 1_024, 1_024, busy=[busy]) == 1_024


def test_fewer_rows_save_nothing_where_turning_the_sides_costs_as_much():
    narrow, wide = Layout(("weight",), ((32, 32),)), Layout(("weight",), ((512, 784),))
    assert rows_cost_most(narrow, 512)
    assert not rows_cost_most(narrow, 64)
    assert not rows_cost_most(wide, 512)


class _Summing(Communicator):
    """The second of two processes, or the first, which is told what the second adds."""

    size = 2

    def __init__(self, leads, others=None):
        self.leads, self.others, self.own = leads, others, []

    def sum_together(self, tensors):
        self.own = list(tensors)
        others = self.others or [0.0] * len(tensors)
        return [tensor + other for tensor, other in zip(tensors, others, strict=True)]


def test_wrong_rows_that_one_process_holds_do_not_move_the_typical_loss():
    problem = net_problem()
    theta, rows = problem.theta(), torch.arange(40, 120)  # 20 wrong ones of 80
    whole = problem.take(rows)
    second, first = (
        LocalBatch(tuple(t[part] for t in whole.tensors), 80, part, _Summing(leads))
        for part, leads in ((torch.arange(24), False), (torch.arange(24, 80), True))
    )

    def slope(batch):
        model = linearize_local(problem, theta, batch)
        return batch_slope(problem, model, batch, problem.loss(model.residual), rounding=0.1)

    slope(second)
    first.communicator.others = second.communicator.own
    together, alone = slope(first), slope(whole)
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other))


def test_without_rounding_the_slope_is_that_of_the_norm():
    problem = net_problem()
    theta, batch = problem.theta(), problem.take(torch.arange(200))
    model = linearize_local(problem, theta, batch)
    losses, slopes = problem.loss.value_and_slope(model.residual)
    mean, _, slope = batch_slope(problem, model, batch, losses, rounding=0.0)
    assert mean == pytest.approx(float(losses.mean()))
    expected = model.adjoint(slopes / 200) + problem.penalty.quadratic.to(theta) * theta
    torch.testing.assert_close(slope, expected)


def test_rounding_ends_with_the_budget_and_with_what_is_learnt():
    problem, budget = net_problem(), Budget(None, 1_000)
    state = Probed().init(problem, problem.theta(), torch.Generator())
    state.first_size = state.residual_size = 2.0
    assert rounding_width(problem, state, budget) == pytest.approx(20.0)
    state.residual_size = 0.2
    assert rounding_width(problem, state, budget) == pytest.approx(0.2)
    budget.iteration = 1_000
    assert rounding_width(problem, state, budget) < 1e-3 * state.residual_size
    state.residual_size = 2.0
    assert rounding_width(problem, state, Budget(None, None)) == pytest.approx(
        0.2
    )  # no end is known


def test_an_output_that_falls_to_a_constant_has_learnt_nothing():
    """Residuals of classes fall from 0.9 to 0.1 as outputs near 1 fall to 0; kinks stay round."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 20, generator=generator)
    targets = nn.functional.one_hot(torch.randint(10, (400,), generator=generator), 10).float()
    torch.manual_seed(0)
    bounds = nn.Hardtanh(-50, 50)  # without them the bias would begin at the middle of the targets
    net = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 32), nn.Linear(32, 10), bounds)
    with torch.no_grad():
        net[-2].bias.fill_(1.0)
    problem, budget = Problem(net, (x, targets), 1.0), Budget(None, 1_000)
    method = Probed(batch_size=200)
    state = method.init(problem, problem.theta(), torch.Generator().manual_seed(0))
    method.step(problem, state, budget)
    assert state.residual_size > 0.5
    state.residual_size = 0.1  # as outputs of 0 have it
    assert rounding_width(problem, state, budget) == pytest.approx(1.0, rel=0.01)


def test_only_kinks_are_rounded():
    """At p = 1.5 the slope of an entry goes to 0 with it, and a row keeps its pull."""
    widths = []
    for p in (1.0, 1.2, 1.5):
        problem = net_problem(p)
        state = Probed().init(problem, problem.theta(), torch.Generator())
        state.first_size = state.residual_size = 2.0
        widths.append(rounding_width(problem, state, Budget(None, 1_000)))
    assert widths == pytest.approx([20.0, 0.2, 2e-4])


def test_classes_as_zeros_and_ones_are_told_apart():
    """The median of every output is 0, which draws signs of residuals to an output of zeros."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4_000, 20, generator=generator)
    classes = (x @ torch.randn(20, 10, generator=generator)).argmax(1)
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    problem = Problem(net, (x, nn.functional.one_hot(classes, 10).float()), p=1)
    result = minimize(problem, Probed(batch_size=128), max_seconds=None, max_iter=600)
    assert result.objective < 0.5  # an output of zeros has 1


def many_rows():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 32), nn.Tanh(), nn.Linear(32, 2))
    return Problem(net, (torch.randn(9_000, 6), torch.randn(9_000, 2)), p=1)


def wide_problem():
    """One whose matrices move along few directions."""
    torch.manual_seed(0)
    x = torch.randn(64, 90)
    return Problem(nn.Sequential(nn.Linear(90, 120), nn.Tanh(), nn.Linear(120, 90)), (x, x), p=1)


# In the first turns, while they are compared or later, after them.
@pytest.mark.parametrize(
    ("build", "size", "stop"),
    [(net_problem, 64, 20), (net_problem, 64, 92), (net_problem, 64, 200), (wide_problem, 8, 20)],
)
def test_a_trial_goes_on_from_a_checkpoint_bit_for_bit(tmp_path, build, size, stop):
    def crash(progress):
        if progress.iteration >= stop:
            raise CrashError

    def run(callbacks=(), checkpoint=None):
        settings = Probed(batch_size=size)
        return minimize(
            build(), settings, max_seconds=None, max_iter=600, callbacks=callbacks,
            checkpoint=checkpoint,
        )  # fmt: skip

    kept = Checkpoints(tmp_path, every_seconds=None, every_steps=7)
    with pytest.raises(CrashError):
        run([crash], kept)
    assert torch.equal(run(checkpoint=kept).theta, run().theta)


@pytest.mark.parametrize(
    ("net", "normed"),
    [
        (paper_regressor(280, 16), False),  # three numbers, then a linear layer
        (nn.Sequential(nn.Linear(400, 8)), False),
        (nn.Sequential(nn.Linear(40, 60), nn.Tanh(), nn.Linear(60, 40)), True),
        (nn.Sequential(nn.Linear(400, 8), nn.Tanh(), nn.Linear(8, 2)), True),
    ],
)
def test_nearly_linear_models_take_curvature_steps(net, normed):
    inputs = 280 if isinstance(net[0], nn.Unflatten) else net[0].in_features
    x = torch.randn(50, inputs)
    problem = Problem(net, (x, torch.zeros_like(net(x))), p=1)
    state = Probed().init(problem, problem.theta(), torch.Generator())
    assert (state.trial is not None) is normed


def test_the_kind_of_steps_is_refused_by_name():
    with pytest.raises(InvalidInputError, match=r"Probed\(steps=...\)"):
        Probed(steps="spectral")


def test_steps_of_a_trial_are_said_to_be_tentative():
    problem, method, budget = net_problem(), Probed(batch_size=64), Budget(None, 1_000)
    state = method.init(problem, problem.theta(), torch.Generator().manual_seed(0))
    before = []
    while state.trying:
        assert method.step(problem, state, budget).tentative
        budget.iteration += 1
        before.append(state.theta)
    assert len(before) > 60
    assert not method.step(problem, state, budget).tentative

import math
import threading
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import Dataset

from proxlin import Lasso, NonNegative, Problem, Ridge, minimize
from proxlin.errors import InvalidInputError, UnsupportedModuleError


def regression(n=20, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 3, generator=generator, dtype=dtype)
    y = torch.randn(n, 2, generator=generator, dtype=dtype)
    torch.manual_seed(0)
    return nn.Linear(3, 2).to(dtype), x, y


@pytest.mark.parametrize("p", [1, 1.5, 2, 7, math.inf, "mse"])
def test_objective_is_the_mean_row_norm_plus_g(p):
    net, x, y = regression()
    problem = Problem(net, (x, y), p, regularizer=Ridge(0.3))
    r = (net(x) - y).detach()
    losses = r.square().sum(1) if p == "mse" else torch.linalg.vector_norm(r, ord=p, dim=1)
    g = 0.15 * sum(t.detach().square().sum() for t in net.parameters())
    expected = float(losses.mean() + g)
    assert problem.objective(problem.theta()) == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(problem.row_losses(problem.theta()), losses)


def test_objective_does_not_depend_on_the_chunks():
    net, x, y = regression(n=37)
    values = [
        Problem(net, (x, y), chunk_rows=size).objective(Problem(net, (x, y)).theta())
        for size in (1, 5, 37, 100)
    ]
    assert max(values) - min(values) < 1e-14


def test_one_tensor_is_reconstructed():
    net = nn.Sequential(nn.Flatten(), nn.Linear(8, 8), nn.Unflatten(1, (2, 4)))
    x = torch.randn(5, 2, 4)
    problem = Problem(net, x, p=2)
    expected = torch.linalg.vector_norm((net(x) - x).flatten(1), dim=1).mean().item()
    assert problem.objective(problem.theta()) == pytest.approx(expected, rel=1e-6)


def test_gradient_matches_autograd_on_the_module():
    net, x, y = regression()
    problem = Problem(net, (x, y), p=1.5, regularizer=Ridge(0.1))
    value, gradient = problem.value_and_gradient(problem.theta(), (x, y))
    loss = torch.linalg.vector_norm(net(x) - y, ord=1.5, dim=1).mean()
    loss = loss + 0.05 * sum(t.square().sum() for t in net.parameters())
    loss.backward()
    expected = torch.cat([t.grad.flatten() for t in net.parameters()])
    torch.testing.assert_close(gradient, expected)
    assert value == pytest.approx(loss.item())


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, math.inf, "mse"])
def test_zero_residual_gives_the_zero_sub_gradient(p):
    x = torch.randn(4, 3)
    problem = Problem(nn.Linear(3, 3), (x, torch.zeros(4, 3)), p)
    _, gradient = problem.value_and_gradient(torch.zeros(12), (x, torch.zeros(4, 3)))
    assert torch.equal(gradient, torch.zeros(12))


def test_module_is_untouched_until_assigned():
    net, x, y = regression()
    net.train()
    before = [t.clone() for t in net.parameters()]
    problem = Problem(net, (x, y))
    problem.objective(torch.zeros(8, dtype=torch.float64))
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert net.training
    problem.assign(torch.zeros(8, dtype=torch.float64))
    assert all(not t.any() for t in net.parameters())


def test_frozen_parameters_are_constants():
    net, x, y = regression()
    net.bias.requires_grad_(False)
    problem = Problem(net, (x, y))
    assert problem.layout.names == ("weight",)
    bias = net.bias.clone()
    problem.assign(torch.zeros(6, dtype=torch.float64))
    assert torch.equal(net.bias, bias)
    expected = (bias - y).abs().sum(1).mean().item()
    assert problem.objective(problem.theta()) == pytest.approx(expected)


def test_dropout_is_off():
    x = torch.randn(6, 4)
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4))
    problem = Problem(net, x)
    expected = (net[1](x) - x).abs().sum(1).mean().item()
    assert problem.objective(problem.theta()) == pytest.approx(expected, rel=1e-6)


class Pairs(Dataset):
    def __init__(self, *tensors: Tensor) -> None:
        self.tensors = tensors

    def __len__(self):
        return len(self.tensors[0])

    def __getitem__(self, i):
        return tuple(t[i] for t in self.tensors)


def test_dataset_equals_tensors():
    net, x, y = regression()
    theta = Problem(net, (x, y)).theta()
    assert Problem(net, Pairs(x, y)).objective(theta) == Problem(net, (x, y)).objective(theta)


class Ragged(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, i):
        return torch.zeros(3 + i)


class Noisy(nn.Linear):
    def forward(self, x):
        return super().forward(x) + torch.randn(1)


class MixesRows(nn.Linear):
    def forward(self, x):
        return super().forward(x) - super().forward(x).mean(0)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda x: Problem(nn.Linear(3, 3), x, p=0.5), "p must be a number >= 1 or inf; got 0.5"),
        (lambda x: Problem(nn.Linear(3, 3), x, p="l1"), "inf or \"mse\"; got 'l1'"),
        (lambda x: Problem(nn.Linear(3, 3), x, p="inf"), "Write float('inf')."),
        (lambda x: Problem(nn.Linear(3, 3), x, x), "Problem(module, (x, y))"),
        (lambda x: Problem(nn.Linear(3, 3), x.tolist()), "got float in it. Convert it"),
        (lambda x: Problem(nn.Linear(3, 3), (x.long(), x)), ".float() converts them"),
        (lambda x: Problem(nn.LazyLinear(3), x), "'weight' without one"),
        (lambda x: Problem(nn.LSTM(3, 3), x), "must return a tensor; got tuple"),
        (lambda x: Problem(nn.Linear(3, 3), x, residual=nn.functional.mse_loss), "AttributeError"),
        (lambda x: Problem(nn.Linear(3, 3), x[:0]), "at least one row"),
        (lambda x: Problem(nn.Linear(3, 3), (x, x[:2])), "same number of rows"),
        (lambda x: Problem(nn.Linear(3, 3), x / 0), "NaN or infinite"),
        (lambda x: Problem(nn.Linear(3, 3), x.double()), "the module's type torch.float32"),
        (lambda x: Problem(nn.Linear(3, 2), x), "shape of its target"),
        (lambda x: Problem(nn.Linear(3, 3), (x, x, x)), "needs residual="),
        (lambda x: Problem(nn.ReLU(), x), "parameters that require a gradient"),
        (lambda x: Problem(nn.Linear(3, 3).half(), x.half()), "float32 or float64"),
        (lambda x: Problem("net", x), "torch.nn.Module"),
        (lambda x: Problem(nn.Linear(3, 3), x, residual=lambda m, x: m(x).sum()), "Leave out the"),
        (lambda x: Problem(nn.Linear(3, 3), x, residual=lambda m, x: m(x)[:, 0]), ".unsqueeze(1)"),
        (lambda x: Problem(nn.Linear(3, 3), Ragged()), "same shape"),
        (lambda x: Problem(nn.Linear(3, 3), x, chunk_rows=0), "chunk_rows"),
        (lambda x: Problem(nn.Linear(3, 3), x, regularizer=Lasso(1, on="wieght")), "'weight'"),
    ],
)
def test_bad_input_is_one_sentence(build, words):
    with pytest.raises(InvalidInputError) as caught:
        build(torch.ones(4, 3))
    message = str(caught.value)
    assert words in message
    assert "\n" not in message


class Checkpointed(nn.Module):
    def __init__(self, *, reentrant=False):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.stored, self.reentrant = True, reentrant

    def forward(self, x):
        def middle(hidden):
            return torch.tanh(self.second(hidden))

        hidden = torch.tanh(self.first(x))
        if self.stored:
            hidden = checkpoint(middle, hidden, use_reentrant=self.reentrant)
        return self.last(hidden if self.stored else middle(hidden))


def test_what_is_computed_again_on_the_way_back_uses_theta():
    _, x, y = regression()
    stored = Checkpointed().double()
    problem = Problem(stored, (x, y), 1.5)
    plain = Checkpointed().double()
    plain.stored = False
    other = Problem(plain, (x, y), 1.5)
    theta = torch.randn(problem.layout.size, dtype=torch.float64)
    found, expected = (p.value_and_gradient(theta, (x, y)) for p in (problem, other))
    assert found[0] == pytest.approx(expected[0])
    torch.testing.assert_close(found[1], expected[1])
    start = problem.objective(problem.theta())
    assert minimize(problem, max_iter=5).objective < start


class Remembers(nn.Linear):
    def forward(self, x):
        self.latest = super().forward(x)
        return self.latest


def test_a_module_that_remembers_its_output_is_copied_without_the_graph():
    _, x, _ = regression()
    net = Remembers(3, 3).double()
    net(x)
    problem = Problem(net, x)
    losses = problem.row_losses(problem.theta())
    torch.testing.assert_close(losses, (net(x) - x).detach().abs().sum(1))


def test_sparse_slopes_of_embeddings_are_those_of_dense_ones():
    ids, y = torch.randint(5, (30, 2)), torch.randn(30, 4)
    nets = [nn.Sequential(nn.Embedding(5, 2, sparse=s), nn.Flatten()) for s in (True, False)]
    nets[1].load_state_dict(nets[0].state_dict())
    problems = [Problem(net, (ids, y), 1) for net in nets]
    slopes = [p.value_and_gradient(p.theta(), (ids, y))[1] for p in problems]
    assert torch.equal(*slopes)
    assert nets[0][0].sparse


class InPlace(nn.Linear):
    def forward(self, x):
        return super().forward(x.clamp_(-1, 1))


class WithoutSlope(nn.Linear):
    @torch.no_grad()
    def forward(self, x):
        return super().forward(x)


class Unfit(nn.Linear):
    def forward(self, x):
        hidden = super().forward(x).exp()
        hidden += 1  # what exp has kept for its slope
        return hidden


class Locked(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.lock = threading.Lock()


class Itself(nn.Linear):
    def __deepcopy__(self, _memo):
        return self


def scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's remark that scripts are of the past
        return torch.jit.script(nn.Linear(3, 3))


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # of torch itself
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: InPlace(3, 3), r"changed data\[0\] in place"),
        (lambda: nn.Sequential(Remembers(3, 3), Unfit(3, 3)), "modified by an inplace operation"),
        (lambda: nn.Sequential(Checkpointed(reentrant=True), nn.Linear(2, 3)), "use_reentrant=F"),
        (lambda: Locked(3, 3), "copy.deepcopy copies"),
        (lambda: nn.Sequential(Itself(3, 3)), "__deepcopy__"),
        (scripted, "got a ScriptModule"),
    ],
)
def test_modules_that_cannot_be_differentiated_are_refused(make, words):
    x = 3 * torch.randn(4, 3)
    before = x.clone()
    with pytest.raises(UnsupportedModuleError, match=words):
        Problem(make(), x)
    assert torch.equal(x, before)


def test_an_embedding_that_shrinks_its_rows_is_refused():
    net = nn.Sequential(nn.Embedding(5, 3, max_norm=0.1), nn.Flatten())
    with pytest.raises(UnsupportedModuleError, match="changed its parameters in place"):
        Problem(net, (torch.arange(5), torch.randn(5, 3)))


def test_a_residual_that_no_parameter_moves_is_refused():
    x = torch.randn(4, 3)
    other = nn.Linear(3, 3)
    with pytest.raises(InvalidInputError, match="must depend on the module's parameters"):
        Problem(WithoutSlope(3, 3), x)
    with pytest.raises(InvalidInputError, match="Call the module that residual"):
        Problem(nn.Linear(3, 3), x, residual=lambda _module, rows: other(rows) - rows)
    with torch.inference_mode(), pytest.raises(InvalidInputError, match="inference_mode"):
        Problem(nn.Linear(3, 3), x)


def test_rows_of_which_some_do_not_depend_on_the_parameters_are_allowed():
    x = torch.cat([torch.zeros(5, 3), torch.ones(5, 3)])

    def inner(module, rows):
        kept = rows.any(1)
        if not kept.any():
            return rows
        return torch.where(kept[:, None], module(rows), rows)

    assert Problem(nn.Linear(3, 3), x, residual=inner).n_outputs == 3


def test_parameters_that_share_memory_are_refused():
    net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 4))
    net[1].weight = nn.Parameter(net[0].weight.T)
    with pytest.raises(InvalidInputError, match=r"'0\.weight' and '1\.weight' do"):
        Problem(net, torch.randn(5, 4))
    whole = torch.randn(24)  # side by side in one piece of memory, they are parameters as any
    net[0].weight, net[1].weight = (
        nn.Parameter(whole[:12].view(3, 4)),
        nn.Parameter(whole[12:].view(4, 3)),
    )
    assert Problem(net, torch.randn(5, 4)).layout.size == 31


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net[0].requires_grad_(False),
        lambda net: net.append(nn.Linear(2, 2)),
        lambda net: net.double(),
        lambda net: setattr(net[1], "running_mean", torch.zeros(3)),
    ],
)
def test_a_module_that_is_another_one_now_is_refused(change):
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).eval()
    problem = Problem(net, (torch.randn(9, 3), torch.randn(9, 2)))
    change(net)
    with pytest.raises(InvalidInputError, match="Make a new Problem"):
        minimize(problem, max_iter=1)


class KeepsItsInput(nn.Module):
    """A module with a buffer of as many rows as were seen last."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(0))

    def forward(self, x):
        self.seen = x.detach()
        return self.inner(x)


def test_a_buffer_may_take_the_shape_of_each_batch():
    torch.manual_seed(0)
    net, (x, y) = KeepsItsInput(), (torch.randn(9, 3), torch.randn(9, 2))
    problem = Problem(net, (x, y))
    for _ in range(2):
        result = minimize(problem, max_iter=3)
    assert net.seen.shape == (0,)
    assert result.objective == pytest.approx(float((net(x) - y).detach().abs().sum(1).mean()))


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_that_no_step_would_call_is_refused(register):
    net = nn.Linear(3, 2)
    handle = getattr(net.weight, register)(torch.zeros_like)
    data = (torch.randn(9, 3), torch.randn(9, 2))
    with pytest.raises(UnsupportedModuleError, match="'weight' has a hook"):
        Problem(net, data)
    handle.remove()
    assert Problem(net, data).layout.size == 8


def test_what_became_of_buffers_and_frozen_parameters_counts():
    _, x, y = regression()
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).double().eval()
    net[0].bias.requires_grad_(False)
    problem = Problem(net, (x, y))
    problem.objective(problem.theta())
    net[1].running_mean.fill_(2.0)
    with torch.no_grad():
        net[0].bias.fill_(-1.0)
    result = minimize(problem, max_iter=3)
    expected = float((net(x) - y).detach().abs().sum(1).mean())
    assert result.objective == pytest.approx(expected)
    assert problem.objective(problem.theta()) == pytest.approx(expected)


def test_data_with_a_graph_and_of_inference_mode_are_constants():
    _, x, y = regression()
    with torch.inference_mode():
        inputs = x * 1
    net = nn.Linear(3, 2).double()
    theta = Problem(net, (x, y)).theta()
    expected = Problem(net, (x, y)).objective(theta)
    assert Problem(net, (inputs, y)).objective(theta) == expected
    assert Problem(net, (x, y.clone().requires_grad_())).objective(theta) == expected


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), "GroupNorm or LayerNorm.* .eval()"),
        (nn.BatchNorm1d(3, track_running_stats=False).eval(), "without running statistics"),
        (Noisy(3, 3), "two calls differed"),
        (MixesRows(3, 3), "depend on that row alone"),
    ],
)
def test_modules_without_a_row_wise_residual_are_refused(net, words):
    with pytest.raises(UnsupportedModuleError, match=words):
        Problem(net, torch.randn(4, 3))


def test_constraint_reaches_the_penalty():
    problem = Problem(nn.Linear(3, 3), torch.randn(4, 3), constraint=NonNegative())
    assert bool((problem.penalty.project(problem.theta()) >= 0).all())


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch itself
def test_a_compiled_module_is_trained_as_the_one_inside():
    net, x, y = regression()
    problem = Problem(torch.compile(net), (x, y))
    assert problem.module is net
    assert problem.layout.names == ("weight", "bias")


def test_fixed_batch_normalisation_is_a_map_of_each_row():
    _, x, y = regression()
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).double()
    net(5 + x)  # statistics of its own
    net.eval()
    problem = Problem(net, (x, y), 1)
    expected = float((net(x) - y).detach().abs().sum(1).mean())
    assert problem.objective(problem.theta()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch itself
@pytest.mark.parametrize("in_place", [True, False])
def test_compiled_parts_of_a_module_are_called_as_they_were(in_place):
    net, x, y = regression()
    part = nn.Sequential(nn.Linear(2, 2), nn.Tanh()).double()
    if in_place:
        part.compile()
        compiled = part
    else:
        compiled = torch.compile(part)
    module = nn.Sequential(net, compiled)
    expected = float((part[1](part[0](net(x))) - y).detach().abs().sum(1).mean())
    problem = Problem(module, (x, y))
    assert problem.objective(problem.theta()) == pytest.approx(expected, rel=1e-12)
    result = minimize(problem, max_iter=10)
    assert result.objective < expected
    assert problem.objective(problem.theta()) == pytest.approx(result.objective)


def test_tied_parameters_count_once_and_stay_tied():
    _, x, _ = regression()
    net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)).double()
    net[1].weight = net[0].weight
    problem = Problem(net, x, "mse")
    assert problem.layout.names == ("0.weight",)
    theta = problem.theta()
    _, gradient = problem.value_and_gradient(theta, (x,))
    net.zero_grad()
    (net(x) - x).square().sum(1).mean().backward()
    torch.testing.assert_close(gradient, net[0].weight.grad.flatten())
    assert minimize(problem, max_iter=100).objective < 1e-6
    assert net[1].weight is net[0].weight


X, Y = torch.randn(20, 3), torch.randn(20, 2)


@pytest.mark.parametrize(
    ("rule", "sign"),
    [
        (lambda module, x, y: module(x) - y, 1),
        (lambda module, x, y: module(x) ** 2 - y, 1),
        (lambda module, x, y: y - module(x), -1),
        (lambda module, x, y: 2 * (module(x) - y), 0),
        (lambda module, x, y: module(x) - y.clamp(-5, 5), 0),
        (lambda module, x, y: torch.where(y == 0, 0.0, module(x) - y), 0),
        (lambda module, x, y: module(x) - y.norm(dim=1, keepdim=True), 0),
        (lambda module, x, y: torch.cat([module(x) - y, module(x)], 1), 0),
    ],
)
def test_it_is_known_whether_a_residual_is_an_output_minus_a_target(rule, sign):
    assert Problem(nn.Linear(3, 2), (X, Y), residual=rule).output_sign == sign


def test_an_error_without_words_is_named_without_a_colon():
    def silent(module, x, y):
        raise ValueError

    with pytest.raises(InvalidInputError, match=r"end with ValueError\."):
        Problem(nn.Linear(3, 2), (X, Y), residual=silent)


class RefusedError(Exception):
    """Of the caller's own."""


@pytest.mark.parametrize("error", [ValueError, AssertionError, ZeroDivisionError, RefusedError])
def test_a_residual_that_refuses_other_targets_does_not_only_subtract_them(error):
    def picky(module, x, y):
        if float(y.abs().max()) > 100:
            raise error("too large")
        return module(x) - y

    assert Problem(nn.Linear(3, 2), (X, Y), residual=picky).output_sign == 0

"""A plain loop on two or more processes, each with rows of its own; run by test_processes.py."""

import sys

import torch
from torch import nn

from proxlin import Lasso, Ridge
from proxlin.optim import Probed
from proxlin.problem.parallel import alone, communicator

RIDGE, LASSO = Ridge(1e-3), Lasso(1e-3)


def net(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 2)).double()


def table(n=192):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 5, generator=generator, dtype=torch.float64)
    y = x[:, :2].sin()
    y[::6] += 20
    return x, y


def trained(module, parts, p, term, steps=24):
    """The losses of a plain loop over `parts`, a list of row numbers for each step."""
    x, y = table()
    optimizer = Probed(module.named_parameters(), p, regularizer=term, total_steps=steps)
    losses = []
    for step in range(steps):
        rows = parts[step % len(parts)]
        losses.append(optimizer.step(lambda rows=rows: module(x[rows]) - y[rows]))
    return torch.stack(losses), torch.cat([t.detach().flatten() for t in module.parameters()])


def main():
    group = communicator()
    batches = list(torch.arange(192).split(48))
    shares = {
        "in turn": [batch[group.rank :: group.size] for batch in batches],
        "unequal": [batch[:10] if group.leads else batch[10:] for batch in batches],
    }
    if group.size > 2:
        del shares["unequal"]
    cases = [("in turn", 1.0, RIDGE), ("in turn", 1.0, LASSO), ("in turn", "mse", RIDGE)]
    cases += [("unequal", 1.0, RIDGE)] if "unequal" in shares else []
    for name, p, term in cases:
        with alone():
            expected = trained(net(0), batches, p, term)
        found = trained(net(group.rank), shares[name], p, term)  # rank 0's start counts
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
        bits = found[1].numpy().tobytes()
        assert all(each == bits for each in group.each(bits)), name
    if group.leads:
        sys.stdout.write("equal\n")

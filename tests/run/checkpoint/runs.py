"""Runs small enough to be repeated: every method, every structure of its state."""

import torch
from torch import nn

from proxlin import (
    ADMM,
    MBO,
    SADM,
    SGD,
    Adam,
    Box,
    Lasso,
    Probed,
    Problem,
    Subgradient,
    minimize,
)

STEPS = 40


class CrashError(Exception):
    """What ends a run here; a run does not catch it."""


def problem(n=120, seed=0, width=40, p=1.0, **terms):
    """Rows of rank two with some noise, for a net with blocks of every structure."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, generator=generator) @ torch.randn(2, 6, generator=generator)
    x += 0.1 * torch.randn(n, 6, generator=generator)
    torch.manual_seed(seed)
    # 41 columns in the last layer are beyond unit blocks, seven in the first are not.
    net = nn.Sequential(nn.Linear(6, width), nn.SiLU(), nn.Linear(width, 6))
    return Problem(net, x, p, **terms)


CASES = {
    "probed whole": (Probed(), {}),
    "probed dense": (Probed(batch_size=32), {}),
    "probed layered": (Probed(batch_size=32, curvature="layered"), {}),
    "probed lasso": (Probed(batch_size=32), {"regularizer": Lasso(1e-3)}),
    "probed box": (Probed(batch_size=32, curvature="layered"), {"constraint": Box(-0.4, 0.4)}),
    "mbo-sadm": (MBO(solver=SADM(max_steps=5, min_steps=2)), {}),
    "mbo-sgd": (MBO(solver=Subgradient(learning_rate=1e-3, max_steps=5), decrease_rows=50), {}),
    "mbo-admm": (MBO(solver=ADMM(max_steps=10), decrease_rows=None), {}),
    "sgd": (SGD(batch_size=32), {}),
    "adam": (Adam(batch_size=32), {}),
}


def run(case, *, checkpoint=None, crash_at=None, max_iter=STEPS, **options):
    """The result of a case; `crash_at` a step whose evaluation fails."""
    method, terms = CASES[case]

    def fail(told):
        if crash_at is not None and told.iteration >= crash_at:
            raise CrashError

    return minimize(
        problem(**terms), method, max_seconds=None, max_iter=max_iter, checkpoint=checkpoint,
        callbacks=[fail], **options,
    )  # fmt: skip


def timeless(result):
    """The history apart from what the clock says."""
    return [{k: v for k, v in one.items() if k != "seconds"} for one in result.history.records]

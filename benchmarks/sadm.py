"""One step of SADM on the paper's MNIST autoencoder: seconds, and where they go.

Batch of 8 random images, 10 steps of the inner ADMM. The authors' code needs 16 to 170 s for it.
"""

from __future__ import annotations

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.timing import best_of_each, verdict
from proxlin.methods.subproblem import SADM, InnerADMM
from proxlin.methods.subproblem.convex_model import ConvexModel
from proxlin.methods.subproblem.normal_equations import DenseRows, Gram, product_of_columns
from proxlin.methods.subproblem.splitting import SplitProblem, minimize_split
from proxlin.models import paper_autoencoder
from proxlin.problem import Problem
from proxlin.problem.loss import RowLoss
from proxlin.terms import Ridge

BATCH, INNER_STEPS = 8, 10
EXPONENTS = (1.0, 1.5, 2.0)
BAR = 0.17  # seconds: a hundredth of the fastest figure of the authors' code

# A tolerance that is never met: each run takes all its steps.
INNER = InnerADMM(max_steps=INNER_STEPS, tolerance=1e-30, floor=0.0)


def table(repeats: int = 15) -> Table:
    """Seconds of one step and of its parts, and how far the inner steps got."""
    result = Table(
        title=f"one SADM step, batch {BATCH}, {INNER_STEPS} inner steps, N = 784, d = 741, seconds"
    )
    columns = ("p", "whole step", "bar", "Jacobian rows", "Gram", "Cholesky", "inner steps")
    for column in (*columns, "excess"):
        result.add_column(column, justify="right")
    for p in EXPONENTS:
        result.add_row(f"{p:g}", *_figures(p, repeats))
    result.caption = (
        f"{torch.get_num_threads()} threads, fastest of {repeats} runs of each;"
        " excess: relative distance of the inner objective from its minimum"
    )
    return result


def _figures(p: float, repeats: int) -> list[str]:
    torch.manual_seed(0)
    images = torch.rand(64, 1, 28, 28)
    problem = Problem(paper_autoencoder(), images, p=p, regularizer=Ridge(1e-3))
    model = ConvexModel(problem, problem.theta())
    solver = SADM(batch_size=BATCH, inner=INNER)
    index = torch.arange(BATCH)
    first = solver.begin(model)

    batch = model.linearization(index)
    rows = DenseRows(batch.rows())
    equations = Gram(product_of_columns(rows.matrix))
    weights = torch.tensor(2.001)  # h + gamma_1 + rho_1
    centre = torch.zeros_like(model.anchor)
    split = SplitProblem(rows, equations, batch.residual, centre, weights, RowLoss(p))

    seconds = best_of_each(
        {
            "whole": lambda: solver.step(model, first, index),
            "rows": lambda: model.linearization(index).rows(),
            "gram": lambda: Gram(product_of_columns(rows.matrix)),
            "cholesky": lambda: equations.prepare(weights, 1.0),
            "inner": lambda: minimize_split(split, INNER, centre),
        },
        repeats,
    )
    parts = [seconds["rows"], seconds["gram"], seconds["cholesky"]]
    parts.append(seconds["inner"] - seconds["cholesky"])
    return [
        f"{seconds['whole']:.3f}",
        verdict(seconds["whole"], BAR),
        *(f"{part:.3f}" for part in parts),
        f"{_excess(split):.1e}",
    ]


def _excess(split: SplitProblem) -> float:
    """The relative distance of the objective from its minimum after the inner steps."""

    def objective(x: Tensor) -> float:
        distance = 0.5 * split.weights * (x - split.centre).square().sum()
        return float(split.loss(split.rows.apply(x) + split.offset).mean() + distance)

    found = objective(minimize_split(split, INNER, split.centre).x)
    exact = InnerADMM(max_steps=1000, tolerance=1e-6)
    return found / objective(minimize_split(split, exact, split.centre).x) - 1


def main(_arguments: list[str] | None = None) -> None:
    """Print the table."""
    Console().print(table())


if __name__ == "__main__":
    main()

"""The paper's figure of convergence, on small images: the objective over time for each method.

    python examples/paper_figure.py [folder for the picture]

The same as `proxlin reproduce fig2 --datasets digits --p 1 --seconds 15`. The paper has MNIST
and hours; `proxlin reproduce fig2` runs that. PROXLIN_QUICK=1 makes it short.
"""

import os
import sys
from pathlib import Path

from proxlin.paper.catalog import experiment
from proxlin.paper.reproduction import reproduce

SECONDS = 0.3 if os.environ.get("PROXLIN_QUICK") else 15


def main(folder: Path) -> None:
    """Train with every method, print where each one ends, save the curves."""
    figure = experiment(
        "fig2",
        datasets=("digits",),
        exponents=(1.0,),
        methods=("probed", "mbo-sadm", "mbo-sgd", "sgd"),
        seconds=SECONDS,
    )
    done = reproduce(figure, folder)
    assert done is not None  # more than one process: only the first has the outcome
    for cell in figure.grid.cells():
        objective = done.outcome.records[cell.name]["metrics"][str(cell.p)]["f_obj"]
        print(f"{cell.method:8}  objective {objective:6.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))

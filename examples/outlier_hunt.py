"""Hunt for bad rows in a CSV that has no target: which rows do not follow the others, and where?

    python examples/outlier_hunt.py [folder for the picture]

Measurements of bodies with slips of the keyboard: centimetres where metres belong, a decimal point
lost, two columns exchanged. `proxlin fit bodies.csv --out DIR` and `proxlin outliers DIR
bodies.csv` do the same without a program.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from proxlin.app.tabular import FitSettings, fit_table, read_table_file

ROWS, BAD = 400, 20


def bodies() -> pd.DataFrame:
    """Heights, weights and so on that hang together; the first BAD rows have a slip each."""
    rng = np.random.default_rng(0)
    height = rng.normal(1.72, 0.1, ROWS)
    weight = 22.5 * height**2 * np.exp(0.1 * rng.normal(size=ROWS))
    table = pd.DataFrame(
        {
            "height": height,
            "weight": weight,
            "waist": 35 + 0.65 * weight + rng.normal(0, 2, ROWS),
            "shoe": -10 + 30.5 * height + rng.normal(0, 0.7, ROWS),
            "arm": 0.44 * height + rng.normal(0, 0.01, ROWS),
        }
    ).round(2)
    table.loc[:6, "height"] *= 100
    table.loc[7:13, "weight"] /= 10
    table.loc[14 : BAD - 1, ["waist", "shoe"]] = table.loc[
        14 : BAD - 1, ["shoe", "waist"]
    ].to_numpy()
    return table


def main(folder: Path) -> None:
    """Write the table, fit without a target, print what is wrong where, save the scores."""
    bodies().to_csv(folder / "bodies.csv", index=False)
    table = read_table_file(folder / "bodies.csv")
    model = fit_table(table, FitSettings()).model
    judged = model.judge(table.frame)
    flags = np.asarray(judged.flags, dtype=bool)
    print(
        f"flagged: {flags[:BAD].sum()} of {BAD} slips,"
        f" {flags[BAD:].sum()} of {ROWS - BAD} other rows"
    )
    for row in model.explain(table.frame, judged.worst(5), judged):
        cell = row.cells[0]
        expected, got = cell.texts
        print(f"row {row.row}: {cell.column} is {got}, expected {expected}")

    scores = np.asarray(judged.scores)
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.scatter(np.arange(BAD, ROWS), scores[BAD:].clip(0.1), s=8, label="as measured")
    axes.scatter(np.arange(BAD), scores[:BAD].clip(0.1), s=14, color="tab:red", label="slips")
    axes.axhline(3.5, color="0.5", ls="--")
    axes.set(xlabel="row", ylabel="outlier score", yscale="log")
    axes.legend()
    figure.savefig(folder / "scores.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))

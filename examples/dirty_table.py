"""Fit a dirty table: a tenth of the prices is wrong, cells are missing, text stands for numbers.

    python examples/dirty_table.py [folder]

Writes house.csv and does in Python what `proxlin fit house.csv --targets price` does, then finds
the rows that do not fit.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from proxlin.app.tabular import FitSettings, fit_table, load_model, read_table_file, save_model


def dirty_table(rows: int = 600, seed: int = 0) -> pd.DataFrame:
    """Houses; every tenth price has a digit too many."""
    generator = np.random.default_rng(seed)
    area = generator.normal(120, 30, rows).round(1)
    rooms = generator.integers(1, 7, rows)
    town = generator.choice(["Aachen", "Bonn", "Köln"], rows)
    days = generator.integers(0, 9000, rows).astype("timedelta64[D]")
    garage = generator.choice(["yes", "no"], rows)
    noise = generator.normal(0, 5000, rows)
    price = 2000 * area + 10_000 * rooms + 20_000 * (town == "Bonn") + 8000 * (garage == "yes")
    price = (price + noise).round()
    price[::10] *= 10
    frame = pd.DataFrame(
        {
            "id": np.arange(1, rows + 1),
            "area": area.astype(str),
            "rooms": rooms,
            "town": town,
            "built": np.datetime64("1990-01-01") + days,
            "garage": garage,
            "street": [f"street {number}" for number in range(rows)],
            "price": price,
        }
    )
    frame.loc[generator.choice(rows, 20, replace=False), "area"] = "unknown"
    frame.loc[generator.choice(rows, 4, replace=False), "price"] = np.nan
    return frame


def main() -> None:
    """Write the table, fit, save, load, and list what does not fit."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    dirty_table().to_csv(folder / "house.csv", index=False)

    table = read_table_file(folder / "house.csv")
    fitted = fit_table(table, FitSettings(targets=("price",)))
    for note in fitted.notes:
        print("-", note)
    save_model(fitted.model, folder / "house-model", overwrite=True)

    model = load_model(folder / "house-model")  # predicts the same, bit for bit
    judged = model.judge(table.frame)
    print(f"\n{int(judged.flags.sum())} of {len(table.frame)} rows do not fit; the worst:")
    for one in model.explain(table.frame, judged.worst(5), judged):
        cell = one.cells[0]
        expected, got = cell.texts
        print(f"row {one.row}: {cell.column} is {got}, expected {expected}")
    draw(pd.read_csv(folder / "house.csv"), judged.flags).savefig(folder / "prices.png", dpi=110)


def draw(table: pd.DataFrame, flags: np.ndarray) -> Figure:
    """Prices over areas, on a scale that shows both kinds of rows."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    area = pd.to_numeric(table["area"], errors="coerce")
    for flagged, label in ((False, "fits"), (True, "does not fit")):
        chosen = flags == flagged
        axes.scatter(area[chosen], table["price"][chosen], s=12, label=label)
    axes.set(xlabel="area", ylabel="price", yscale="log")
    axes.legend()
    return figure


if __name__ == "__main__":
    main()

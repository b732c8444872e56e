"""Do intervals cover? Confidence and prediction intervals over simulated tables.

    python -m benchmarks.coverage                   1,170 tables, 130 of each design
    python -m benchmarks.coverage --bootstrap 2000  errors beside those of so many drawn fits

Tables of 200 rows and three features, noise Gaussian, Student's t(3), or growing from 0.3 to three
times as much with a feature; none, a tenth or a fifth of the targets wrong: on even tables by a
Gaussian of 100 deviations, on odd ones all 10 to 1,000 too high. Confidence intervals are asked for
the four true coefficients, prediction intervals for 200 new clean rows. Figures are printed and
kept in docs/results/coverage.md; tables already done are read from the CSV beside it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from proxlin import RobustRegressor

ROWS, FEATURES, NEW = 200, 3, 200
NOISES = ("gaussian", "t3", "heteroscedastic")
SHARES = (0.0, 0.1, 0.2)
FOLDER = Path(__file__).parent.parent / "docs" / "results"


def noise(kind: str, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One draw for each row."""
    if kind == "t3":
        return rng.standard_t(3, len(x))
    spread = 0.3 + np.abs(x[:, 0]) if kind == "heteroscedastic" else 1.0
    return spread * rng.normal(size=len(x))


def run(kind: str, share: float, number: int, repeats: int) -> dict[str, float]:
    """One table: the shares that its intervals cover, and how wide they are."""
    rng = np.random.default_rng([number, NOISES.index(kind), round(10 * share)])
    coef = rng.normal(size=1 + FEATURES)
    x, new = rng.normal(size=(ROWS, FEATURES)), rng.normal(size=(NEW, FEATURES))
    y = coef[0] + x @ coef[1:] + noise(kind, x, rng)
    truth = coef[0] + new @ coef[1:] + noise(kind, new, rng)
    wrong = rng.permutation(ROWS)[: round(share * ROWS)]
    far = 10 ** rng.uniform(1, 3, len(wrong))
    y[wrong] += far if number % 2 else 100 * rng.normal(size=len(wrong))
    model = RobustRegressor().fit(x, y)
    figures: dict[str, float] = {}
    for name in ("sandwich", "w", "bootstrap"):
        frame = model.summary(0.95, name, repeats=repeats).frame()
        inside = (frame["low"] <= coef) & (coef <= frame["high"])
        figures |= {f"confidence, {name}": inside.mean(), f"error, {name}": frame["error"].mean()}
    wide = np.abs(new[:, 0]) > 1
    for name, local in {"local": True, "one width": False}.items():
        low, high = model.predict_interval(new, 0.9, local=local)
        inside = (low <= truth) & (truth <= high)
        figures |= {f"prediction, {name}": inside.mean(), f"far rows, {name}": inside[wide].mean()}
        figures[f"width, {name}"] = float((high - low).mean())
    return figures


def beside_refits(repeats: int) -> None:
    """Errors of four tables, over the deviation of fits to rows drawn anew."""
    for kind, share in (
        ("gaussian", 0.0),
        ("t3", 0.0),
        ("gaussian", 0.1),
        ("heteroscedastic", 0.1),
    ):
        rng = np.random.default_rng(5)
        x = rng.normal(size=(400, FEATURES))
        y = x.sum(axis=1) + noise(kind, x, rng)
        y[: round(share * len(y))] += 50.0
        model = RobustRegressor(random_state=0).fit(x, y)
        refits = [
            RobustRegressor(random_state=0).fit(x[rows], y[rows])
            for rows in rng.integers(0, len(y), (repeats, len(y)))
        ]
        coefs = [[refit.intercept_, *refit.coef_] for refit in refits]
        spread = np.std(coefs, axis=0, ddof=1)
        for name in ("sandwich", "bootstrap"):
            errors = model.summary(errors=name, repeats=repeats).frame()["error"].to_numpy()
            print(f"{kind}, {share:.0%} wrong, {name} over {repeats:,} fits:",
                  (errors / spread).round(3))  # fmt: skip


def table(runs: pd.DataFrame) -> str:
    """Means over the tables, as Markdown."""
    means = runs.groupby(["noise", "wrong"], sort=False).mean().drop(columns="table")
    counts = runs.groupby(["noise", "wrong"], sort=False).size()
    shown = [
        name for name in map(str, means)
        if name.startswith(("confidence", "prediction", "far", "width"))
    ]  # fmt: skip
    lines = [
        "| noise | wrong | tables | " + " | ".join(shown) + " |",
        "| --- " * (3 + len(shown)) + "|",
    ]
    for place, row in means.iterrows():
        kind, share = cast("tuple[str, float]", place)
        values = [
            f"{row[c]:.3f}" if c.startswith("width") else f"{100 * row[c]:.1f} %" for c in shown
        ]
        lines.append(
            f"| {kind} | {share:.0%} | {counts[kind, share]:,} | " + " | ".join(values) + " |"
        )
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=130, help="of each design")
    parser.add_argument("--bootstrap", type=int, default=0, metavar="REFITS")
    parser.add_argument("--repeats", type=int, default=500, help="of each bootstrap")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    if arguments.bootstrap:
        beside_refits(arguments.bootstrap)
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    path = arguments.folder / "coverage.csv"
    runs: list[dict[Any, Any]] = pd.read_csv(path).to_dict("records") if path.exists() else []
    done = {(row["noise"], row["wrong"], row["table"]) for row in runs}
    started = time.perf_counter()
    for number in range(arguments.tables):
        for kind in NOISES:
            for share in SHARES:
                if (kind, share, number) not in done:
                    found = run(kind, share, number, arguments.repeats)
                    runs.append({"noise": kind, "wrong": share, "table": number, **found})
        if time.perf_counter() - started > 60 or number == arguments.tables - 1:
            pd.DataFrame(runs).to_csv(path, index=False, float_format="%.5g")
            started = time.perf_counter()
    text = table(pd.DataFrame(runs))
    print(text)
    (arguments.folder / "coverage.md").write_text(
        f"# Coverage\n\n`python -m benchmarks.coverage`\n\n{text}\n"
    )


if __name__ == "__main__":
    main()

"""RobustRegressor beside R's robustbase on the 28 regression tables that it ships.

    python -m benchmarks.anchors      one line a table; half a minute, R is not needed

A fit agrees with R on a table if its coefficients are within one standard error of R's MM, KS2014
or LTS, and its flagged rows those of one of them but for one row. R's fits are judged alike, each
by the others of the three. rlm is MM by another program, with the start, loss and tuning of
lmrob's. R's answers come from `benchmarks/r/robustbase_tables.R`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.robustbase import Array
from proxlin import RobustRegressor

_FOLDER = Path(__file__).parents[1] / "tests" / "estimators" / "regression" / "robustbase"
TABLES = pd.read_csv(_FOLDER / "tables.csv")
ANSWERS = pd.read_csv(_FOLDER / "answers.csv")
REFERENCES = ("MM", "KS2014", "LTS")


@dataclass(frozen=True, eq=False)
class Answer:
    """What one fit says of a table."""

    coef: Array  # (k,) the intercept first
    errors: Array  # (k,), or (0,) where none are known
    flags: list[set[int]]  # rows, by each rule for flags that the fit has

    def away(self, others: Iterable[Answer]) -> tuple[float, int]:
        """Standard errors of the others from the nearest of them; rows from the nearest flags."""
        distances, different = [np.inf], []
        for other in others:
            if len(other.errors) == len(self.coef):
                errors = np.where(other.errors > 0, other.errors, 1e-9)
                distances.append(float((np.abs(self.coef - other.coef) / errors).max()))
            different += [len(mine ^ theirs) for mine in self.flags for theirs in other.flags]
        return min(distances), min(different)


def answers_of_r(table: str) -> dict[str, Answer]:
    """The fits of R by their names; a fit that failed is not among them."""
    answers = {}
    for method, lines in ANSWERS[ANSWERS["table"] == table].groupby("method"):
        parts = {kind: part.set_index("index")["value"] for kind, part in lines.groupby("kind")}
        nothing = pd.Series(dtype=float)
        flags = [set(parts.get(kind, nothing).index) for kind in ("flag", "flag2.5")]
        errors = parts.get("error", nothing).to_numpy()
        answers[str(method)] = Answer(parts["coef"].to_numpy(), errors, flags)
    return answers


def our_answer(table: str) -> Answer:
    """The fit by default."""
    rows = TABLES[TABLES["table"] == table]
    x = rows.filter(regex="^x").dropna(axis=1, how="all").to_numpy()
    model = RobustRegressor().fit(x, rows["y"].to_numpy())
    coef = np.concatenate([[float(model.intercept_)], model.coef_])
    return Answer(coef, np.empty(0), [set(np.flatnonzero(model.outliers_).tolist())])


def agrees(away: tuple[float, int]) -> bool:
    """Whether a fit is within one standard error and one flag."""
    return away[0] <= 1.0 and away[1] <= 1


def main() -> None:
    """One line a table: standard errors and flags by which each fit differs from R's others."""
    names = sorted(set(TABLES["table"]))
    methods = ["ours", *REFERENCES, "rlm"]
    agreed = dict.fromkeys(methods, 0)
    print(f"| table | {' | '.join(methods)} |\n| --- |{' --- |' * len(methods)}")
    for name in names:
        answers = {"ours": our_answer(name), **answers_of_r(name)}
        cells = []
        for method in methods:
            others = [answers[other] for other in REFERENCES if other != method]
            away = answers[method].away(others) if method in answers else (np.inf, 0)
            agreed[method] += agrees(away)
            mark = "" if agrees(away) else "**"
            cells.append(f"{mark}{away[0]:.3g}, {away[1]}{mark}" if np.isfinite(away[0]) else "-")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print(f"| agrees on, of {len(names)} | {' | '.join(str(n) for n in agreed.values())} |")


if __name__ == "__main__":
    main()

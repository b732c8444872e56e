"""Planted linear tables: the default regressor against least squares on the good rows, and R.

    python -m benchmarks.planted                    the designs that rules were chosen on
    python -m benchmarks.planted --aside            those kept aside
    python -m benchmarks.planted --only "200 x 5" --anew

Standard normal features, coefficients and noise; a share of the rows is wrong: scattered (targets
off by 10 N(0, 1)), shifted (by 10), clustered (targets 30 + N(0, 1)), near (10 + N(0, 1)), leverage
(features 10 + N(0, 1)/2, targets off by 30). Root mean square error of the slopes over that of
least squares on the good rows alone, which nobody knows; then CPU seconds a fit, and the share of
good rows that are flagged and of bad rows that are not. Every fit is kept in
benchmarks/results/planted.csv and not done again unless asked for.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.robustbase import available, fit_in_r
from proxlin import RobustRegressor

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent / "results"
R_METHODS = ("MM", "KS2014", "LTS")
_ROWS = 40_000  # over all tables of a design, within these bounds
_FEWEST, _MOST = 4, 40


@dataclass(frozen=True)
class Design:
    """One kind of table."""

    n: int
    features: int
    share: float = 0.0
    kind: str = "none"
    noise: str = "normal"  # or "t3", "laplace"
    correlated: bool = False

    def __str__(self) -> str:
        wrong = f"{self.share:.0%} {self.kind}" if self.share else "none"
        extra = ("" if self.noise == "normal" else f", {self.noise} noise") + (
            ", correlated" if self.correlated else ""
        )
        return f"{self.n} x {self.features}, {wrong}{extra}"

    @property
    def tables(self) -> int:
        """How many of them are fitted."""
        return int(np.clip(_ROWS // self.n, _FEWEST, _MOST))

    def table(self, seed: int) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
        """Features, target, slopes, which rows are wrong."""
        rng = np.random.default_rng([seed, self.n, self.features])
        x = rng.normal(size=(self.n, self.features))
        if self.correlated:
            x = x + 2.0 * rng.normal(size=(self.n, 1))
        coef = rng.normal(size=self.features)
        noise = {
            "normal": rng.normal(size=self.n),
            "t3": rng.standard_t(3, size=self.n),
            "laplace": rng.laplace(size=self.n),
        }[self.noise]
        y = x @ coef + noise
        bad = np.arange(self.n) < round(self.share * self.n)
        count = int(bad.sum())
        if self.kind == "scattered":
            y[bad] += 10.0 * rng.normal(size=count)
        elif self.kind == "shifted":
            y[bad] += 10.0
        elif self.kind == "clustered":
            y[bad] = 30.0 + rng.normal(size=count)
        elif self.kind == "near":
            y[bad] = 10.0 + rng.normal(size=count)
        elif self.kind == "leverage":
            x[bad] = 10.0 + 0.5 * rng.normal(size=(count, self.features))
            y[bad] = x[bad] @ coef + 30.0 + 0.5 * rng.normal(size=count)
        return x, y, coef, bad


DESIGNS = (
    Design(200, 5),
    Design(50, 15),
    Design(100, 30),
    Design(400, 20),
    Design(200, 5, 0.3, "scattered"),
    Design(200, 5, 0.4, "clustered"),
    Design(200, 5, 0.4, "near"),
    Design(200, 5, 0.3, "leverage"),
    Design(100, 30, 0.2, "scattered"),
    Design(60, 20, 0.2, "clustered"),
    Design(20, 3, 0.2, "clustered"),
    Design(20, 3, 0.2, "scattered"),
    Design(200, 100, 0.3, "clustered"),
    Design(1000, 10, 0.1, "shifted"),
    Design(10_000, 10, 0.4, "clustered"),
    Design(10_000, 10, 0.4, "near"),
    Design(10_000, 10, 0.3, "leverage"),
    Design(300, 8, noise="t3"),
)
ASIDE = (
    Design(40, 4),
    Design(250, 80),
    Design(2000, 6),
    Design(30, 2, 0.3, "clustered"),
    Design(80, 8, 0.25, "clustered"),
    Design(80, 8, 0.4, "shifted"),
    Design(150, 40, 0.15, "shifted"),
    Design(500, 60, 0.35, "scattered"),
    Design(120, 12, 0.3, "leverage", correlated=True),
    Design(700, 15, 0.4, "near", correlated=True),
    Design(3000, 30, 0.45, "clustered"),
    Design(3000, 30, 0.2, "scattered", noise="laplace"),
    Design(600, 10, 0.1, "shifted", noise="t3"),
    Design(20_000, 20, 0.4, "leverage"),
)


def least_squares(x: Array, y: Array) -> Array:
    """Slopes beside an intercept."""
    design = np.column_stack([np.ones(len(x)), x])
    return np.asarray(np.linalg.lstsq(design, y, rcond=None)[0][1:], dtype=np.float64)


def measure(design: Design, seeds: list[int], methods: list[str]) -> list[dict[Any, Any]]:
    """One record for each table and method."""
    tables = {seed: design.table(seed) for seed in seeds}
    records: list[dict[Any, Any]] = []

    def note(seed: int, method: str, slopes: Array, seconds: float, **more: float) -> None:
        miss = float(((slopes - tables[seed][2]) ** 2).mean())
        records.append(
            {"design": str(design), "seed": seed, "method": method, "square": miss,
             "seconds": seconds, **more}
        )  # fmt: skip

    for seed, (x, y, _, bad) in tables.items():
        if "good rows" in methods:
            note(seed, "good rows", least_squares(x[~bad], y[~bad]), 0.0)
        if "proxlin" in methods:
            began = time.process_time()
            model = RobustRegressor().fit(x, y)
            seconds = time.process_time() - began
            missed = 1.0 - model.outliers_[bad].mean() if bad.any() else np.nan
            note(seed, "proxlin", model.coef_, seconds,
                 false=model.outliers_[~bad].mean(), missed=missed)  # fmt: skip
    in_r = [method for method in methods if method in R_METHODS]
    if in_r and tables:
        named = {str(seed): (x, y) for seed, (x, y, _, _) in tables.items()}
        for (name, method), (values, seconds) in fit_in_r(named, in_r).items():
            note(int(name), method, values[1:], seconds)
    return records


def shown(records: pd.DataFrame) -> pd.DataFrame:
    """Root mean square errors over those of the good rows; seconds, false and missed flags."""
    squares = records.pivot_table(index="design", columns="method", values="square", sort=False)
    ratio: pd.DataFrame = (squares.div(squares["good rows"], axis=0) ** 0.5).round(2)
    ratio["good rows"] = (squares["good rows"] ** 0.5).round(4)
    seconds = records.pivot_table(index="design", columns="method", values="seconds", sort=False)
    for name in ("proxlin", "LTS", "KS2014"):
        if name in seconds:
            ratio[f"{name} s"] = seconds[name].round(2)
    flags = records[records["method"] == "proxlin"].groupby("design", sort=False)
    ratio["false %"] = (100 * flags["false"].mean()).round(2)
    ratio["missed %"] = (100 * flags["missed"].mean()).round(1)
    return ratio


def main(arguments: list[str] | None = None) -> None:
    """Measure what is not known yet, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--aside", action="store_true", help="the designs kept aside")
    parser.add_argument("--only", default="", help="designs whose name begins so")
    parser.add_argument("--anew", action="store_true", help="fit ours again")
    parser.add_argument("--fewer", type=int, default=1, help="a part of the tables only")
    parser.add_argument("--no-r", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    path = options.out / ("planted-aside.csv" if options.aside else "planted.csv")
    records = pd.read_csv(path).to_dict("records") if path.exists() else []
    methods = ["good rows", "proxlin"]
    if available() and not options.no_r:
        methods += R_METHODS
    chosen = [d for d in (ASIDE if options.aside else DESIGNS) if str(d).startswith(options.only)]
    names = [str(design) for design in chosen]
    if options.anew:
        records = [r for r in records if r["method"] != "proxlin" or r["design"] not in names]
    for design in chosen:
        seeds = range(max(2, design.tables // options.fewer))
        for method_group in (["good rows", "proxlin"], methods[2:]):
            known = {
                r["seed"] for r in records
                if r["design"] == str(design) and r["method"] in method_group[-1:]
            }  # fmt: skip
            left = [seed for seed in seeds if seed not in known]
            if left and method_group:
                if method_group[0] == "good rows":
                    records = [
                        r for r in records
                        if not (r["design"] == str(design) and r["method"] == "good rows"
                                and r["seed"] in left)
                    ]  # fmt: skip
                records += measure(design, left, method_group)
                options.out.mkdir(exist_ok=True)
                pd.DataFrame(records).to_csv(path, index=False)
    table = shown(pd.DataFrame([r for r in records if r["design"] in names]))
    Console(width=200).print(table.reindex(names).to_string(), highlight=False)


if __name__ == "__main__":
    main()

"""`proxlin fit` by its defaults on everyday tables, clean and dirty, beside what people use.

    PROXLIN_DATA=... python -m benchmarks.fit --rows 1500 --splits 1

Each table is split 70/30. Only the training rows are made dirty: a share of the targets times ten,
permuted, or moved to one place, or a share of the feature cells replaced. The mean absolute error
is taken on the clean held-out rows, as a share of the best method's. What is printed is saved as
CSV, one line for each run; runs that the file has are not repeated.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import HuberRegressor, RidgeCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from proxlin.app.tabular import FitSettings, fit_table

Vector = NDArray[np.float64]

FILES = {  # file and target; columns that give the target away or number the rows
    "openintro-ames": ("price", ("rownames", "Order", "PID")),
    "Ecdat-Computers": ("price", ("rownames",)),
    "modeldata-concrete": ("compressive_strength", ("rownames",)),
    "modeldata-car_prices": ("Price", ("rownames",)),
    "modeldata-deliveries": ("time_to_delivery", ("rownames",)),
    "ISLR-College": ("Apps", ("rownames",)),
    "AER-CPS1988": ("wage", ("rownames",)),
    "modeldata-Sacramento": ("price", ("rownames",)),
    "ISLR-Wage": ("wage", ("rownames", "logwage")),
    "openintro-births14": ("weight", ("rownames",)),
}
CONDITIONS = (
    ("clean", 0.0),
    *((kind, x) for kind in ("times ten", "permuted", "clustered") for x in (0.1, 0.2, 0.4)),
    ("cells", 0.1),
)
OURS = "proxlin fit"


def tables() -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Name, frame and target of each table."""
    folder = Path(os.environ.get("PROXLIN_DATA", ".")) / "tables"
    for name, (target, dropped) in FILES.items():
        path = folder / f"{name}.csv.gz"
        if path.is_file():
            frame = pd.read_csv(path).drop(columns=list(dropped), errors="ignore")
            yield name.split("-")[1], frame[frame[target].notna()].reset_index(drop=True), target
        else:
            print(f"skipped: {path} does not exist.")
    diabetes = datasets.load_diabetes(as_frame=True, scaled=False).frame
    yield "diabetes", diabetes, "target"
    cancer = datasets.load_breast_cancer(as_frame=True).data
    yield "cell area", cancer[[c for c in cancer if c.startswith("mean")]], "mean smoothness"
    wine = datasets.load_wine(as_frame=True).data
    yield "wine", wine, "color_intensity"
    for number, make in enumerate((datasets.make_friedman1, datasets.make_friedman2)):
        x, y = make(n_samples=1500, noise=(1.0, 100.0)[number], random_state=0)
        frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(x.shape[1])])
        yield f"friedman{number + 1}", frame.assign(y=y), "y"


def make_dirty(
    frame: pd.DataFrame, target: str, kind: str, share: float, generator: np.random.Generator
) -> pd.DataFrame:
    """A copy with that share of the targets, or of the feature cells, wrong."""
    dirty, n = frame.copy(), len(frame)
    if kind == "cells":
        for name in frame.columns.drop(target):
            rows = generator.choice(n, round(share * n), replace=False)
            if pd.api.types.is_numeric_dtype(frame[name]):
                values = frame[name].to_numpy(dtype=float, copy=True)
                values[rows] = values[rows] * 10 + np.nanstd(values)
                dirty[name] = values
            else:
                dirty.loc[rows, name] = generator.permutation(frame[name].to_numpy())[rows]
        return dirty
    rows = generator.choice(n, round(share * n), replace=False)
    y = frame[target].to_numpy(dtype=float, copy=True)
    if kind == "times ten":
        y[rows] *= 10
    elif kind == "permuted":
        y[rows] = y[generator.permutation(rows)]
    elif kind == "clustered":
        low, middle, high = np.quantile(y, (0.25, 0.5, 0.75))
        y[rows] = middle + (high - low) * (5 + 0.2 * generator.normal(size=len(rows)))
    return dirty.assign(**{target: y})


def rivals(x: pd.DataFrame, seed: int) -> dict[str, Callable[[], object]]:
    """What people use, each with the preparation that it needs and otherwise its defaults."""
    numbers = [name for name in x if pd.api.types.is_numeric_dtype(x[name])]
    texts = [name for name in x if name not in numbers]
    levels = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=3, sparse_output=False
    )
    median = SimpleImputer(strategy="median")
    scaled = make_column_transformer(
        (make_pipeline(median, StandardScaler()), numbers), (levels, texts)
    )
    plain = make_column_transformer((median, numbers), (levels, texts))
    codes = make_column_transformer(
        ("passthrough", numbers),
        (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan,
                        max_categories=255), texts),
    )  # fmt: skip
    coded = {"categorical_features": list(range(len(numbers), x.shape[1])), "random_state": seed}

    def own_units(line: object) -> TransformedTargetRegressor:
        return TransformedTargetRegressor(line, transformer=StandardScaler())

    boosting = HistGradientBoostingRegressor
    return {
        "boosting, absolute": lambda: make_pipeline(
            codes, boosting(loss="absolute_error", **coded)
        ),
        "boosting, squared": lambda: make_pipeline(codes, boosting(**coded)),
        "random forest": lambda: make_pipeline(plain, RandomForestRegressor(random_state=seed)),
        "Huber": lambda: make_pipeline(scaled, own_units(HuberRegressor(max_iter=1000))),
        "ridge": lambda: make_pipeline(scaled, RidgeCV(np.logspace(-3, 3, 13))),
        "MLP": lambda: make_pipeline(
            scaled, own_units(MLPRegressor(early_stopping=True, max_iter=500, random_state=seed))
        ),
    }


def run(method: str, train: pd.DataFrame, test: pd.DataFrame, target: str, seed: int) -> Vector:
    """Predictions for the test rows."""
    if method.startswith(OURS):
        model = method.removeprefix(OURS).strip() or None
        settings = FitSettings(targets=(target,), model=model, test_share=0.0, seed=seed)
        ours = fit_table(train, settings).model.predict(test.drop(columns=target))
        return ours[target].to_numpy()
    x = train.drop(columns=target)
    fitted = rivals(x, seed)[method]().fit(x, train[target])  # type: ignore[attr-defined]
    answers: Vector = fitted.predict(test.drop(columns=target))
    return answers


def standings(results: pd.DataFrame) -> pd.DataFrame:
    """For each condition and method: mean share of the best error, mean rank, mean seconds."""
    errors = results.pivot_table("error", ["kind", "share", "table"], "method").dropna(axis=1)
    shares = errors.div(errors.min(axis=1), axis=0)
    seconds = results.pivot_table("seconds", ["kind", "share"], "method")
    parts = {
        "of the best": shares.groupby(["kind", "share"]).mean(),
        "rank": errors.rank(axis=1).groupby(["kind", "share"]).mean(),
        "seconds": seconds[errors.columns],
    }
    return pd.DataFrame(pd.concat(parts, axis=1).stack(level=1, future_stack=True))


def main() -> None:
    """Run what is asked for, and print the standings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000, help="at most, of each table")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--tables", help="some of them, separated by commas")
    parser.add_argument("--methods", help="some of them, separated by semicolons")
    parser.add_argument("--conditions", help="such as clean,permuted 0.2")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/fit.csv"))
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    done = pd.read_csv(asked.out).to_dict("records") if asked.out.is_file() else []
    keys = ("table", "kind", "share", "split", "method")
    seen = {tuple(record[key] for key in keys) for record in done}
    wanted = [
        (kind, share)
        for kind, share in CONDITIONS
        if asked.conditions is None
        or {kind, f"{kind} {share:g}"} & {c.strip() for c in asked.conditions.split(",")}
    ]
    for name, frame, target in tables():
        if asked.tables is not None and name not in asked.tables.split(","):
            continue
        methods = [OURS, *rivals(frame.drop(columns=target), 0)]
        for split in range(asked.splits):
            generator = np.random.default_rng(split)
            order = generator.permutation(len(frame))[: asked.rows]
            cut = round(0.7 * len(order))
            train, test = (
                frame.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:])
            )
            for kind, share in wanted:
                dirty = make_dirty(train, target, kind, share, np.random.default_rng(split + 1))
                for method in asked.methods.split(";") if asked.methods else methods:
                    if (name, kind, share, split, method) in seen:
                        continue
                    began = time.process_time()
                    answers = run(method, dirty, test, target, split)
                    error = float(np.abs(answers - test[target].to_numpy()).mean())
                    seconds = time.process_time() - began
                    record = (name, kind, share, split, method, error, seconds)
                    done.append(dict(zip((*keys, "error", "seconds"), record, strict=True)))
                    print(*record, flush=True)
                asked.out.parent.mkdir(parents=True, exist_ok=True)
                pd.DataFrame(done).to_csv(asked.out, index=False)
    print(standings(pd.DataFrame(done)).round(3).to_string())


if __name__ == "__main__":
    main()

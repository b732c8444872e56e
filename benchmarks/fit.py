"""`proxlin fit` by its defaults on everyday tables, clean and dirty, beside what people use.

    PROXLIN_DATA=... python -m benchmarks.fit
    python -m benchmarks.fit --aside --out benchmarks/results/fit-aside.csv

Of each table at most `--rows` rows are drawn and split 70/30, tables with fewer than 600 rows three
times over at least. Only the training rows are made
dirty: a share of the targets times ten, permuted, or moved to one place, or a share of the feature
cells replaced. The mean absolute error is taken on the clean held-out rows. One line for each run
is saved as CSV; runs that the file has are not repeated. The standings are printed and saved beside
it as Markdown, with every table on which ours is more than 10 % behind the best rival.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import HuberRegressor, RidgeCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from benchmarks.fit_tables import CONDITIONS, make_dirty, tables, tables_aside
from proxlin.app.tabular import FitSettings, fit_table

Vector = NDArray[np.float64]

OURS = "proxlin fit"
_SMALL, _SPLITS_OF_SMALL = 600, 3  # rows of which a single split is a matter of luck
BEHIND = 1.1  # times the best rival's error, beyond which a run is listed


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
    """For each condition and method: mean error over the best rival's, mean rank, seconds."""
    errors = _errors(results)
    ratios = errors.div(errors.drop(columns=OURS).min(axis=1), axis=0)
    order = list(dict.fromkeys((kind, share) for kind, share, _ in errors.index))
    parts = {
        "over the best rival": ratios.groupby(["kind", "share"]).mean(),
        "rank": errors.rank(axis=1).groupby(["kind", "share"]).mean(),
    }
    frame = pd.concat(parts, axis=1).loc[order]
    frame.index = [f"{kind} {share:.0%}" if share else kind for kind, share in order]
    return pd.DataFrame(frame)


def overall(results: pd.DataFrame) -> pd.DataFrame:
    """For each method: geometric mean over the best rival, on clean and on dirty rows; seconds."""
    errors = _errors(results)
    logs = errors.div(errors.drop(columns=OURS).min(axis=1), axis=0).apply(np.log)
    clean = errors.index.get_level_values("kind") == "clean"
    ranks = errors.rank(axis=1)
    return pd.DataFrame(
        {
            "clean, over the best rival": np.exp(logs[clean].mean()),
            "dirty, over the best rival": np.exp(logs[~clean].mean()),
            "rank, clean": ranks[clean].mean(),
            "rank, dirty": ranks[~clean].mean(),
            "seconds": results.groupby("method")["seconds"].mean()[errors.columns],
        }
    )


def behind(results: pd.DataFrame) -> pd.DataFrame:
    """Every table and condition in which ours is far behind the best rival."""
    errors = _errors(results)
    rivals_only = errors.drop(columns=OURS)
    ratio = errors[OURS] / rivals_only.min(axis=1)
    found = pd.DataFrame({"over": ratio, "rival": rivals_only.idxmin(axis=1)})[ratio > BEHIND]
    return found.sort_values("over", ascending=False).reset_index()


def _errors(results: pd.DataFrame) -> pd.DataFrame:
    """(condition and table, method), the mean over splits; only where every method has run."""
    keys = ["kind", "share", "table"]
    return results.pivot_table("error", keys, "method", sort=False).dropna()


def _markdown(frame: pd.DataFrame) -> str:
    lines = [
        "| " + " | ".join(["", *map(str, frame.columns)]) + " |",
        "| " + " | ".join(["---"] * (frame.shape[1] + 1)) + " |",
    ]
    for name, row in zip(frame.index, frame.to_numpy(object), strict=True):
        cells = [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row]
        lines.append("| " + " | ".join([str(name), *cells]) + " |")
    return "\n".join(lines)


def summary(results: pd.DataFrame) -> str:
    """The standings as Markdown."""
    frame, names = standings(results), list(results["table"].unique())
    parts = [
        f"{len(names)} tables: {', '.join(names)}.",
        "All conditions:",
        _markdown(overall(results)),
    ]
    for figure in ("over the best rival", "rank"):
        parts += [f"Mean {figure}:", _markdown(pd.DataFrame(frame[figure]))]
    parts += [f"Ours beyond {BEHIND:g} times the best rival:", _markdown(behind(results))]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run what is asked for, and print the standings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000, help="at most, of each table")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--tables", help="some of them, separated by commas")
    parser.add_argument("--aside", action="store_true", help="the tables kept aside")
    parser.add_argument("--methods", help="some of them, separated by semicolons")
    parser.add_argument("--conditions", help="such as clean,permuted 0.2")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/fit.csv"))
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    done = pd.read_csv(asked.out).to_dict("records") if asked.out.is_file() else []
    keys = ("table", "kind", "share", "rows", "split", "method")
    seen = {tuple(record[key] for key in keys) for record in done}
    wanted = [
        (kind, share)
        for kind, share in CONDITIONS
        if asked.conditions is None
        or {kind, f"{kind} {share:g}"} & {c.strip() for c in asked.conditions.split(",")}
    ]
    for name, frame, target in tables_aside() if asked.aside else tables():
        if asked.tables is not None and name not in asked.tables.split(","):
            continue
        methods = [OURS, *rivals(frame.drop(columns=target), 0)]
        for split in range(max(asked.splits, _SPLITS_OF_SMALL if len(frame) < _SMALL else 1)):
            generator = np.random.default_rng(split)
            order = generator.permutation(len(frame))[: asked.rows]
            cut = round(0.7 * len(order))
            train, test = (
                frame.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:])
            )
            for kind, share in wanted:
                dirty = make_dirty(train, target, kind, share, np.random.default_rng(split + 1))
                for method in asked.methods.split(";") if asked.methods else methods:
                    if (name, kind, share, asked.rows, split, method) in seen:
                        continue
                    began = time.process_time()
                    answers = run(method, dirty, test, target, split)
                    error = float(np.abs(answers - test[target].to_numpy()).mean())
                    seconds = round(time.process_time() - began, 3)
                    record = (name, kind, share, asked.rows, split, method, error, seconds)
                    done.append(dict(zip((*keys, "error", "seconds"), record, strict=True)))
                    print(*record, flush=True)
                asked.out.parent.mkdir(parents=True, exist_ok=True)
                pd.DataFrame(done).to_csv(asked.out, index=False)
    text = summary(pd.DataFrame(done))
    asked.out.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()

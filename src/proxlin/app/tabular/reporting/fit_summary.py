"""What is measured of a fit, and the files that it leaves: model, metrics, predictions, report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from proxlin.app.tabular.fitting import Fitted
from proxlin.app.tabular.model import Judgement, Misfit
from proxlin.app.tabular.reading.write import as_csv
from proxlin.app.tabular.reporting.caveats import caveats
from proxlin.app.tabular.reporting.yardsticks import ColumnError, measure
from proxlin.app.tabular.storage.model_file import model_files, model_state, package_versions
from proxlin.estimators.families.folds import rank_agreement
from proxlin.estimators.families.table_regressor import TableRegressor
from proxlin.estimators.tables import Indices, Matrix
from proxlin.run.storage import json_values

WORST = 20  # rows that the report shows

_SHUFFLED_ROWS, _MOST_SHUFFLED = 500, 100  # rows and columns for importances
_LIKELIEST = 30  # of more columns


@dataclass(frozen=True, eq=False)
class FitSummary:
    """A fit and everything that is measured of it."""

    fitted: Fitted
    errors: list[ColumnError]
    trained: Judgement  # of the training rows
    tested: Judgement  # of the test rows
    worst: list[Misfit]  # training rows that fit worst, by their numbers in the file
    source: str  # the table as the user named it
    metrics: dict[str, Any]

    @classmethod
    def of(cls, fitted: Fitted, source: str) -> FitSummary:
        """Measure errors on the test rows and find the training rows that fit worst."""
        model = fitted.tested
        errors = measure(fitted)
        trained = tested = model.judge_training(fitted.train.encoded, fitted.train.targets)
        if fitted.test is not fitted.train:
            tested = model.judge_encoded(fitted.test.encoded, fitted.test.targets)
        metrics = {
            "table": source,
            "targets": model.target_names,
            **_figures(fitted, errors, trained, tested),
            "importances": importances(fitted, tested),
            "caveats": caveats(fitted, errors, trained, tested),
            "settings": _settings(fitted),
            "versions": package_versions(),
        }
        return cls(
            fitted,
            errors,
            trained,
            tested,
            _worst(fitted, trained),
            source,
            json_values(metrics, infinity=True),
        )

    def predictions(self) -> pd.DataFrame:
        """The test rows: number, targets, predictions, residuals, score and verdict."""
        test, model = self.fitted.test, self.fitted.tested
        columns: dict[str, Any] = {"row": test.rows}
        if model.target_names:
            answer = self.fitted.test_answers
            for number, name in enumerate(model.target_names):
                truth = test.targets[:, number]
                parts = {name: truth, f"predicted {name}": answer[:, number]}
                parts[f"residual {name}"] = truth - answer[:, number]
                columns |= {_unlike(heading, columns): part for heading, part in parts.items()}
        columns["outlier score"] = self.tested.scores
        columns["outlier"] = np.where(self.tested.flags, "yes", "no")
        return pd.DataFrame(columns)

    def files(self, report: str) -> dict[str, bytes]:
        """Name and content of every file of the model folder."""
        text = json.dumps(self.metrics, indent=1, allow_nan=False)
        return {
            **model_files(self.fitted.model),
            "metrics.json": text.encode(),
            "predictions.csv": as_csv(self.predictions()),
            "report.html": report.encode(),
        }


def importances(fitted: Fitted, judged: Judgement) -> dict[str, float]:
    """By how much the mean error of good test rows grows when a column is shuffled, as a share.

    Sorted, the most important column first; of more than 100 columns only the 30 are looked at
    whose ranks go best with a target.
    """
    model, good = fitted.tested, np.flatnonzero(~judged.flags)[:_SHUFFLED_ROWS]
    if not model.target_names or len(good) < 2:
        return {}
    x, truth = fitted.test.encoded[good], fitted.test.targets[good]
    sizes = np.array([target.scale for target in model.encoding.targets])

    def error(rows: Matrix) -> float:
        return float((np.abs(model.answers(rows) - truth) / sizes).mean())

    before, grown = error(x), {}
    owners = np.array(model.encoding.owners)
    order = np.random.default_rng(fitted.settings.seed).permutation(len(x))
    for number in _likely(fitted, owners):
        changed = x.copy()
        changed[:, owners == number] = x[order][:, owners == number]
        grown[model.encoding.features[number].name] = error(changed) / max(before, 1e-300) - 1
    return dict(sorted(grown.items(), key=lambda item: -item[1]))


def _likely(fitted: Fitted, owners: Indices) -> Indices:
    """The numbers of the columns that are shuffled."""
    count = len(fitted.tested.encoding.features)
    if count <= _MOST_SHUFFLED:
        return np.arange(count)
    rows = slice(None, _SHUFFLED_ROWS)
    agreement = rank_agreement(fitted.train.encoded[rows], fitted.train.targets[rows])
    best = owners[np.argsort(-agreement, kind="stable")]
    return best[np.sort(np.unique(best, return_index=True)[1])][:_LIKELIEST]


def _figures(
    fitted: Fitted, errors: list[ColumnError], train: Judgement, test: Judgement
) -> dict[str, Any]:
    """The figures of a fit as plain values."""
    result = fitted.tested.estimator.result_
    estimator = fitted.tested.estimator
    chosen = estimator.figures if isinstance(estimator, TableRegressor) else []
    families = [asdict(figures) for figures in chosen]
    return {
        "tested_on": fitted.tested_on,
        "training_rows": len(fitted.train.rows),
        "test_rows": len(fitted.test.rows),
        "encoded_columns": fitted.model.encoding.labels,
        "outliers": {
            "training_rows": int(train.flags.sum()),
            "training_share": float(train.flags.mean()),
            "test_rows": int(test.flags.sum()),
            "cutoff": fitted.model.scale.cutoff,
        },
        "errors": [asdict(error) for error in errors],
        "solver": {
            "status": str(result.status),
            "objective": result.objective,
            "iterations": result.iterations,
            "seconds": result.seconds,
        },
        "families": families,
        "notes": list(fitted.notes),
    }


def _unlike(heading: str, taken: Mapping[str, Any]) -> str:
    """The heading, or another if a target is called like a column of ours."""
    while heading in taken or heading in ("outlier score", "outlier"):
        heading += " (target)"
    return heading


def _settings(fitted: Fitted) -> dict[str, Any]:
    """What was asked for, and what the estimator made of it."""
    values, _ = model_state(fitted.model.estimator)
    given = {**vars(fitted.settings), "checkpoint": None}  # a folder of this machine alone
    asked = {name: value for name, value in given.items() if value is not None}
    return {**asked, "model": fitted.settings.kind, "estimator": values.get("settings", {})}


def _worst(fitted: Fitted, judged: Judgement) -> list[Misfit]:
    train, model = fitted.train, fitted.tested
    places = judged.worst(WORST)
    misfits = model.explain(train.frame, places, judged)
    return [
        Misfit(int(train.rows[place]), misfit.score, misfit.outlier, misfit.cells)
        for place, misfit in zip(places, misfits, strict=True)
    ]

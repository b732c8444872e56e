"""The files that a fit leaves: model, metrics, predictions and report."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from proxlin.app.tabular.caveats import doubts
from proxlin.app.tabular.fitting import Fitted
from proxlin.app.tabular.measures import Error, measure, summary
from proxlin.app.tabular.model import Judgement, Misfit
from proxlin.app.tabular.saved import model_files, versions
from proxlin.app.tabular.spreadsheet import as_csv
from proxlin.estimators.state import estimator_state

WORST = 20  # rows that the report shows


@dataclass(frozen=True, eq=False)
class Outcome:
    """A fit and everything that is measured of it."""

    fitted: Fitted
    errors: list[Error]
    trained: Judgement  # of the training rows
    tested: Judgement  # of the test rows
    worst: list[Misfit]  # training rows that fit worst, by their numbers in the file
    source: str  # the table as the user named it
    metrics: dict[str, Any]

    @classmethod
    def of(cls, fitted: Fitted, source: str) -> Outcome:
        """Measure errors on the test rows and find the training rows that fit worst."""
        model = fitted.model
        errors = measure(fitted)
        trained, tested = (
            model.judge_encoded(part.encoded, part.targets) for part in (fitted.train, fitted.test)
        )
        metrics = {
            "table": source,
            "targets": model.target_names,
            **summary(fitted, errors, trained, tested),
            "doubts": doubts(fitted, errors, trained, tested),
            "settings": _settings(fitted),
            "versions": versions(),
        }
        return cls(
            fitted, errors, trained, tested, _worst(fitted, trained), source, _plain(metrics)
        )

    def predictions(self) -> pd.DataFrame:
        """The test rows: number, targets, predictions, residuals, score and verdict."""
        test, model = self.fitted.test, self.fitted.model
        columns: dict[str, Any] = {"row": test.rows}
        if model.target_names:
            found = model.answers(test.encoded)
            for number, name in enumerate(model.target_names):
                truth = test.targets[:, number]
                parts = {name: truth, f"predicted {name}": found[:, number]}
                parts[f"residual {name}"] = truth - found[:, number]
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


def _unlike(heading: str, taken: Mapping[str, Any]) -> str:
    """The heading, or another if a target is called like a column of ours."""
    while heading in taken or heading in ("outlier score", "outlier"):
        heading += " (target)"
    return heading


def _settings(fitted: Fitted) -> dict[str, Any]:
    """What was asked for, and what the estimator made of it."""
    values, _ = estimator_state(fitted.model.estimator)
    given = {**vars(fitted.settings), "checkpoint": None}  # a folder of this machine alone
    asked = {name: value for name, value in given.items() if value is not None}
    return {**asked, "model": fitted.settings.kind, "estimator": values["settings"]}


def _plain(value: Any) -> Any:
    """As JSON has it: tuples as lists, infinity as text, and None where there is no number."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _worst(fitted: Fitted, judged: Judgement) -> list[Misfit]:
    train, model = fitted.train, fitted.model
    places = judged.worst(WORST)
    found = model.explain(train.frame, places, judged)
    return [
        Misfit(int(train.rows[place]), one.score, one.outlier, one.cells)
        for place, one in zip(places, found, strict=True)
    ]

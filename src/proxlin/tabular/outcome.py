"""The files that a fit leaves: model, metrics, predictions and report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from proxlin.tabular.fitting import Fitted, settings_told
from proxlin.tabular.measures import Error, measure, summary
from proxlin.tabular.model import Judgement, Misfit
from proxlin.tabular.saved import model_files, versions
from proxlin.tabular.spreadsheet import as_csv

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
            "settings": settings_told(fitted.settings, model.estimator),
            "versions": versions(),
        }
        return cls(fitted, errors, trained, tested, _worst(fitted, trained), source, metrics)

    def predictions(self) -> pd.DataFrame:
        """The test rows: number, targets, predictions, residuals, score and verdict."""
        test, model = self.fitted.test, self.fitted.model
        columns: dict[str, Any] = {"row": test.rows}
        if model.target_names:
            found = model.answers(test.encoded)
            for number, name in enumerate(model.target_names):
                columns[name if name != "row" else "row (target)"] = test.targets[:, number]
                columns[f"predicted {name}"] = found[:, number]
                columns[f"residual {name}"] = test.targets[:, number] - found[:, number]
        columns["outlier score"] = self.tested.scores
        columns["outlier"] = np.where(self.tested.flags, "yes", "no")
        return pd.DataFrame(columns)

    def files(self, report: str) -> dict[str, bytes]:
        """Name and content of every file of the model folder."""
        text = json.dumps(self.metrics, indent=1, allow_nan=False, default=str)
        return {
            **model_files(self.fitted.model),
            "metrics.json": text.encode(),
            "predictions.csv": as_csv(self.predictions()),
            "report.html": report.encode(),
        }


def _worst(fitted: Fitted, judged: Judgement) -> list[Misfit]:
    train, model = fitted.train, fitted.model
    places = judged.worst(WORST)
    found = model.explain(train.frame, places, judged)
    return [
        Misfit(int(train.rows[place]), one.score, one.outlier, one.cells)
        for place, one in zip(places, found, strict=True)
    ]

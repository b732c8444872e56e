"""The diagnostics of a fit: the drawings of `RobustRegressor.diagnostics` for any table model."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedFormatter

from proxlin.app.tabular.reporting.fit_summary import FitSummary
from proxlin.estimators import RobustRegressor
from proxlin.estimators.inference.diagnostics import diagnose, panels
from proxlin.estimators.robust_scale import INNER
from proxlin.report.drawing import panel, plain_ticks
from proxlin.report.parts import Picture

_MOST_TARGETS = 2
_COLUMNS = 200  # of features, whose distances are taken
_ROWS = 20_000


def diagnostics(summary: FitSummary) -> Picture:
    """Residuals, the four fields, and for a linear model weights and influence."""
    figures = []
    for number, column in enumerate(summary.fitted.tested.encoding.targets[:_MOST_TARGETS]):
        for draw in panels(_rows(summary, number), INNER):
            figure, axes = panel()
            draw(axes)
            named = isinstance(axes.xaxis.get_major_formatter(), FixedFormatter)
            plain_ticks(*([] if named else [axes.xaxis]), axes.yaxis)
            if len(summary.fitted.tested.encoding.targets) > 1:
                axes.set_title(f"{column.name[:30]}: {axes.get_title()}", fontsize=10)
            figures.append(figure)
    return Picture(
        figures,
        "Training rows by members that had not seen them, where there are any. Good: within 2.75"
        " deviations and in the bulk of the features. Far: features far out, and the target as"
        " predicted. Outlier: a target that is not. Bad far: both; least squares would follow."
        " A linear model also shows what each row counted, and by how many standard errors it has"
        " moved the coefficients it moved most.",
        alt="Residuals over predictions, and over the distance of the features.",
    )


def _rows(summary: FitSummary, target: int) -> pd.DataFrame:
    model, train = summary.fitted.tested, summary.fitted.train
    some = np.arange(len(train.encoded))
    if len(some) > _ROWS:
        some = np.random.default_rng(0).choice(some, _ROWS, replace=False)
    fitted = model.training_answers(train.encoded)[:, target]
    column = model.encoding.targets[target]  # on a log scale, errors of any size are alike there
    residual = column.scaled(train.targets[:, target]) - column.scaled(fitted)
    known = some[np.isfinite(residual[some])]
    rows = diagnose(train.encoded[known, :_COLUMNS], fitted[known], residual[known])
    line = model.estimator
    if isinstance(line, RobustRegressor) and line.chosen_ == "linear" and len(rows) == len(some):
        scaled = model.encoding.scale_targets(train.targets)
        own = line.row_diagnostics(target, train.encoded, scaled).iloc[known]
        labels = {f"influence of x{j}": f"influence of {label}"
                  for j, label in enumerate(model.encoding.labels)}  # fmt: skip
        own = own.filter(regex="^(weight|influence of)").rename(columns=labels)
        rows = pd.concat([rows, own.reset_index(drop=True)], axis=1)
    rows.index = pd.Index(np.asarray(train.rows)[known])
    return rows

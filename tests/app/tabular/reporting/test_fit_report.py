import re

import numpy as np
import pandas as pd
import pytest

from proxlin.app.tabular import FitSettings, fit_table
from proxlin.app.tabular.reporting.fit_diagnostics import _rows
from proxlin.app.tabular.reporting.fit_drawings import curves
from proxlin.app.tabular.reporting.fit_report import fit_report, lead
from proxlin.app.tabular.reporting.fit_summary import FitSummary


def outcome_of(targets):
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"x": generator.normal(size=120)})
    for number in range(targets):
        frame[f"y{number}"] = 10**number * (frame["x"] + 0.1 * generator.normal(size=120))
    names = tuple(f"y{number}" for number in range(targets))
    return FitSummary.of(fit_table(frame, FitSettings(targets=names, model="linear")), "t.csv")


def tiles(summary):
    page = fit_report(summary, "proxlin fit t.csv")
    return re.findall(r"median error of (\w+)<", page), "other targets, under" in page


def test_each_of_three_targets_has_a_clause_and_a_tile():
    summary = outcome_of(3)
    told = lead(summary)
    assert re.findall(r"for '(\w+)'", told) == ["y0", "y1", "y2"]
    errors = [float(text) for text in re.findall(r"([\d.]+) for", told)]
    # Each is its own: they grow with the targets.
    assert errors[0] * 5 < errors[1] < errors[2] / 5
    assert "table of errors" not in told
    assert tiles(summary) == (["y0", "y1", "y2"], False)


def test_more_targets_are_counted():
    summary = outcome_of(5)
    assert re.findall(r"for '(\w+)'", lead(summary)) == ["y0", "y1", "y2"]
    assert lead(summary).endswith("and 2 others in the table of errors.")
    assert tiles(summary) == (["y0", "y1", "y2"], True)


def test_curves_are_those_of_the_columns_that_were_used(monkeypatch):
    monkeypatch.setattr("proxlin.estimators.families.family_search._FEWEST_COLUMNS", 2)
    monkeypatch.setattr("proxlin.estimators.families.family_search._MOST_CELLS", 0)
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(150, 5)), columns=list("abcde"))
    frame["y"] = 3 * frame["d"] - 2 * frame["e"] + 0.1 * generator.normal(size=150)
    summary = FitSummary.of(fit_table(frame, FitSettings(targets=("y",))), "t.csv")
    down, up = curves(summary, ["e", "a", "d"]).figures  # 'a' was not used
    for figure, slope in ((down, -2), (up, 3)):
        (line,) = figure.axes[0].lines
        x, y = line.get_data()
        assert (y[-1] - y[0]) / (x[-1] - x[0]) == pytest.approx(slope, rel=0.1)


def test_a_skewed_target_has_the_outliers_of_its_log_scale_in_every_drawing():
    generator = np.random.default_rng(0)
    x = generator.normal(size=300)
    frame = pd.DataFrame({"x": x, "y": np.exp(8 + 1.2 * x + 0.3 * generator.normal(size=300))})
    summary = FitSummary.of(fit_table(frame, FitSettings(targets=("y",))), "t.csv")
    assert summary.fitted.model.encoding.targets[0].log
    assert (_rows(summary, 0)["field"].isin(["good", "far"])).mean() > 0.95


def test_curves_end_where_the_cells_of_their_column_do():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"flag": generator.integers(2, size=150), "x": generator.normal(size=150)})
    frame["y"] = 3 * frame["flag"] + frame["x"] + 0.1 * generator.normal(size=150)
    frame.loc[0, "x"] = 1e9
    summary = FitSummary.of(
        fit_table(frame, FitSettings(targets=("y",), model="additive")), "t.csv"
    )
    drawn = curves(summary, ["flag", "x"]).figures
    flag, x = (figure.axes[0].lines[0].get_xdata() for figure in drawn)
    assert (flag.min(), flag.max()) == (0, 1)
    assert -5 < x.min() < -1 < 1 < x.max() < 20
    page = fit_report(summary, "proxlin fit t.csv")
    assert page.rindex("What was run") < page.index("duality gap")  # folded, for those who ask

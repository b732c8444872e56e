import re

import numpy as np
import pandas as pd

from proxlin.app.tabular import FitSettings, fit_table
from proxlin.app.tabular.fit_report import fit_report, lead
from proxlin.app.tabular.fit_summary import FitSummary


def outcome_of(targets):
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"x": generator.normal(size=120)})
    for number in range(targets):
        frame[f"y{number}"] = 10**number * (frame["x"] + 0.1 * generator.normal(size=120))
    names = tuple(f"y{number}" for number in range(targets))
    return FitSummary.of(fit_table(frame, FitSettings(targets=names)), "t.csv")


def tiles(summary):
    page = fit_report(summary, "proxlin fit t.csv")
    return re.findall(r"median error of (\w+)<", page), "other target(s)" in page


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
    assert lead(summary).endswith("and 2 other(s) in the table of errors.")
    assert tiles(summary) == (["y0", "y1", "y2"], True)

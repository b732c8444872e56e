import re

import numpy as np
import pandas as pd

from proxlin.app.tabular import FitSettings, fit_table
from proxlin.app.tabular.outcome import Outcome
from proxlin.app.tabular.pages import fit_report, lead


def outcome_of(targets):
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"x": generator.normal(size=120)})
    for number in range(targets):
        frame[f"y{number}"] = 10**number * (frame["x"] + 0.1 * generator.normal(size=120))
    names = tuple(f"y{number}" for number in range(targets))
    return Outcome.of(fit_table(frame, FitSettings(targets=names)), "t.csv")


def tiles(outcome):
    page = fit_report(outcome, "proxlin fit t.csv")
    return re.findall(r"median error of (\w+)<", page), "other target(s)" in page


def test_each_of_three_targets_has_a_clause_and_a_tile():
    outcome = outcome_of(3)
    told = lead(outcome)
    assert re.findall(r"for '(\w+)'", told) == ["y0", "y1", "y2"]
    errors = [float(text) for text in re.findall(r"([\d.]+) for", told)]
    # Each is its own: they grow with the targets.
    assert errors[0] * 5 < errors[1] < errors[2] / 5
    assert "table of errors" not in told
    assert tiles(outcome) == (["y0", "y1", "y2"], False)


def test_more_targets_are_counted():
    outcome = outcome_of(5)
    assert re.findall(r"for '(\w+)'", lead(outcome)) == ["y0", "y1", "y2"]
    assert lead(outcome).endswith("and 2 other(s) in the table of errors.")
    assert tiles(outcome) == (["y0", "y1", "y2"], True)

"""Thousands of columns are a matter of seconds, for `fit` and for `outliers`."""

import time

import numpy as np
import pandas as pd
import pytest

from proxlin.app.tabular import FitSettings, fit_table
from proxlin.app.tabular.detection import detect_outliers

pytestmark = pytest.mark.slow
COLUMNS = 3000
MOST = 20  # seconds of the processor, five to ten times what it takes


@pytest.fixture(scope="module")
def table():
    cells = np.random.default_rng(0).normal(size=(60, COLUMNS))
    return pd.DataFrame(cells, columns=[f"c{number}" for number in range(COLUMNS)])


def test_thousands_of_columns_are_fitted(table):
    began = time.process_time()
    fitted = fit_table(table.assign(y=3 * table["c0"] + 1), FitSettings(targets=("y",)))
    assert time.process_time() - began < MOST
    assert np.isfinite(fitted.test_answers).all()


def test_thousands_of_columns_are_searched(table):
    odd = table.copy()
    odd.iloc[7] *= 5
    began = time.process_time()
    found = detect_outliers(odd)
    assert time.process_time() - began < MOST
    assert found.worst(1)[0].row == 8

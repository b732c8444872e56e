"""The figures of Moharrer et al. (2021): Table 1 and the two tables of accuracies, as printed."""

from __future__ import annotations

from importlib.resources import files

import pandas as pd


def table1() -> pd.DataFrame:
    """dataset, outliers, p, method, f_noutl, f_obj, f_test, hours, hours_to_sgd (NaN: N/A)."""
    return _read("table1.csv")


def accuracy() -> pd.DataFrame:
    """dataset, outliers, p ("mse" or a number as text), method, accuracy."""
    return _read("accuracy.csv")


def _read(name: str) -> pd.DataFrame:
    with files(__package__).joinpath(name).open("r", encoding="utf-8") as file:
        return pd.read_csv(file).rename(columns={"outlier_ratio": "outliers"})

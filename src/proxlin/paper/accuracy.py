"""The tables of accuracies (App. G): ours, the paper's of the same name, and the paper's best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from proxlin.paper import published
from proxlin.paper.grid import Cell
from proxlin.paper.store import Record
from proxlin.paper.table1 import KEY, verdicts
from proxlin.report import Field, Figures, Table


def accuracies(cells: Iterable[Cell], records: Mapping[str, Record]) -> pd.DataFrame:
    """One line for each classified cell; p is text, since "mse" is one of them."""
    lines = [
        cell.labels() | {"accuracy": records[cell.name]["accuracy"]}
        for cell in cells
        if cell.name in records
    ]
    return pd.DataFrame(lines, columns=[*KEY, "method", "seed", "accuracy"])


def compare_accuracies(frame: pd.DataFrame, *, comparable: bool = True) -> pd.DataFrame:
    """Means over the seeds beside the highest of the paper's at the same p, and who is better."""
    groups = frame.groupby([*KEY, "method"], sort=False)["accuracy"]
    table = groups.mean().reset_index()
    table["seeds"] = groups.size().to_numpy()
    paper = published.accuracy()
    best = paper.loc[paper.groupby(KEY)["accuracy"].idxmax()]
    best = best.rename(columns={"accuracy": "accuracy_paper", "method": "accuracy_paper_by"})
    table = table.merge(best, on=KEY, how="left")
    # The higher accuracy is the better one.
    table["accuracy_better"] = verdicts(-table["accuracy"], -table["accuracy_paper"], comparable)
    return table


def accuracy_layouts(table: pd.DataFrame, remarks: tuple[str, ...] = ()) -> list[Table]:
    """A table for each data set."""
    methods = list(dict.fromkeys(table["method"]))
    results = []
    for dataset, part in table.groupby("dataset", sort=False):
        rows: list[tuple[Field, ...]] = []
        for (ratio, p), lines in part.groupby(["outliers", "p"], sort=False):
            ours = {str(line["method"]): line for _, line in lines.iterrows()}
            fields = [_field(ours.get(method)) for method in methods]
            rows.append((f"{ratio:g}", _loss(str(p)), *fields, _paper(lines.iloc[0])))
        results.append(
            Table(
                f"{dataset}: test accuracy of a logistic regression on the codes",
                ("outliers", "p", *methods, "paper's best"),
                rows,
                ("Bold figures are above the highest that the paper has for this p.", *remarks),
            )
        )
    return results


def _field(line: pd.Series | None) -> Field:
    if line is None:
        return "–"
    return Figures((f"{line['accuracy']:.4f}",), (line["accuracy_better"] == "ours",))


def _paper(line: pd.Series) -> Field:
    if pd.isna(line["accuracy_paper"]):
        return "–"
    return f"{line['accuracy_paper']:.3f} ({line['accuracy_paper_by']})"


def _loss(p: str) -> str:
    return "squared error" if p == "mse" else f"{float(p):g}"

"""Table 1: F_OBJ, F_NOUTL, F_TEST, T and T* of each method, beside the paper's best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from proxlin.paper import published
from proxlin.paper.cell import figures
from proxlin.paper.grid import Cell
from proxlin.paper.metrics import LOSSES, best_runs, seconds_to_reach
from proxlin.paper.store import Record
from proxlin.report import Field, Figures, Table

KEY = ["dataset", "outliers", "p"]
_TITLES = {"f_obj": "F_OBJ", "f_noutl": "F_NOUTL", "f_test": "F_TEST"}


@dataclass(frozen=True)
class Score:
    """How many of a method's figures are below the lowest that the paper has for them."""

    method: str
    better: int
    compared: int

    def __str__(self) -> str:
        return f"{self.method}: {self.better} of {self.compared} figures beat the paper's best"


def runs(
    cells: Iterable[Cell], records: Mapping[str, Record], exponents: Iterable[float]
) -> pd.DataFrame:
    """One line for each finished cell that `best_runs` picks and each exponent it is measured with.

    `seconds_to_sgd` is T*, NaN where the objective of "sgd" was not reached or not measured.
    """
    lines = []
    for cell in best_runs(cells, records):
        record = records[cell.name]
        measured_with = exponents if cell.p == "mse" else (float(cell.p),)
        lines += [
            {
                **cell.labels(),
                "p": p,
                "variant": cell.method,
                **figures(record, p),
                "seconds": record["seconds"],
                "name": cell.name,
            }
            for p in measured_with
            if str(p) in record["metrics"]
        ]
    columns = [*KEY, "method", "variant", "seed", *LOSSES, "seconds", "name"]
    frame = pd.DataFrame(lines, columns=columns)
    return _with_times(frame, records).drop(columns="name")


def _with_times(frame: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """Add T*: the first evaluation at most the best objective of SGD on the same problem."""
    marks = {
        (line.dataset, line.outliers, line.p, line.seed): line.f_obj
        for line in frame.itertuples()
        if line.method == "sgd"
    }
    times: list[float | None] = []
    for line in frame.itertuples():
        mark = marks.get((line.dataset, line.outliers, line.p, line.seed))
        # A run on squared errors has no history of this objective, and SGD's own T* says nothing.
        if mark is None or line.method in ("mse", "sgd"):
            times.append(None)
        else:
            times.append(seconds_to_reach(records[str(line.name)]["history"], float(str(mark))))
    return frame.assign(seconds_to_sgd=pd.Series(times, index=frame.index, dtype=float))


def compare(frame: pd.DataFrame, *, comparable: bool = True) -> pd.DataFrame:
    """Means over the seeds, each figure beside the lowest of the paper's and who is better.

    A method that missed the objective of "sgd" with one of the seeds has no mean time to it.
    Nobody is better where the runs are not `comparable` with the paper's, being on fewer rows.
    """
    numbers = [*LOSSES, "seconds", "seconds_to_sgd"]
    groups = frame.groupby([*KEY, "method"], sort=False)
    table = groups[numbers].mean()
    table["seeds"] = groups.size()
    always = groups["seconds_to_sgd"].count() == table["seeds"]
    table["seconds_to_sgd"] = table["seconds_to_sgd"].where(always)
    if len(frame) and int(table["seeds"].max()) > 1:
        spread = groups[list(LOSSES)].std()
        table = table.join(spread.add_suffix("_std"))
    table = table.reset_index()
    best = _published_best()
    for loss in LOSSES:
        table = table.merge(best[loss], on=KEY, how="left")
        table[f"{loss}_better"] = verdicts(table[loss], table[f"{loss}_paper"], comparable)
    return table


def verdicts(ours: pd.Series, theirs: pd.Series, comparable: bool) -> list[str | None]:
    """Whose figure is lower, "ours" or "paper"; None where that cannot be said."""
    return [
        None if pd.isna(other) or not comparable else ("ours" if own < other else "paper")
        for own, other in zip(ours, theirs, strict=True)
    ]


def _published_best() -> dict[str, pd.DataFrame]:
    paper = published.table1()
    results = {}
    for loss in LOSSES:
        lowest = paper.loc[paper.groupby(KEY)[loss].idxmin(), [*KEY, loss, "method"]]
        results[loss] = lowest.rename(columns={loss: f"{loss}_paper", "method": f"{loss}_paper_by"})
    return results


def scores(table: pd.DataFrame) -> list[Score]:
    """For each method, how many of its figures beat the paper's best; also of accuracies."""
    results = []
    for method, part in table.groupby("method", sort=False):
        found = part.filter(regex="_better$").to_numpy()
        better, compared = int((found == "ours").sum()), int(pd.notna(found).sum())
        results.append(Score(str(method), better, compared))
    return [score for score in results if score.compared]


def layouts(table: pd.DataFrame, remarks: tuple[str, ...] = ()) -> list[Table]:
    """A table of losses for each data set, then one of times."""
    methods = list(dict.fromkeys(table["method"]))
    shown = " / ".join(_TITLES[loss] for loss in LOSSES)
    results = []
    for dataset, part in table.groupby("dataset", sort=False):
        published_too = bool(part["f_obj_paper"].notna().any())
        rows: list[tuple[Field, ...]] = []
        for key, lines in part.groupby(["outliers", "p"], sort=False):
            ours = {str(line["method"]): line for _, line in lines.iterrows()}
            paper = (_paper(lines),) if published_too else ()
            rows.append((*map(short, key), *(_losses(ours.get(m)) for m in methods), *paper))
        results.append(
            Table(
                f"{dataset}: {shown}",
                ("outliers", "p", *methods, *(("paper's best",) if published_too else ())),
                rows,
                ("Bold figures are below the lowest that the paper has for them.",)
                if published_too
                else (),
            )
        )
    return [*results, _times(table, methods, remarks)]


def _losses(line: pd.Series | None) -> Field:
    if line is None:
        return "–"
    texts = []
    for loss in LOSSES:
        spread = line.get(f"{loss}_std")
        plus = "" if spread is None or pd.isna(spread) else f" ± {spread:.2g}"
        texts.append(f"{line[loss]:.4g}{plus}")
    return Figures(tuple(texts), tuple(line[f"{loss}_better"] == "ours" for loss in LOSSES))


def _paper(lines: pd.DataFrame) -> Field:
    line = lines.iloc[0]
    if pd.isna(line["f_obj_paper"]):
        return "–"
    figures = " / ".join(f"{line[f'{loss}_paper']:.2f}" for loss in LOSSES)
    by = dict.fromkeys(str(line[f"{loss}_paper_by"]) for loss in LOSSES)
    return f"{figures} ({', '.join(by)})"


def _times(table: pd.DataFrame, methods: list[str], remarks: tuple[str, ...]) -> Table:
    paper = published.table1().set_index([*KEY, "method"])
    raced = "sgd" in methods  # otherwise there is no T*
    rows: list[tuple[Field, ...]] = []
    for key, lines in table.groupby(KEY, sort=False):
        ours = {str(line["method"]): line for _, line in lines.iterrows()}
        fields = []
        for method in methods:
            line = ours.get(method)
            hours = paper["hours"].get((*key, method))
            theirs = "" if hours is None else f" (paper {hours:.1f} h)"
            fields.append("–" if line is None else _time(line, raced) + theirs)
        rows.append((*map(short, key), *fields))
    remark = (
        "T, then after the arrow T*, the time until the objective is at most the best of sgd;"
        " NA: not reached, or not with every seed."
    )
    notes = (remark, *remarks) if raced else remarks
    return Table("Training time in seconds", (*KEY, *methods), rows, notes)


def _time(line: pd.Series, raced: bool) -> str:
    total = f"{line['seconds']:.1f}"
    if not raced or line["method"] in ("sgd", "mse"):
        return total
    reached = line["seconds_to_sgd"]
    return total + (" → NA" if pd.isna(reached) else f" → {reached:.1f}")


def short(value: object) -> str:
    """A number without zeros at its end, anything else as text."""
    return f"{value:g}" if isinstance(value, float) else str(value)

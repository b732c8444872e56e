import numpy as np
import pytest
import torch

from proxlin.errors import DataError
from proxlin.paper import experiment_sections
from proxlin.paper.catalog import experiment
from proxlin.paper.experiment_report import command, experiment_report
from proxlin.paper.grid import Cell, Grid
from proxlin.paper.inspection import Inspection, inspect_cell, worst_cells
from proxlin.paper.reproduction import reproduce
from proxlin.paper.runner import Outcome
from proxlin.paper.table1 import compare, runs
from proxlin.paper.workload import workload
from proxlin.report import Picture, Table, Text

DIGITS = experiment(
    "table1", datasets=("digits",), rows=60, steps=4, methods=("sgd", "adam", "mse"),
    outliers=(0.0, 0.2), exponents=(1.0,),
)  # fmt: skip


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    made = reproduce(DIGITS, tmp_path_factory.mktemp("digits"))
    assert isinstance(made.outcome, Outcome)
    return made.outcome.records


def make(records, failures=(), **changes):
    shown, cells = changes.get("experiment", DIGITS), DIGITS.grid.cells()
    comparable = shown.grid.rows is None
    return experiment_report(
        shown,
        cells,
        records,
        table=compare(runs(cells, records, shown.grid.exponents), comparable=comparable),
        scores=[],
        failures=dict(failures),
        remarks=("A remark.",),
    )


def parts(report, kind):
    return [part for section in report.sections for part in section.parts if isinstance(part, kind)]


def test_every_kind_of_evidence_has_its_section(records):
    report = make(records)
    assert [section.title for section in report.sections] == [
        "What was run",
        "Beside the published figures",
        "Convergence",
        "Robustness",
        "Images given back",
        "Losses of single rows",
    ]
    words = [line.get_label() for p in parts(report, Picture) for f in p.figures
             for axis in f.axes for line in axis.get_lines()]  # fmt: skip
    assert {"sgd", "adam", "squared error"} <= set(words)
    assert not any("paper" in word for word in words)  # fewer rows stand alone


def test_nothing_finished_and_everything_failed_is_a_report(records):
    report = make({}, {"digits_outliers0": "it broke."})
    assert [section.title for section in report.sections] == ["What was run"]
    (table,) = parts(report, Table)
    assert table.rows == [("digits_outliers0", "it broke.")]
    assert "0 training runs" in report.lead


def test_missing_data_leave_the_rest(records, monkeypatch):
    def missing(*_):
        raise DataError("no digits here.")

    monkeypatch.setattr(experiment_sections, "inspect_cell", missing)
    report = make(records)
    assert report.sections[-1].title == "Single rows"
    assert "no digits here." in report.sections[-1].parts[0].text
    assert isinstance(report.sections[-1].parts[0], Text)


def test_the_command_says_only_what_differs():
    assert command(experiment("table1")) == "proxlin reproduce table1"
    assert command(DIGITS) == (
        "proxlin reproduce table1 --datasets digits --outliers 0,0.2 --p 1"
        " --methods sgd,adam,mse --steps 4 --rows 60"
    )
    assert command(experiment("fig2", seconds=5.0, seeds=(0, 1))) == (
        "proxlin reproduce fig2 --seeds 0,1 --seconds 5"
    )


def test_the_cells_with_most_outliers_are_looked_at(records):
    found = worst_cells(DIGITS.grid.cells(), records)
    assert [(cell.outliers, str(cell.p)) for cell in found] == [(0.2, "1.0"), (0.2, "1.0"),
                                                                (0.2, "mse")]  # fmt: skip


def test_too_many_nets_are_shown_with_the_lowest_norm_alone():
    grid = Grid(datasets=("digits",), outliers=(0.0, 0.3), methods=("probed", "sgd", "adam", "mse"))
    metrics = {str(p): {"f_obj": 1.0} for p in (1.0, 1.5, 2.0, "mse")}
    found = worst_cells(grid.cells(), {c.name: {"metrics": metrics} for c in grid.cells()})
    shown = [(cell.method, cell.p) for cell in found]
    assert shown == [("probed", 1.0), ("sgd", 1.0), ("adam-0.001", 1.0), ("mse", "mse")]
    assert {cell.outliers for cell in found} == {0.3}


def test_without_outliers_there_is_nothing_to_mark(records):
    clean = [cell for cell in DIGITS.grid.cells() if cell.outliers == 0.0]
    sections = experiment_sections.row_sections(clean, records)
    assert [section.title for section in sections] == ["Images given back"]
    assert len(sections[0].parts) == 1


def test_an_inspection_shows_what_the_stored_parameters_do(records):
    (cell,) = [c for c in worst_cells(DIGITS.grid.cells(), records) if c.method == "mse"]
    found = inspect_cell(cell, records[cell.name])
    work = workload(cell)
    assert torch.equal(found.mask, work.mask)
    losses = (work.train[0].flatten(1) ** 2).sum(1)  # of a net that gives back nothing
    assert found.losses.shape == losses.shape
    clean = records[cell.name]["metrics"]["mse"]["f_noutl"]
    np.testing.assert_allclose(found.losses[~found.mask].mean(), clean, rtol=1e-4)
    bad = work.train[0][work.mask][: len(found.outliers.images), 0]
    assert torch.equal(found.outliers.images, bad)
    errors = (found.outliers.rebuilt - found.outliers.images).flatten(1).square().sum(1)
    np.testing.assert_allclose(errors, found.losses[found.mask][: len(errors)], rtol=1e-4)


@pytest.mark.parametrize(
    ("losses", "mask", "share"),
    [
        ([1.0, 2.0, 9.0, 8.0], [0, 0, 1, 1], 1.0),
        ([1.0, 8.5, 9.0, 8.0], [0, 0, 1, 1], 0.5),
        ([9.0, 8.5, 2.0, 1.0], [0, 0, 1, 1], 0.0),
    ],
)
def test_found_is_the_share_of_outliers_among_the_worst_rows(losses, mask, share):
    cell = Cell(dataset="digits", outliers=0.5, p=1.0, method="sgd")
    one = Inspection(cell, torch.tensor(losses), torch.tensor(mask, dtype=torch.bool))
    assert one.recall == share
    none = Inspection(cell, torch.tensor(losses), torch.zeros(4, dtype=torch.bool))
    assert np.isnan(none.recall)

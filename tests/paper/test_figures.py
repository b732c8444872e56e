import numpy as np
import pandas as pd
import pytest

from proxlin.paper import published
from proxlin.paper.figures import (
    CAPTIONS,
    figure1,
    figure2,
    figure3,
    figure4,
    points,
)
from proxlin.paper.grid import Grid
from proxlin.report import write_picture

GRID = Grid(datasets=("mnist",), exponents=(1.0, 2.0), methods=("probed", "sgd", "mse"))


def value(cell, test):
    size = {"1.0": 4.0, "2.0": 1.0, "mse": 9.0}[str(cell.p)]
    return size * (1 + cell.outliers) * (2.0 if cell.method == "sgd" else 1.0) + test


@pytest.fixture(scope="module")
def records():
    found = {}
    for cell in GRID.cells():
        losses = {"f_obj": 1.0, "f_noutl": value(cell, 0.0), "f_test": value(cell, 0.5)}
        curve = [(0.1, 9.0, 9.0), (1.0, 4.0, 4.0), (2.0, 5.0, 4.0)]
        found[cell.name] = {
            "metrics": {str(cell.p): losses},
            "seconds": 2.0,
            "history": [{"seconds": s, "objective": o, "best": b} for s, o, b in curve],
        }
    return found


@pytest.fixture(scope="module")
def accuracy():
    return pd.DataFrame(
        [
            ("mnist", cell.outliers, str(cell.p), cell.method, 0, 0.9 - cell.outliers)
            for cell in GRID.cells()
        ],
        columns=["dataset", "outliers", "p", "method", "seed", "accuracy"],
    )


def lines(axis):
    return {line.get_label(): np.array(line.get_xydata()) for line in axis.get_lines()}


def test_losses_are_shares_of_the_largest_in_their_panel(records):
    figure = figure3(points(GRID.cells(), records))
    assert len(figure.axes) == 6
    for axis in figure.axes:
        assert max(data[:, 1].max() for data in lines(axis).values()) == 1.0
    titles = [axis.get_title() for axis in figure.axes]
    assert [title.split(":")[0] for title in titles] == 2 * [
        "mnist, squared error",
        "mnist, p = 2",
        "mnist, p = 1",
    ]


def test_ours_and_the_papers_share_the_scale(records):
    axis = figure3(points(GRID.cells(), records)).axes[2]  # clean rows, p = 1
    found = lines(axis)
    paper = published.table1()
    paper = paper[(paper["dataset"] == "mnist") & (paper["p"] == 1.0)]
    largest = max(paper["f_noutl"].max(), 2 * 4.0 * 1.3)
    theirs = paper[paper["method"] == "mbo-sadm"].sort_values("outliers")
    np.testing.assert_allclose(found["mbo-sadm (paper)"][:, 1], theirs["f_noutl"] / largest)
    ratios = np.array([0.0, 0.05, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(found["probed"][:, 0], ratios)
    np.testing.assert_allclose(found["probed"][:, 1], 4.0 * (1 + ratios) / largest)
    np.testing.assert_allclose(found["sgd"][:, 1], 8.0 * (1 + ratios) / largest)


def test_figure_one_has_losses_and_accuracy(records, accuracy):
    part = Grid(datasets=("mnist",), exponents=(1.0, 2.0), methods=("probed", "mse")).cells()
    accuracy = accuracy[accuracy["method"] != "sgd"]
    figure = figure1(points(part, records), accuracy)
    clean, _, right = figure.axes
    assert set(lines(clean)) == {"squared error", "p = 1", "p = 2"}
    assert lines(clean)["squared error"][-1, 1] == 1.0
    np.testing.assert_allclose(lines(right)["p = 1"][:, 1], 0.9 - np.array(GRID.outliers))


def test_objectives_over_time_never_rise(records):
    cells = [cell for cell in GRID.cells() if cell.outliers == 0.0]
    figure = figure2(cells, records)
    assert len(figure.axes) == 2
    for axis in figure.axes:
        curves = lines(axis)
        assert {"probed", "sgd", "paper's best"} == set(curves)
        np.testing.assert_array_equal(curves["probed"][:, 1], [9.0, 4.0, 4.0, 4.0])
        assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")


def test_accuracies_stand_beside_the_papers(accuracy):
    figure = figure4(accuracy)
    first, _, last = figure.axes
    assert set(lines(first)) == {"mse", "mse (paper)"}
    assert lines(first)["mse (paper)"][0, 1] == 0.876
    assert lines(last)["mbo-sadm (paper)"][0, 1] == 0.936


def test_curves_from_fewer_rows_stand_alone(records, accuracy):
    cells = GRID.cells()
    losses = points(cells, records)
    for figure in (
        figure2(cells, records, paper=False),
        figure3(losses, paper=False),
        figure4(accuracy, paper=False),
    ):
        assert {label for axis in figure.axes for label in lines(axis)} <= {"probed", "sgd", "mse"}


def test_nothing_finished_is_an_empty_figure_and_no_error(tmp_path):
    empty = points(GRID.cells(), {})
    none = pd.DataFrame(columns=["dataset", "outliers", "p", "method", "seed", "accuracy"])
    for place, figure in enumerate(
        (figure1(empty, none), figure2(GRID.cells(), {}), figure3(empty), figure4(none))
    ):
        write_picture(tmp_path, f"f{place}", figure)


def test_every_figure_has_a_caption():
    assert set(CAPTIONS) == {"fig1", "fig2", "fig3", "fig4", "figA"}

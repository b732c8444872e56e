from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from proxlin.app.tabular.detection import detect_outliers
from proxlin.app.tabular.model import Judgement
from proxlin.app.tabular.reporting.detection_report import detection_report
from proxlin.errors import InvalidInputError


@pytest.fixture(scope="module")
def frame():
    generator = np.random.default_rng(0)
    size = generator.normal(10, 2, 300)
    frame = pd.DataFrame(
        {
            "number": np.arange(300) + 1,
            "length": size + 0.1 * generator.normal(size=300),
            "width": 2 * size + 0.1 * generator.normal(size=300),
            "weight": 3 * size + 0.1 * generator.normal(size=300),
            "kind": generator.choice(["a", "b"], 300),
        }
    )
    frame.loc[7, "width"] = 80.0
    frame.loc[11, "weight"] = np.nan
    return frame


@pytest.fixture(scope="module")
def detection(frame):
    return detect_outliers(frame)


def test_the_odd_cell_is_named_with_what_the_row_lets_expect(detection, frame):
    (worst,) = detection.worst(1)
    assert worst.row == 8
    assert worst.outlier
    cell = worst.cells[0]
    assert (cell.column, cell.got) == ("width", 80.0)
    assert cell.expected == pytest.approx(2 * frame.loc[7, "length"], rel=0.1)


def test_numbers_of_rows_are_left_out_and_most_rows_are_fine(detection):
    assert any("'number' is left out" in note for note in detection.notes)
    assert detection.judged.flags.mean() < 0.1
    assert np.isfinite(detection.judged.scores).all()


def test_the_page_shows_the_row_and_escapes_names(detection):
    page = detection_report(detection, "<t>.csv", "proxlin outliers t.csv")
    assert "&lt;t&gt;.csv" in page
    assert "width: 80, expected" in page


def test_a_table_that_says_too_little_is_refused():
    with pytest.raises(InvalidInputError, match="too little to say"):
        detect_outliers(pd.DataFrame({"a": [1.0, 2.0, 3.0]}))


def test_whole_numbers_are_expected_in_columns_of_whole_numbers(frame):
    whole = frame.assign(count=np.round(frame["length"])).drop(columns="kind")
    whole.loc[20, "count"] = 40
    cells = [cell for misfit in detect_outliers(whole).worst(5) for cell in misfit.cells]
    (odd,) = (cell for cell in cells if cell.column == "count" and cell.got == 40)
    assert odd.expected == round(odd.expected)
    assert abs(odd.expected - whole.loc[20, "length"]) < 1


def test_the_worst_rows_begin_with_infinite_scores_and_leave_out_those_without_one() -> None:
    scores = np.array([1.0, np.nan, np.inf, 3.0, -np.inf])
    judged = Judgement(["a"], scores, np.zeros((5, 1)), scores > 2)
    assert judged.worst(9) == [2, 3, 0, 4]
    assert judged.worst(2) == [2, 3]


def test_an_odd_yes_or_no_is_told_as_such(frame) -> None:
    x = frame.assign(large=np.where(frame["length"] > 10, "yes", "no"))
    x.loc[3, "large"] = "no" if x.loc[3, "large"] == "yes" else "yes"
    cells = [cell for misfit in detect_outliers(x).worst(300) for cell in misfit.cells]
    answers = {text for cell in cells if cell.column == "large" for text in cell.texts}
    assert answers == {"yes", "no"}


def test_a_gross_number_is_told_first_among_single_cells_however_usual_its_row(frame) -> None:
    wide = frame.assign(**{f"c{j}": frame["length"] + j for j in range(12)})
    wide.loc[50, "c3"] = 1e6
    wide["rare"] = (np.arange(300) % 50 == 0) * 7.0
    (row, cell), *others = detect_outliers(wide).odd_cells(10)
    assert (row, cell.column, cell.got) == (51, "c3", 1e6)
    assert abs(float(cell.expected) - (wide.loc[50, "length"] + 3)) < 1
    assert {other.column for _, other in others} <= {"width"}  # 80 in row 8, as in the fixture


def test_other_single_cells_are_those_that_no_shown_row_names(frame) -> None:
    frame = frame.copy()
    frame.loc[60:64, "length"] = 1e6
    found = detect_outliers(frame)
    misfits = found.worst(3)
    named = {(misfit.row, cell.column) for misfit in misfits for cell in misfit.cells}
    other = {(row, cell.column) for row, cell in found.other_cells(misfits, 10)}
    every = {(row, cell.column) for row, cell in found.odd_cells(10)}
    assert other == every - named
    assert 0 < len(other) < len(every)
    assert found.count_odd_cells() == (len(every), len({row for row, _ in every}))


def test_wrong_cells_of_most_rows_are_counted_where_no_row_is_odder_than_the_others() -> None:
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(200, 10))).add_prefix("x")
    wrong = rng.random(x.shape) < 0.1
    cells, rows = detect_outliers(x.mask(wrong, 1e12)).count_odd_cells()
    assert (cells, rows) == (wrong.sum(), wrong.any(axis=1).sum())


def test_missing_numbers_stay_missing_and_no_median_is_told_of(frame) -> None:
    frame = frame.copy()
    frame.loc[20:25, "length"] = np.nan
    found = detect_outliers(frame)
    assert np.isnan(found.cells[20:26]).any(axis=1).all()
    assert not any("median" in note for note in found.notes)


def test_tables_without_far_numbers_or_without_numbers_have_no_odd_cells(frame) -> None:
    rng = np.random.default_rng(1)
    clean = frame[["length", "weight"]].clip(5, 40).assign(kind=frame["kind"])
    levels = pd.DataFrame({name: rng.choice(["a", "b", "c"], 60) for name in ("u", "v", "w")})
    assert detect_outliers(clean).odd_cells(5) == []
    assert detect_outliers(levels).odd_cells(5) == []
    assert detect_outliers(levels).count_odd_cells() == (0, 0)


def test_no_expectation_lies_beyond_the_numbers_of_its_column() -> None:
    rng = np.random.default_rng(3)
    size = rng.normal(size=400)
    amount = np.maximum(0, 50 * size)  # half of them 0, where the line through the others is below
    frame = pd.DataFrame({"size": size, "double": 2 * size, "amount": amount + rng.random(400)})
    frame.loc[7] = [-3.0, -6.0, 1e9]
    cells = [cell for misfit in detect_outliers(frame).worst(400) for cell in misfit.cells]
    assert min(cell.expected for cell in cells if cell.column == "amount") >= 0


def test_a_cell_that_is_as_expected_is_not_blamed(detection) -> None:
    class Expecting:
        """A detector to which widths and kinds are odd, and only widths are off."""

        def cell_scores(self, cells):
            return np.where([name in ("width", "kind") for name in names], 5.0, 0.0) + 0 * cells

        def expected(self, cells):
            return np.where([name == "width" for name in names], 15.0, cells)

    names = [detection.encoding.features[j].name for j in detection.encoding.owners]
    misfits = replace(detection, detector=Expecting()).worst(1)
    assert {cell.column for misfit in misfits for cell in misfit.cells} == {"width"}

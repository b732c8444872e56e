import pandas as pd
import pytest

from proxlin.errors import InvalidInputError
from proxlin.report import Figures, Table, write_tables
from proxlin.report.table import plain, sort_value

FRAME = pd.DataFrame(
    {
        "loss": ["squared", "l2", "l1"],
        "error": [0.5, 0.125, float("nan")],
        "found": [0.1, 0.9, 0.9],
        "rows": [1797, 10, 3],
    }
)


def test_the_best_of_a_column_is_bold_also_when_shared():
    table = Table.from_frame(FRAME, "Errors", best={"error": "min", "found": "max"})
    assert table.headings == ("loss", "error", "found", "rows")
    assert [row[1] for row in table.rows][:2] == [0.5, Figures(("0.125",), (True,))]
    assert [isinstance(row[2], Figures) for row in table.rows] == [False, True, True]
    assert "| l1 | – | **0.9** | 3 |" in table.markdown()
    assert r"l2 & \textbf{0.125} & \textbf{0.9} & 10 \\" in table.latex()


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(InvalidInputError, match="Did you mean 'error'"):
        Table.from_frame(FRAME, "Errors", best={"eror": "min"})
    with pytest.raises(InvalidInputError, match=r"best\['error'\] must be one of"):
        Table.from_frame(FRAME, "Errors", best={"error": "lowest"})


def test_rows_have_a_field_for_each_heading():
    with pytest.raises(InvalidInputError, match=r"must have 2 fields.*got 1"):
        Table("Errors", ("loss", "error"), [("l1", 0.1), ("l2",)])


def test_bars_and_specials_do_not_break_a_table():
    table = Table("A|B", ("x_1",), [("a|b",), (Figures(("1", "2"), (True, False)),)])
    assert "| a\\|b |" in table.markdown()
    assert "| **1** / 2 |" in table.markdown()
    assert r"\textbf{1} / 2 \\" in table.latex()
    assert r"x\_1" in table.latex()


@pytest.mark.parametrize(
    ("item", "text", "value"),
    [
        (1797, "1,797", 1797.0),
        (0.123456, "0.1235", 0.123456),
        (float("nan"), "–", None),
        (float("inf"), "inf", float("inf")),
        (-3, "-3", -3.0),
        ("–", "–", None),
        ("", "", None),
        ("12.5 s", "12.5 s", 12.5),
        ("1e-3", "1e-3", 1e-3),
        ("-.5", "-.5", -0.5),
        ("90 %", "90 %", 90.0),
        ("1,000,000 rows", "1,000,000 rows", 1e6),
        ("2nd", "2nd", None),
        ("p = 2", "p = 2", None),
        ("2021-03-04", "2021-03-04", None),
        (Figures(("0.25", "7"), (True, False)), "0.25 / 7", 0.25),
        (Figures(("0.25 ± 0.1",)), "0.25 ± 0.1", 0.25),
        (True, "yes", 1.0),
    ],
)
def test_fields_as_text_and_as_numbers_to_sort_by(item, text, value):
    assert plain(item) == text
    assert sort_value(item) == value


def test_files_hold_every_row(tmp_path):
    table = Table.from_frame(FRAME, "Errors", remarks=("At 5 %.",))
    csv, markdown, latex = write_tables(tmp_path, "errors", FRAME, [table])
    pd.testing.assert_frame_equal(pd.read_csv(csv), FRAME)
    assert markdown.read_text() == table.markdown()
    assert latex.read_text() == table.latex()
    assert r"At 5 \%." in latex.read_text()
    assert [path.suffix for path in (csv, markdown, latex)] == [".csv", ".md", ".tex"]

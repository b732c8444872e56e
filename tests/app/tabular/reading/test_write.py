import csv
import io
import sys

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxlin.app.tabular import read_table_file
from proxlin.app.tabular.reading.number_text import is_number
from proxlin.app.tabular.reading.write import as_csv, as_file
from proxlin.errors import InvalidInputError

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


@given(st.lists(text, min_size=1), text)
@example(["\r\t"], "\r0")
@example(["a\r=1"], "a\r\n")
def test_no_cell_of_text_begins_a_formula(cells, name):
    frame = pd.DataFrame({name: cells, "n": range(len(cells))})
    rows = list(csv.reader(io.StringIO(as_csv(frame).decode(), newline="")))
    assert len(rows) == 1 + len(cells)
    for row in rows:
        assert is_number(row[0]) or not row[0].startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


def test_negative_numbers_stay_numbers():
    back = pd.read_csv(io.BytesIO(as_csv(pd.DataFrame({"a": [-1.5, 2.0]}))))
    assert back["a"].tolist() == [-1.5, 2.0]


def written(cell):
    (row,) = list(csv.reader(io.StringIO(as_csv(pd.DataFrame({"a": [cell]})).decode())))[1:]
    return row[0]


@pytest.mark.parametrize("cell", ["-999", "-5,3", "+3", "-1.234,50", "-$5", "-2e3", " -7 %"])
def test_numbers_written_as_text_stay_as_they_are(cell):
    assert written(cell) == cell


@pytest.mark.parametrize(
    "cell", ["=1+1", "-1+1", "+cmd|' /C calc'!A0", "-5;3", "@SUM(A1)", "--1", "-EUR5", "+Fr7"]
)
def test_formulas_and_other_text_are_guarded(cell):
    assert written(cell) == f"'{cell}"


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_what_is_written_by_name_is_read_back(tmp_path, ending):
    pytest.importorskip({"csv": "csv", "xlsx": "openpyxl", "parquet": "pyarrow"}[ending])
    frame = pd.DataFrame({"a": [-1.5, 2.0, None], "b": ["x", "=1+1", "z"], "n": [1, 2, 3]})
    path = tmp_path / f"t.{ending}"
    path.write_bytes(as_file(frame, path.name))
    back = read_table_file(path).frame
    pd.testing.assert_frame_equal(back[["a", "n"]], frame[["a", "n"]])
    assert back["b"].tolist() == ["x", "=1+1" if ending == "parquet" else "'=1+1", "z"]


def test_a_damaged_excel_file_is_refused_in_a_sentence(tmp_path):
    pytest.importorskip("openpyxl")
    content = bytearray(as_file(pd.DataFrame({"a": range(50)}), "t.xlsx"))
    middle = len(content) // 3
    content[middle : middle + 200] = bytes(200)
    (tmp_path / "t.xlsx").write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"t\.xlsx cannot be read"):
        read_table_file(tmp_path / "t.xlsx")


@pytest.mark.parametrize(
    ("ending", "package", "extra"),
    [("xlsx", "openpyxl", "excel"), ("parquet", "pyarrow", "parquet")],
)
def test_a_package_that_is_not_there_is_asked_for(tmp_path, monkeypatch, ending, package, extra):
    pytest.importorskip(package)
    frame = pd.DataFrame({"a": [1.5, 2.0]})
    path = tmp_path / f"t.{ending}"
    path.write_bytes(as_file(frame, path.name))
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    wanted = rf'needs {package}; run pip install "proxlin\[{extra}\]"'
    with pytest.raises(InvalidInputError, match=wanted):
        as_file(frame, path.name)
    with pytest.raises(InvalidInputError, match=wanted):
        read_table_file(path)


def test_cells_beyond_the_names_of_a_sheet_are_told_or_are_the_table(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"a": range(6), "b": [None] * 5 + ["see below"]})
    frame.to_excel(tmp_path / "note.xlsx", index=False, header=["a", ""])
    table = read_table_file(tmp_path / "note.xlsx")
    assert list(table.frame.columns) == ["a"]
    assert table.notes[-1] == (
        "Left out: 1 row with cells to the right of the last name, such as 'see below'."
    )
    frame.assign(b=1.5).to_excel(tmp_path / "title.xlsx", index=False, header=["Sales 2024", ""])
    with pytest.raises(InvalidInputError, match="which has 1 name; take out lines above"):
        read_table_file(tmp_path / "title.xlsx")

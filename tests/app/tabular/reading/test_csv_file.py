import csv
import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxlin.app.tabular import FitSettings, RawTable, fit_table, read_table_file
from proxlin.app.tabular.reading.column_kinds import learn_features
from proxlin.app.tabular.reading.csv_file import parse_csv
from proxlin.app.tabular.reading.numbers import find_numbers, read_numbers
from proxlin.errors import InvalidInputError

ROWS = [["a", "größe", "c d"], ["1", "x", "2.5"], ["2", "né, ok", ""], ["3", 'q"q', "1e3"]]


def written(rows, separator=",", encoding="utf-8"):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator).writerows(rows)
    return text.getvalue().encode(encoding)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be"]
)
def test_separator_and_encoding_are_found_out(separator, encoding):
    frame = parse_csv(written(ROWS, separator, encoding)).frame
    assert list(frame.columns) == ROWS[0]
    assert frame["größe"].tolist() == ["x", "né, ok", 'q"q']
    np.testing.assert_array_equal(frame["c d"], [2.5, np.nan, 1000.0])


def test_what_is_unusual_is_said():
    notes = parse_csv(written(ROWS, ";", "cp1252")).notes
    assert any("cp1252" in note for note in notes)
    assert any("semicolons" in note for note in notes)
    assert parse_csv(written(ROWS)).notes == ()


def test_bytes_that_cp1252_lacks_are_latin_1():
    notes = parse_csv(b"a,b\n1,\x81\xe9\n2,y\n").notes
    assert any("latin-1" in note for note in notes)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_blank_lines_and_missing_last_end(end):
    text = end.join(["a,b", "", "1,2", "   ", '3,"x', 'y"'])
    frame = parse_csv(text.encode()).frame
    assert frame["a"].tolist() == [1, 3]
    assert frame["b"].tolist()[0] == "2"
    assert "".join(frame["b"].tolist()[1].split()) == "xy"


def test_formulas_stay_text():
    frame = parse_csv(b"a,b\n=1+1,2\n@SUM(A1),3\n").frame
    assert frame["a"].tolist() == ["=1+1", "@SUM(A1)"]


def test_short_rows_are_missing_cells_and_said():
    table = parse_csv(b"a,b,c\n1,2\n1,2,3\n")
    assert np.isnan(table.frame["c"][0])
    assert any("1 row ended early" in note for note in table.notes)


def test_separators_at_the_ends_of_lines_add_no_column():
    frame = parse_csv(b"a,b,\n1,2,\n3,4,\n").frame
    assert list(frame.columns) == ["a", "b"]


def test_columns_without_a_name_are_called_by_their_place():
    table = parse_csv(b",a\n0,5\n1,6\n")
    assert list(table.frame.columns) == ["column 1", "a"]
    assert any("without a name" in note for note in table.notes)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"a,b\n", "no rows"),
        (b'[{"a": 1, "b": 2},\n{"a": 2, "b": 3}]', "it is JSON; save the table as CSV"),
        (b"<!DOCTYPE html>\n<table><tr><td>1</td></tr></table>", "it is a web page or XML"),
        (b"Prices of 2024\na,b,c\n1,2,3\n", "lines above the names of the columns"),
        (b"a,b,a\n1,2,3\n", "'a' is column 1 and 3"),
        (b"a,b\n1,2\n1,2,3\n", "line 3 has 3 cells, the header 2"),
        (b"1,2.5\n3,4\n", "names of the columns"),
        (b"a,b\n1,\x00\n", "NUL byte at position 6"),
        ("a,b\n1,\x00\n".encode("utf-16"), "NUL character"),
        (b"\xff\xfea\x00,", "damaged at byte"),
        (b"PK\x03\x04....", "spreadsheet"),
        (b"PAR1 but short", "Parquet"),
        (b'a,b\n1,"2\n3,4\n', "quote"),
        (b'a,b\n1,2\n3,"4\n5,6\n', "a quote in line 3 does not end"),
        (b"a,b\n1," + b"x" * 200_000 + b"\n", "quote that does not end"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(tmp_path, content, told):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"t\.csv cannot be read: .*") as caught:
        read_table_file(path)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(content):
    try:
        frame = parse_csv(content).frame
    except InvalidInputError:
        return
    assert len(frame) > 0


pieces = st.sampled_from(['"', ",", ";", "\t", "|", "\n", "\r", " ", "a", "é", "1", "=", "-", "\\"])


@settings(max_examples=300)
@given(st.lists(pieces, max_size=40), st.sampled_from(["utf-8", "latin-1", "utf-16"]))
def test_random_csv_like_text_is_read_or_refused(parts, encoding):
    try:
        table = parse_csv("".join(parts).encode(encoding))
    except InvalidInputError:
        return
    assert len(set(table.frame.columns)) == len(table.frame.columns)


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=8)


@given(
    st.integers(2, 4).flatmap(
        lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1)
    )
)
def test_any_text_survives_quotes(rows):
    names = [f"column {number}" for number in range(len(rows[0]))]
    marked = [[f"x{cell}x" for cell in row] for row in rows]  # text, no blank, no word for missing
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([names, *marked])
    frame = parse_csv(text.getvalue().encode()).frame
    assert frame.to_numpy().tolist() == marked


def test_gzip_parquet_and_arff_are_told_by_their_bytes(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1.5, None], "k": ["x", "y"]})
    frame.to_parquet(tmp_path / "one.data")
    (tmp_path / "two.data").write_bytes(gzip.compress(b"a,k\n1.5,x\n,y\n"))
    arff = "% made by hand\n@relation r\n@attribute a real\n@attribute k {x,y}\n@data\n1.5,x\n?,y\n"
    (tmp_path / "three.data").write_text(arff)
    for name in ("one", "two", "three"):
        found = read_table_file(tmp_path / f"{name}.data").frame
        np.testing.assert_array_equal(found["a"], [1.5, np.nan])
        assert found["k"].tolist() == ["x", "y"]


def test_parquet_that_is_damaged_or_names_a_column_twice(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1" + b"nonsense" * 4 + b"PAR1")
    with pytest.raises(InvalidInputError, match="damaged Parquet"):
        read_table_file(path)
    twice = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])
    parquet.write_table(twice, path)
    with pytest.raises(InvalidInputError, match="more than once, such as 'a'"):
        read_table_file(path)


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_dates_beyond_those_of_nanoseconds_are_read(tmp_path, unit):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    day = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}[unit]
    when = [day * number for number in (-700_000, 0, 18_000, 2_900_000)]  # the years 53 to 9909
    column = pyarrow.array(when * 20, pyarrow.timestamp(unit))
    table = pyarrow.table({"when": column, "price": [1.0, 2.0, 2.5, 9.0] * 20})
    parquet.write_table(table, tmp_path / "t.parquet")
    frame = read_table_file(tmp_path / "t.parquet").frame
    assert len(frame) == 80
    fitted = fit_table(RawTable(frame), FitSettings(targets=("price",), model="linear"))
    assert np.isfinite(fitted.test_answers).all()


@pytest.mark.skipif(sys.platform != "linux", reason="limits its own address space")
def test_packed_tables_take_the_memory_of_what_is_in_them(tmp_path):
    """A stream of 16 MB of zeros packs into 16 kB; a file may hold any number of them."""
    (tmp_path / "small.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 30))
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(bytes(2**24), 1) * 48)
    resource = pytest.importorskip("resource")
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + 2**29, hard))
    try:
        frame = read_table_file(tmp_path / "small.csv.gz").frame
        with pytest.raises(InvalidInputError, match=r"bomb.* more than the memory holds"):
            read_table_file(tmp_path / "bomb.csv.gz")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert len(frame) == 30


def test_paths_that_hold_no_table(tmp_path):
    with pytest.raises(InvalidInputError, match="does not exist"):
        read_table_file(tmp_path / "none.csv")
    with pytest.raises(InvalidInputError, match="is a folder"):
        read_table_file(tmp_path)
    with pytest.raises(InvalidInputError, match="no regular file"):
        read_table_file("/dev/zero")
    (tmp_path / "half.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n" * 99)[:-12])
    with pytest.raises(InvalidInputError, match="cannot be unpacked"):
        read_table_file(tmp_path / "half.csv.gz")
    with pytest.raises(InvalidInputError, match="separator must be one of"):
        read_table_file(tmp_path / "none.csv", separator="x")


@pytest.mark.parametrize("limit", [10, 10**9])
def test_the_longest_cell_does_not_hang_on_what_others_set_for_the_process(limit):
    before = csv.field_size_limit(limit)
    try:
        table = parse_csv(b"a,b\n" + b"x" * 1000 + b",1\ny,2\n", None)
        assert table.frame["a"].str.len().tolist() == [1000, 1]
        with pytest.raises(InvalidInputError, match="more than 131,072 characters"):
            parse_csv(b"a,b\n" + b"x" * 200_000 + b",1\ny,2\n", None)
        assert csv.field_size_limit() == limit
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize("stray", ["", "oops", "1,5"])
def test_three_decimals_stay_decimals_whatever_else_the_column_holds(stray):
    cells = [*(["1.125", "2.250", "3.375"] * 30), stray]
    table = parse_csv("\n".join(["x;y", *(f"{cell};1" for cell in cells)]).encode())
    numbers = find_numbers(table.frame["x"], comma_decimals=table.comma_decimals)
    np.testing.assert_array_equal(numbers.values[:3], [1.125, 2.25, 3.375])


def test_points_between_thousands_stay_so_in_a_file_without_any_comma():
    trained = parse_csv("\n".join(["x;y", *["1.125,5;1", "2.250;1"] * 30]).encode())
    numbers = find_numbers(trained.frame["x"], comma_decimals=True)
    np.testing.assert_array_equal(numbers.values[:2], [1125.5, 2250])
    later = parse_csv(b"x;y\n1.125;1\n2.250;1\n")
    np.testing.assert_array_equal(
        read_numbers(later.frame["x"], numbers.reading).values, [1125, 2250]
    )


def test_a_later_file_may_have_the_other_decimal_mark():
    trained = parse_csv("\n".join(["x,y", *["1.5,1", "0.126,1"] * 30]).encode())
    reading = find_numbers(trained.frame["x"], comma_decimals=False).reading
    later = parse_csv(b"x;y\n0,126;1\n1,5;1\n-2,250;1\n")
    np.testing.assert_array_equal(
        read_numbers(later.frame["x"], reading).values, [0.126, 1.5, -2.25]
    )
    mixed = parse_csv(b"x;y\n0,126;1\n1.5;1\n")  # neither mark for all: as in training
    np.testing.assert_array_equal(read_numbers(mixed.frame["x"], reading).values, [np.nan, 1.5])


def test_a_group_of_thousands_does_not_begin_with_zero():
    column = parse_csv("\n".join(["x;y", *["0,126;1", "1,250;1"] * 30]).encode()).frame["x"]
    numbers = find_numbers(column, comma_decimals=False)
    np.testing.assert_array_equal(numbers.values[:2], [0.126, 1.25])


def test_a_typographic_minus_is_a_minus():
    column = pd.Series(["\u22120.5", "1.5", "2"] * 20)
    numbers = find_numbers(column, comma_decimals=False)
    np.testing.assert_array_equal(numbers.values[:3], [-0.5, 1.5, 2.0])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_codes_keep_their_zeros_and_are_met_again_without(encoding):
    lines = [f"{code},{row % 7},00{row:03d}" for row, code in enumerate(["01067", "50667"] * 20)]
    table = parse_csv("\n".join(["postcode,rooms,key", *lines]).encode(encoding))
    assert table.frame["postcode"].tolist()[:2] == ["01067", "50667"]
    assert table.frame["key"].tolist()[:2] == [0, 1]  # each comes once: it numbers the rows
    learned = learn_features(table, ["postcode"], indicators=True)
    assert "category of codes such as '01067'" in learned.notes[0]
    encoded, _ = learned.columns[0].encode(pd.Series([1067, 50667, 1]))
    assert encoded.tolist() == [[1, 0], [0, 1], [0, 0]]

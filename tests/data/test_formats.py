from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.io import arff

from proxlin.data.formats import MalformedError, parse_arff, parse_idx, parse_table, split_cells
from tests.data.conftest import encode_idx

HEADER = "@relation r\n@attribute a numeric\n@attribute b numeric\n@data\n"

small_arrays = hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=3, max_side=5))


@given(small_arrays)
def test_idx_reading_inverts_writing(array: np.ndarray) -> None:
    np.testing.assert_array_equal(parse_idx(encode_idx(array), array.ndim), array)


@given(small_arrays, st.data())
def test_idx_of_any_other_length_is_refused(array: np.ndarray, data: st.DataObject) -> None:
    content = encode_idx(array)
    cut = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(MalformedError):
        parse_idx(content[:cut], array.ndim)
    with pytest.raises(MalformedError, match="payload"):
        parse_idx(content + b"x", array.ndim)


def test_idx_with_another_magic_is_refused() -> None:
    content = encode_idx(np.zeros((2, 3, 3)))
    with pytest.raises(MalformedError, match="00000801; got 00000803"):
        parse_idx(content, 1)
    with pytest.raises(MalformedError, match="must begin with"):
        parse_idx(b"\x00\x00\x0d" + content[3:], 3)


cells = st.one_of(st.none(), st.floats(-1e9, 1e9), st.integers(-1000, 1000))


@settings(max_examples=50)
@given(st.integers(1, 4).flatmap(lambda w: st.lists(st.tuples(*[cells] * w), min_size=1)))
def test_arff_agrees_with_scipy(rows: list[tuple[float | None, ...]]) -> None:
    names = [f"@attribute c{i} numeric" for i in range(len(rows[0]))]
    body = [" , ".join("?" if c is None else repr(c) for c in row) for row in rows]
    text = "\n".join(["@relation r", *names, "@data", *body])
    oracle, _ = arff.loadarff(io.StringIO(text))
    expected = [list(row) for row in oracle]
    np.testing.assert_allclose(parse_arff(text).values, expected, rtol=1e-15, atol=0)


def test_arff_quotes_nominal_values_comments_and_line_ends() -> None:
    text = (
        "% comment\r\n@RELATION 'x y'\r\n\r\n@Attribute 'a b' REAL\r\n"
        '@attribute "it\'s" {low, \'very, high\',"mid"}\r\n@attribute\tc{1,2}\r\n@DATA\r\n'
        "% comment\r\n 1e-3 ,'very, high',2\r\n\r\n?,?,1\r\n-4,mid,'2'\r\n"
    )
    table = parse_arff(text)
    assert table.names == ("a b", "it's", "c")
    assert list(table.levels) == ["it's", "c"]
    expected = [[1e-3, 1, 1], [np.nan, np.nan, 0], [-4, 2, 1]]
    np.testing.assert_array_equal(table.values, expected)


@given(st.lists(st.text("ab ,'\"\\"), min_size=1))
def test_splitting_inverts_quoting(parts: list[str]) -> None:
    def quote(cell: str) -> str:
        escaped = cell.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"

    assert split_cells(" , ".join(map(quote, parts))) == parts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEADER + "1,2\n3\n", "line 6 must have 2 cells; got 1"),
        (HEADER + "1,2\n3,4,5\n", "line 6 must have 2 cells; got 3"),
        (HEADER + "1,'2'\n3\n", "line 6 must have 2 cells; got 1"),
        (HEADER + "1,2\n3,four\n", "line 6: 'b' must be a number; got 'four'"),
        (HEADER + "1,inf\n", "line 5: 'b' must be finite"),
        (HEADER + "'1',-inf\n", "line 5: 'b' must be finite"),
        (HEADER, "no rows"),
        (HEADER.replace("@data", ""), "no @data line"),
        ("@relation r\n@data\n1\n", "no attributes"),
        (HEADER + "{0 1, 1 2}\n", "sparse"),
        (HEADER.replace("b numeric", "b string") + "1,x\n", "line 3: attribute 'b' must be num"),
        (HEADER.replace("b numeric", "b") + "1,2\n", "line 3 must be '@attribute NAME TYPE'"),
        (HEADER.replace("b numeric", "b {x,y}") + "1,z\n", "one of its declared values; got 'z'"),
        ("<html>\n<body>Not found</body>\n", "line 1 must be an ARFF declaration"),
        ("", "no @data line"),
    ],
)
def test_malformed_arff_names_the_place(text: str, reason: str) -> None:
    with pytest.raises(MalformedError) as error:
        parse_arff(text)
    assert reason in str(error.value)


def test_csv_reads_empty_cells_as_unknown() -> None:
    table = parse_table(b"\xef\xbb\xbfa,'b, c'\n1,\n,2.5\n", "x.csv")
    assert table.names == ("a", "b, c")
    np.testing.assert_array_equal(table.values, [[1, np.nan], [np.nan, 2.5]])


@pytest.mark.parametrize("text", ["", "a,a\n1,2\n", "a,b\n1\n", "a,b\n"])
def test_malformed_csv_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        parse_table(text.encode(), "x.csv")


def test_old_western_encodings_are_read() -> None:
    text = HEADER.replace("@attribute a", "@attribute Größe") + "1,2\n"
    assert parse_table(text.encode("latin-1"), "x.arff").names == ("Größe", "b")
    assert parse_table(text.encode("utf-8"), "x.arff").names == ("Größe", "b")

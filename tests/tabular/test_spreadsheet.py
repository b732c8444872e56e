import csv
import io

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from proxlin.tabular.spreadsheet import as_csv

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


@given(st.lists(text, min_size=1), text)
def test_no_cell_of_text_begins_a_formula(cells, name):
    frame = pd.DataFrame({name: cells, "n": range(len(cells))})
    rows = list(csv.reader(io.StringIO(as_csv(frame).decode(), newline="")))
    for row in rows:
        assert not row[0].startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


def test_negative_numbers_stay_numbers():
    back = pd.read_csv(io.BytesIO(as_csv(pd.DataFrame({"a": [-1.5, 2.0]}))))
    assert back["a"].tolist() == [-1.5, 2.0]

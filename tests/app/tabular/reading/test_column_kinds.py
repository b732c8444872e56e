import numpy as np
import pandas as pd
import pytest

from proxlin.app.tabular.reading.column_kinds import find_identifiers, learn_features, learn_target
from proxlin.app.tabular.reading.csv_file import RawTable
from proxlin.app.tabular.reading.encoding import TableEncoding
from proxlin.errors import InvalidInputError


def learned(**columns):
    frame = pd.DataFrame(columns)
    return learn_features(RawTable(frame), list(columns), indicators=True)


def encoding_of(**columns):
    return TableEncoding(tuple(learned(**columns).columns))


def test_numbers_are_scaled_robustly_and_missing_ones_get_the_median():
    cells = [1.0, 2.0, 3.0, 4.0, 1e6, None]
    encoding = encoding_of(a=cells)
    encoded, notes = encoding.encode(pd.DataFrame({"a": cells}))
    assert encoding.labels == ["a", "a is missing"]
    assert encoded[5].tolist() == [0.0, 1.0]
    assert np.abs(encoded[:4, 0]).max() < 3
    assert notes == ["'a': 1 missing cell got the training median 3."]


def test_rare_flags_stay_zero_and_one():
    cells = [0.0] * 999 + [1.0]
    encoded, _ = encoding_of(a=cells).encode(pd.DataFrame({"a": cells}))
    assert set(encoded[:, 0]) == {0.0, 1.0}


def test_mostly_zero_columns_do_not_explode():
    cells = [0.0] * 900 + [float(x) for x in range(100, 200)]
    encoded, _ = encoding_of(a=cells).encode(pd.DataFrame({"a": cells}))
    assert 0.5 < np.median(encoded[900:, 0]) < 2


def test_categories_one_column_each_and_unseen_ones_are_all_zero():
    encoding = encoding_of(k=["x", "y"] * 5 + [None] * 3 + ["once"])
    assert encoding.labels == ["k = x", "k = y", "k is missing"]
    new = pd.DataFrame({"k": ["y", "z", None, " x "]})
    encoded, notes = encoding.encode(new)
    assert encoded.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert "'z'" in notes[0]


def test_a_category_of_whole_numbers_is_met_again_as_floats():
    encoding = encoding_of(k=["1", "2", "x"] * 4)
    encoded, _ = encoding.encode(pd.DataFrame({"k": [1.0, 2.0, np.nan]}))
    assert encoded.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ([f"name {number}" for number in range(200)], "200 different values"),
        ([7.0] * 20, "every cell is 7"),
        ([None] * 20, "every cell is missing"),
        ([[1, 2]] * 20, "lists"),
        (["same"] * 20, "nearly every cell is 'same'"),
        (["word " * 999] * 20, f"nearly every cell is '{'word ' * 8}…'."),
        ([f"{n}.5" if n % 2 else f"{n},5" for n in range(60)], "all after a comma"),
        ([f"{n}.5 kg" if n % 2 else f"{n}500 g" for n in range(60)], "convert them to one unit"),
    ],
)
def test_columns_that_teach_nothing_are_left_out_with_the_reason(cells, told):
    found = learned(a=cells)
    assert not found.columns
    assert told in found.notes[0]
    assert found.notes[0].startswith("'a' is left out")


def test_many_levels_are_kept_and_of_very_many_the_most_frequent():
    hundred = encoding_of(k=[f"town {number % 100}" for number in range(400)])
    assert len(hundred.labels) == 100
    cells = [f"street {number % 400}" for number in range(1600)] + ["street 399"] * 9
    streets = encoding_of(k=cells)
    assert len(streets.labels) == 300
    assert "k = street 399" in streets.labels


def test_cells_far_from_the_training_range_are_named_one_by_one():
    generator = np.random.default_rng(0)
    width = generator.uniform(10, 20, size=300)
    width[0] = 1e6  # a wrong cell does not stretch the range
    encoding = encoding_of(width=width, k=["x", "y", "z"] * 100)
    new = pd.DataFrame({"width": [15.0, 30.0, 20.5, -5.0], "k": ["x", "y", "w", None]})
    usual, wide, unseen, low = encoding.unusual_cells(new)
    assert usual == ""
    assert wide.startswith("width = 30, trained on 10")
    assert unseen == "k = 'w', not a known value"
    assert low.startswith("width = -5,")


def test_identifiers_are_row_numbers_or_named_so():
    count = 50
    mixed = np.random.default_rng(0).permutation(count) * 7
    frame = pd.DataFrame(
        {"n": range(1, count + 1), "customer_id": mixed, "passengerId": mixed, "width": mixed,
         "paid": mixed % 5, "void": mixed, "rownames": mixed,
         "order_id": [*mixed[:40], *mixed[:10]], "shop_id": mixed % 5, "invoice_no": mixed,
         "Heat Index": [*mixed[:49], mixed[0]], "casual_no": [*mixed[:40], *mixed[:10]],
         "price_index": mixed / 4}
    )  # fmt: skip
    found = find_identifiers(RawTable(frame), list(frame.columns))
    assert found == ["n", "customer_id", "passengerId", "rownames", "order_id", "invoice_no"]


def test_a_missing_cell_is_named_where_none_was_missing_in_training():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"full": generator.normal(size=100), "holes": generator.normal(size=100)})
    frame.loc[::10, "holes"] = np.nan
    encoding = TableEncoding(
        tuple(learn_features(RawTable(frame), ["full", "holes"], indicators=True).columns)
    )
    gone, hole = encoding.unusual_cells(pd.DataFrame({"full": [np.nan, 0], "holes": [0, np.nan]}))
    assert gone == "full is missing, hardly ever so in training"
    assert hole == ""


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["red", "blue"] * 4, "must hold numbers"),
        ([3.0] * 8, "always 3"),
        ([np.nan] * 8, "missing"),
    ],
)
def test_targets_must_be_numbers_that_differ(cells, told):
    frame = pd.DataFrame({"t": cells})
    with pytest.raises(InvalidInputError, match=told):
        learn_target(RawTable(frame), "t")


def test_columns_in_any_order_extra_ones_said_missing_ones_refused():
    encoding = encoding_of(width=[1.0, 2.0, 4.0], height=[3.0, 1.0, 5.0])
    wanted = pd.DataFrame({"width": [1.0], "height": [2.0]})
    turned = pd.DataFrame({"x": [0], "height": [2.0], "width": [1.0]})
    np.testing.assert_array_equal(encoding.encode(wanted)[0], encoding.encode(turned)[0])
    assert encoding.check(turned) == ["Not used: 'x'."]
    with pytest.raises(InvalidInputError, match=r"'width'.*Did you mean 'widht'"):
        encoding.check(pd.DataFrame({"widht": [1.0], "height": [2.0]}))


def test_missing_columns_are_named_up_to_five():
    encoding = encoding_of(**{f"c{number}": [1.0, 2.0, 4.0] for number in range(7)})
    with pytest.raises(InvalidInputError, match=r"columns 'c0', 'c1', 'c2', which.*has 'c3'"):
        encoding.check(pd.DataFrame({f"c{number}": [1.0] for number in range(3, 7)}))
    with pytest.raises(InvalidInputError, match=r"'c3', 'c4' and 2 more, which"):
        encoding.check(pd.DataFrame({"x": [1.0]}))


def test_far_cells_are_cut_so_that_nets_can_square_them():
    for cells in ([1.0, 2.0, 3.0, 4.0], [5e-324, 1e-320, 5e-324]):
        encoded, _ = encoding_of(a=cells).encode(pd.DataFrame({"a": [1e140, -1e140]}))
        assert np.isfinite(encoded.astype(np.float32) ** 2).all()


def test_cells_that_were_found_are_numbers_where_they_were_read_as_such():
    columns = {
        "n": ["1,5", "2", "3"] * 20,
        "k": ["1", "x", "y"] * 20,
        "t": ["no", "yes", "no"] * 20,
    }
    number, category, truth = learned(**columns).columns
    assert number.as_read(pd.Series(["-2,5", "unknown", None])) == [-2.5, "unknown", "missing"]
    assert category.as_read(pd.Series(["1", None])) == ["1", "missing"]
    assert truth.as_read(pd.Series(["yes", "No"])) == ["yes", "No"]


def test_dates_that_were_found_keep_the_time_of_the_day():
    (date,) = learned(d=["2024-01-01", "2024-01-02 13:00", "2024-02-01"]).columns
    found = date.as_read(pd.Series(["2024-03-01", "2024-03-01 18:00", "soon"]))
    assert found == ["2024-03-01", "2024-03-01 18:00", "soon"]


@pytest.mark.parametrize(
    "cells",
    [
        [f"{month:02}/{day:02}/2020" for month in range(1, 13) for day in range(1, 13)],
        [f"{day}. Dezember 2020" for day in range(1, 31)],
        [f"{day}/9/20" for day in range(1, 31)],
    ],
)
def test_dates_that_are_not_read_are_told_with_the_forms_that_are(cells):
    assert "looks like dates: only dates like 2024-12-31" in learned(a=cells).notes[0]


def test_other_text_is_not_said_to_look_like_dates():
    assert "dates" not in learned(a=[f"name {number}" for number in range(200)]).notes[0]


def test_the_order_of_slashed_dates_is_said():
    assert learned(a=["01/31/2020", "02/01/2020"]).notes == [
        "'a' holds dates with the month first; they became days since 1970."
    ]


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["1,5", "2,25", "?"], "with commas before the decimals"),
        (["1200", "3400", "k.A."], "points only between thousands"),
    ],
)
def test_what_points_and_commas_meant_is_said_as_it_was(cells, told):
    # One stray text in ten: numbers to speak of.
    table = RawTable(pd.DataFrame({"a": cells[:2] * 9 + cells}), comma_decimals=True)
    notes = learn_features(table, ["a"], indicators=True).notes
    (note,) = [note for note in notes if "written as text" in note]
    assert told in note


def test_times_are_shown_as_written():
    found = learned(start=[f"{hour:02}:30" for hour in range(24)])
    column = found.columns[0]
    assert found.notes == ["'start' holds times; they became hours."]
    assert column.expected(column.scaled(np.array([7.75]))) == "7:45"
    assert column.as_read(pd.Series(["09:05", None])) == ["09:05", "missing"]
    _, notes = column.encode(pd.Series(["noon", "12:00"]))
    assert notes[0] == "'start': 1 cell such as 'noon' became missing: not a time."

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxlin.app.tabular.reading.number_text import LARGEST
from proxlin.app.tabular.reading.numbers import Reading, find_numbers, read_numbers


def found(cells, **options):
    return find_numbers(pd.Series(cells), comma_decimals=options.get("comma", False))


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", " 2.5 ", "-3e2"], [1, 2.5, -300]),
        (["$1,200", "$900.50", "-$5"], [1200, 900.5, -5]),
        (["12 %", "7%", "0.5 %"], [12, 7, 0.5]),
        (["1.200,50 €", "3,5 €", "7 €"], [1200.5, 3.5, 7]),
        (["12,5", "3,25", "4"], [12.5, 3.25, 4]),
        (["1,234", "5,678", "12"], [1234, 5678, 12]),
        (["8'450.20", "1’234’567", "12"], [8450.2, 1234567, 12]),
        (["1\u00a0515,23 €", "12\u202f000,5", "7 300,25"], [1515.23, 12000.5, 7300.25]),
        (["(1,200.50)", "$(30)", "12.25-", "−4"], [-1200.5, -30, -12.25, -4]),
        (["EUR 1,200.50", "CHF 1'000", "Rs. 5", "US$ -3", "R$7"], [1200.5, 1000, 5, -3, 7]),
        (["CHF 1'200.-", "12.50", "7,–", "8.--"], [1200, 12.5, 7, 8]),
        (["1.5*", "2", "$3 *"], [1.5, 2, 3]),
    ],
)
def test_numbers_written_as_text(cells, values):
    np.testing.assert_allclose(found(cells).values, values)


def test_a_comma_may_be_either_and_the_separator_decides():
    cells = ["1,234", "5,678"]
    np.testing.assert_allclose(found(cells).values, [1234, 5678])
    np.testing.assert_allclose(found(cells, comma=True).values, [1.234, 5.678])


@pytest.mark.parametrize(
    "cell", ["(-5)", "-5-", "1 23", "1'2345", "1 234'567", "()", "-", "1 200 5"]
)
def test_what_only_looks_like_such_a_number_is_none(cell):
    numbers = found([*map(str, range(40)), cell])
    assert (numbers.unreadable, numbers.example) == (1, cell)


@pytest.mark.parametrize("words", [("unknown",), ("n. v.", "Unknown", "unknown")])
def test_a_word_for_missing_may_fill_most_cells_beside_many_numbers(words):
    numbers = found([*(f"{number}.5" for number in range(30)), *words * 40])
    np.testing.assert_array_equal(numbers.values[:30], np.arange(30) + 0.5)
    assert np.isnan(numbers.values[30:]).all()
    assert found([*"123" * 20, *words * 10]) is None  # a category with four values
    assert found([*map(str, range(30)), *("abcd" * 10)]) is None  # more than three words
    assert found([*map(str, range(30)), *(["area 51"] * 10)]) is None  # a word with a number in it


def test_bounds_count_as_numbers_where_they_are_fewer_than_the_others():
    lead = found(["< 0.01"] * 20 + ["<=0.02", "> 9"] + [f"0.{number}" for number in range(11, 40)])
    assert lead.reading.bounded
    np.testing.assert_array_equal(lead.values[[0, 20, 21, 22]], [0.01, 0.02, 9, 0.11])
    later = read_numbers(pd.Series(["<0.05", "0.5", "=0.5"]), lead.reading)
    np.testing.assert_array_equal(later.values, [0.05, 0.5, np.nan])
    assert found(["<=50", ">50"] * 30) is None
    assert found([f"<{number}" for number in range(40)]) is None


def test_times_of_the_day_and_durations_become_hours():
    for cells, hours in (
        (["06:30", "23:45:36", None], [6.5, 23.76, np.nan]),
        (["12:00 AM", "12:30 pm", "1:15 p.m."], [0, 12.5, 13.25]),
        (["0:00:36", "100:30"], [0.01, 100.5]),
    ):
        times = found(cells)
        assert times.reading.form == "clock"
        np.testing.assert_allclose(times.values, hours)
    assert found(["06:61", "1:2", "25:00 pm"]) is None
    lengths = pd.Series(pd.to_timedelta(["90min", None]))
    np.testing.assert_array_equal(read_numbers(lengths, times.reading).values, [1.5, np.nan])
    assert np.isnan(read_numbers(pd.Series([6.5]), times.reading).values).all()


@pytest.mark.parametrize(
    "cell",
    ["1970/1/3", "1970.01.03", "3-Jan-1970", "03 jan 70", "3. January 1970", "Jan 3, 1970",
     "January 3 1970", "3-JAN-70 00:00", "1970/01/03 00:00:00"],
)  # fmt: skip
def test_dates_that_cannot_be_mistaken_are_read(cell):
    days = found([cell, "1970-01-02"])
    np.testing.assert_array_equal(days.values, [2, 1])


def test_years_of_two_digits_are_those_of_posix():
    days = found(["1-Jan-69", "1-Jan-68"])
    np.testing.assert_array_equal(days.values, [-365, 35794])
    assert found(["31-Feb-2020", "1-Mai-2020", "1970/13/01"]) is None


def test_codes_with_zeros_ahead_are_no_numbers():
    assert found(["01067", "50667"] * 3) is None
    series = pd.Series(["01067", "50667"] * 3)
    assert find_numbers(series, comma_decimals=False, codes=False).values[0] == 1067
    for cells in (["01", "12"] * 3, ["001", "1000"] * 3, ["001", "002", "003"], ["0.5", "100"] * 3):
        assert found(cells) is not None


def test_a_few_unusual_cells_count_as_missing_many_make_it_text():
    few = found([*map(str, range(40)), "unknown"])
    assert (few.unreadable, few.example) == (1, "unknown")
    assert np.isnan(few.values[-1])
    assert found(["1", "2", "unknown", "many"]) is None


def test_numbers_are_found_among_more_different_junk_than_numbers():
    junk = [f"junk {number}" for number in range(3000)]
    numbers = found(["0"] * 97_000 + junk)
    assert numbers.unreadable == 3000
    assert found(["0"] * 3000 + junk) is None


def test_dates_become_days():
    days = found(["1970-01-02", "1971-01-01T12:00:00", "1969-12-31"])
    assert days.reading.form == "date"
    np.testing.assert_allclose(days.values, [1, 365.5, -1])
    times = pd.Series(pd.to_datetime(["1970-01-03", None]).tz_localize("UTC"))
    np.testing.assert_array_equal(find_numbers(times, comma_decimals=False).values, [2, np.nan])


def test_dotted_dates_have_the_day_first():
    days = found(["02.01.1970", "1.2.1970", "1971-01-01", "31.12.1969 12:00", None])
    np.testing.assert_array_equal(days.values, [1, 31, 365, -0.5, np.nan])
    assert found(["31.02.2020", "40.01.2020"]) is None


def test_slashed_dates_are_read_once_a_day_above_12_settles_the_order():
    for cells, days in (
        (["02/01/1970", "13/01/1970"], [1, 12]),
        (["01/02/1970", "1/13/1970"], [1, 12]),
    ):
        numbers = found(cells)
        np.testing.assert_array_equal(numbers.values, days)
        later = read_numbers(pd.Series(["03/04/1970"]), numbers.reading)
        assert later.values == (92 if numbers.reading.slashed == "day first" else 62)
    assert found(["01/02/2020", "02/01/2020"]) is None
    assert found(["13/01/2020", "01/13/2020"]) is None


def test_a_rare_slip_does_not_turn_the_order_round():
    numbers = found([*(f"05/{day}/2020" for day in range(1, 29)), "13/05/2020"])
    assert (numbers.reading.slashed, numbers.unreadable) == ("month first", 1)


def test_yes_and_no_become_one_and_zero():
    for cells in (["yes", "No", None, "yes"], [True, False, None, True]):
        truth = found(cells)
        assert truth.reading.form == "truth"
        np.testing.assert_array_equal(truth.values, [1, 0, np.nan, 1])


def test_infinite_and_absurd_numbers_are_unreadable():
    numbers = found([1.0, np.inf, 1e200, -2.0])
    assert numbers.unreadable == 2
    np.testing.assert_array_equal(numbers.values, [1, np.nan, np.nan, -2])


def test_later_tables_are_read_in_the_same_way():
    np.testing.assert_array_equal(
        read_numbers(pd.Series(["1,5", "x", None]), Reading("number", True)).values,
        [1.5, np.nan, np.nan],
    )
    # A column of plain numbers is no date.
    assert np.isnan(read_numbers(pd.Series([1.0, 2.0]), Reading("date")).values).all()


def test_lists_are_no_numbers():
    assert found([[1], [2]]) is None
    assert read_numbers(pd.Series([[1], [2]]), Reading("number")).unreadable == 2


@given(st.lists(st.one_of(st.text(max_size=6), st.integers(), st.floats(), st.none()), min_size=1))
def test_whatever_the_cells_numbers_are_finite_or_missing(cells):
    numbers = find_numbers(pd.Series(cells, dtype=object), comma_decimals=False)
    if numbers is not None:
        known = numbers.values[~np.isnan(numbers.values)]
        assert len(numbers.values) == len(cells)
        assert (np.abs(known) <= LARGEST).all()


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_numbers_survive_the_way_through_text(values):
    np.testing.assert_array_equal(found([repr(value) for value in values]).values, values)


@pytest.mark.parametrize("unit", [" kg", "m²", "\u00a0EUR", " °C", " km/h"])
def test_one_unit_behind_all_numbers_is_left_out_and_another_is_no_number(unit) -> None:
    column = pd.Series([f"{number},5{unit}" for number in range(40)] + ["3 t"])
    numbers = find_numbers(column, comma_decimals=True)
    np.testing.assert_array_equal(numbers.values, [*(np.arange(40) + 0.5), np.nan])
    assert numbers.example == "3 t"
    later = read_numbers(pd.Series([f"7{unit}", "8", "9 oz"]), numbers.reading)
    np.testing.assert_array_equal(later.values, [7, 8, np.nan])
    plain = read_numbers(pd.Series([7.0, 8.5]), numbers.reading)
    np.testing.assert_array_equal(plain.values, [7, 8.5])


def test_a_unit_may_be_written_with_a_space_and_without() -> None:
    column = pd.Series([f"{number}.5{' ' * (number % 2)}kg" for number in range(40)])
    assert find_numbers(column, comma_decimals=False).values[:2] == pytest.approx([0.5, 1.5])


def test_two_units_are_no_numbers() -> None:
    column = pd.Series([f"{number} kg" if number % 4 else f"{number} g" for number in range(40)])
    assert find_numbers(column, comma_decimals=False) is None

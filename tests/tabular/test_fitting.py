import numpy as np
import pandas as pd
import pytest

from proxlin.errors import InvalidInputError
from proxlin.tabular import FitSettings, RawTable, fit_table
from proxlin.tabular.measures import MIDDLE, MODEL, SQUARES
from proxlin.tabular.outcome import Outcome
from proxlin.tabular.pages import fit_report
from tests.tabular.tables import houses


def outcome_of(frame, test=None, **settings):
    other = None if test is None else RawTable(test)
    return Outcome.of(fit_table(RawTable(frame), FitSettings(**settings), test=other), "t.csv")


def medians(outcome, column):
    chosen = [error for error in outcome.errors if error.column == column]
    return {error.predictor: error.median_absolute_error for error in chosen}


def test_bad_rows_do_not_move_the_fit_and_are_found():
    outcome = outcome_of(houses(400, bad=40), targets=("price",))
    errors = medians(outcome, "price")
    assert errors[MODEL] < 2000 < errors[SQUARES] / 5
    assert errors[MODEL] < errors[MIDDLE] / 5
    bad = outcome.fitted.train.rows <= 40
    assert outcome.trained.flags[bad].all()
    assert outcome.trained.flags[~bad].mean() < 0.05
    assert all(one.row <= 40 and one.outlier for one in outcome.worst)
    first = outcome.worst[0].cells[0]
    assert float(first.got) > 5 * float(first.expected)


def test_without_targets_gross_cells_neither_bend_the_code_nor_hide():
    frame = houses(300, bad=30).drop(columns="town")
    outcome = outcome_of(frame)
    bad = outcome.fitted.train.rows <= 30
    assert outcome.trained.flags[bad].mean() > 0.9
    assert outcome.worst[0].cells[0].column == "price"


def test_the_split_depends_on_the_seed_alone_and_shares_no_row():
    frame = houses()
    parts = [fit_table(RawTable(frame), FitSettings(targets=("price",), seed=s)) for s in (0, 0, 1)]
    rows = [part.test.rows.tolist() for part in parts]
    assert rows[0] == rows[1] != rows[2]
    assert len(rows[0]) == 24
    assert not set(rows[0]) & set(parts[0].train.rows.tolist())
    assert "20%" in parts[0].tested_on


def test_the_encoding_knows_the_training_rows_alone():
    frame = houses()
    first = fit_table(RawTable(frame), FitSettings(targets=("price",)))
    changed = frame.copy()
    changed.loc[first.test.rows - 1, ["area", "price"]] *= 100
    second = fit_table(RawTable(changed), FitSettings(targets=("price",)))
    assert second.model.encoding == first.model.encoding
    new = houses(20, seed=3)
    pd.testing.assert_frame_equal(second.model.predict(new), first.model.predict(new))


def test_rows_without_a_target_are_left_out_and_said():
    frame = houses()
    frame.loc[5, "price"] = np.nan
    fitted = fit_table(RawTable(frame), FitSettings(targets=("price",)))
    assert "1 row(s) without a target were left out." in fitted.notes
    assert 6 not in {*fitted.train.rows, *fitted.test.rows}


def test_a_test_table_of_its_own_and_no_test_rows_at_all():
    outcome = outcome_of(houses(), houses(30, bad=0, seed=5), targets=("price",))
    assert len(outcome.fitted.train.rows) == 120
    assert len(outcome.fitted.test.rows) == 30
    seen = outcome_of(houses(), targets=("price",), test_share=0.0)
    assert "has seen" in seen.fitted.tested_on
    assert len(seen.predictions()) == 120


def test_many_columns_for_few_rows_get_a_ridge_and_it_is_said():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(30, 20))).rename(columns="x{}".format)
    fitted = fit_table(RawTable(frame), FitSettings(targets=("x0",)))
    assert any("ridge" in note for note in fitted.notes)
    assert fitted.model.estimator.regularizer == "ridge"


def test_an_identifier_is_used_if_there_is_nothing_else():
    frame = pd.DataFrame({"x": range(30), "y": [2.0 * x + 1 for x in range(30)]})
    fitted = fit_table(RawTable(frame), FitSettings(targets=("y",)))
    np.testing.assert_allclose(fitted.model.predict(frame)["y"], frame["y"], atol=1e-6)
    several = frame.assign(z=np.sin(frame["x"]))
    assert "'x' is left out" in fit_table(RawTable(several), FitSettings(targets=("y",))).notes[0]


def test_predictions_hold_targets_residuals_and_scores():
    outcome = outcome_of(houses(), targets=("price", "rooms"))
    table = outcome.predictions()
    np.testing.assert_allclose(
        table["price"] - table["predicted price"], table["residual price"], rtol=1e-12
    )
    frame = houses()
    np.testing.assert_array_equal(table["price"], frame["price"].to_numpy()[table["row"] - 1])
    assert ((table["outlier score"] > 3.5) == (table["outlier"] == "yes")).all()


def test_the_report_escapes_what_comes_from_the_table():
    frame = houses().rename(columns={"area": "<script>alert(1)</script>", "price": "$x_{ % ß 価"})
    outcome = outcome_of(frame, targets=("$x_{ % ß 価",))
    page = fit_report(outcome, "proxlin fit t.csv")
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
    for word in ("What was run", "least squares", "Rows that do not fit", "Coefficients"):
        assert word in page


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"targets": ("prise",)}, "Did you mean 'price'"),
        ({"targets": ("town",)}, "must hold numbers"),
        ({"targets": ("price",), "features": ("aera",)}, "Did you mean 'area'"),
        ({"targets": ("price",), "drop": ("zzz",)}, "--drop: the table has no column 'zzz'"),
        ({"targets": ("price",), "drop": ("area", "rooms", "town")}, "are left to learn from"),
        ({"targets": ("price",), "features": ("price",)}, "is a target"),
        ({"targets": ("price", "price")}, "named twice"),
        ({"targets": ("price",), "model": "autoencoder"}, "has no targets"),
        ({"model": "linear"}, "needs --targets"),
        ({"targets": ("price",), "model": "linear", "hidden": (3,)}, "--hidden"),
        ({"targets": ("price",), "code": 3}, "--code"),
        ({"reweight": True}, "--targets"),
        (
            {"targets": ("price",), "hidden": (3,), "regularizer": "ridge", "alpha": "auto"},
            "linear",
        ),
        ({"targets": ("price",), "alpha": 0.1}, "--regularizer"),
        ({"targets": ("price",), "p": 0.5}, ">= 1"),
        ({"targets": ("price",), "test_share": 1.0}, "< 1"),
        ({"targets": ("price",), "seconds": 0.0}, "> 0"),
        ({"targets": ("price",), "seed": -1}, "seed"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(settings, told):
    with pytest.raises(InvalidInputError) as caught:
        fit_table(RawTable(houses()), FitSettings(**settings))
    assert told in str(caught.value)


def test_one_row_cannot_be_learned_from():
    frame = houses(2, bad=0)
    with pytest.raises(InvalidInputError):
        fit_table(RawTable(frame), FitSettings(targets=("price",)))

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from proxlin.app.tabular import FitSettings, RawTable, fit_table, read_table_file
from proxlin.app.tabular.reporting.fit_report import fit_report
from proxlin.app.tabular.reporting.fit_summary import FitSummary
from proxlin.app.tabular.reporting.yardsticks import MIDDLE, MODEL, SQUARES
from proxlin.errors import InvalidInputError
from proxlin.estimators.families import folds
from tests.app.tabular.houses import houses


def outcome_of(frame, test=None, **settings):
    other = None if test is None else RawTable(test)
    return FitSummary.of(fit_table(RawTable(frame), FitSettings(**settings), test=other), "t.csv")


def medians(summary, column):
    chosen = [error for error in summary.errors if error.column == column]
    return {error.predictor: error.median_absolute_error for error in chosen}


def test_bad_rows_do_not_move_the_fit_and_are_found():
    summary = outcome_of(houses(400, bad=40), targets=("price",))
    errors = medians(summary, "price")
    assert errors[MODEL] < 2000 < errors[SQUARES] / 5
    assert errors[MODEL] < errors[MIDDLE] / 5
    bad = summary.fitted.train.rows <= 40
    assert summary.trained.flags[bad].all()
    assert summary.trained.flags[~bad].mean() < 0.05
    assert all(one.row <= 40 and one.outlier for one in summary.worst)
    first = summary.worst[0].cells[0]
    assert float(first.got) > 5 * float(first.expected)


def test_without_targets_gross_cells_neither_bend_the_code_nor_hide():
    frame = houses(300, bad=30).drop(columns="town")
    summary = outcome_of(frame)
    bad = summary.fitted.train.rows <= 30
    assert summary.trained.flags[bad].mean() > 0.9
    assert summary.worst[0].cells[0].column == "price"


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
    assert second.tested.encoding == first.tested.encoding
    new = houses(20, seed=3)
    pd.testing.assert_frame_equal(second.tested.predict(new), first.tested.predict(new))


@pytest.mark.parametrize("model", ["auto", "linear"])
def test_the_model_is_fitted_again_to_all_rows_but_never_to_a_test_table(model):
    frame = houses()
    settings = FitSettings(targets=("price",), model=model)
    split = fit_table(RawTable(frame), settings)
    changed = frame.copy()
    changed.loc[split.test.rows - 1, "price"] *= 1.5
    other = fit_table(RawTable(changed), settings)
    new = houses(20, seed=3)
    assert (other.model.predict(new)["price"] != split.model.predict(new)["price"]).all()
    assert "fitted to all of these rows" in split.tested_on
    apart = fit_table(RawTable(frame), settings, test=RawTable(houses(30, seed=1)))
    assert apart.model is apart.tested


def test_targets_are_scaled_as_they_are_read_even_if_a_test_row_decides_how():
    frame = pd.DataFrame({"x": range(40), "y": [f"{1 + row / 1000:.3f}" for row in range(40)]})
    frame["y"] = frame["y"].str.replace(".", ",")  # 1,005 alone could mean a thousand and five
    split = fit_table(frame, FitSettings(targets=("x",)))
    frame.loc[split.test.rows - 1, "y"] = "1,5"
    (target,) = fit_table(frame, FitSettings(targets=("y",))).model.encoding.targets
    assert target.reading.comma
    assert 1 <= target.center < 1.04
    assert 0 < target.scale < 0.04


def test_a_target_that_differs_in_test_rows_alone_is_refused():
    frame = pd.DataFrame({"x": range(40), "y": 5.0, "z": np.arange(40) ** 2})
    split = fit_table(frame, FitSettings(targets=("x",)))
    frame.loc[split.test.rows - 1, "y"] = 6.0
    with pytest.raises(InvalidInputError, match="always 5 in the training rows"):
        fit_table(frame, FitSettings(targets=("y",)))


def test_rows_without_a_target_are_left_out_and_said():
    frame = houses()
    frame.loc[5, "price"] = np.nan
    fitted = fit_table(RawTable(frame), FitSettings(targets=("price",)))
    assert "Left out: 1 row without a target." in fitted.notes
    assert 6 not in {*fitted.train.rows, *fitted.test.rows}


def test_a_test_table_of_its_own_and_no_test_rows_at_all():
    summary = outcome_of(houses(), houses(30, bad=0, seed=5), targets=("price",))
    assert len(summary.fitted.train.rows) == 120
    assert len(summary.fitted.test.rows) == 30
    seen = outcome_of(houses(), targets=("price",), test_share=0.0)
    assert "held out in turn" in seen.fitted.tested_on
    linear = outcome_of(houses(), targets=("price",), test_share=0.0, model="linear")
    assert "has seen" in linear.fitted.tested_on
    assert len(seen.predictions()) == 120


def test_many_columns_for_few_rows_get_a_ridge_and_it_is_said():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(30, 20))).rename(columns="x{}".format)
    fitted = fit_table(RawTable(frame), FitSettings(targets=("x0",), model="linear"))
    assert any("ridge" in note for note in fitted.notes)
    assert fitted.model.estimator.alpha_ > 0


def test_a_linear_model_is_the_one_that_wrong_rows_cannot_move():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, 2))
    y = x @ [1.0, -2.0] + 0.1 * generator.normal(size=200)
    y[:60] = 20  # beyond what the norm alone stands
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})
    settings = FitSettings(targets=("y",), model="linear", test_share=0.0)
    away = fit_table(frame, settings).model.predict(frame)["y"] - x @ [1.0, -2.0]
    assert np.abs(away).max() < 0.2


def test_an_identifier_is_used_if_there_is_nothing_else():
    frame = pd.DataFrame({"x": range(30), "y": [2.0 * x + 1 for x in range(30)]})
    fitted = fit_table(RawTable(frame), FitSettings(targets=("y",), model="linear"))
    np.testing.assert_allclose(fitted.model.predict(frame)["y"], frame["y"], atol=1e-6)
    several = frame.assign(z=np.sin(frame["x"]))
    assert "'x' is left out" in fit_table(RawTable(several), FitSettings(targets=("y",))).notes[0]


def test_predictions_hold_targets_residuals_and_scores():
    summary = outcome_of(houses(), targets=("price", "rooms"))
    table = summary.predictions()
    np.testing.assert_allclose(
        table["price"] - table["predicted price"], table["residual price"], rtol=1e-12
    )
    frame = houses()
    np.testing.assert_array_equal(table["price"], frame["price"].to_numpy()[table["row"] - 1])
    assert ((table["outlier score"] > 3.5) == (table["outlier"] == "yes")).all()


def test_the_report_escapes_what_comes_from_the_table():
    frame = houses().rename(columns={"area": "<script>alert(1)</script>", "price": "$x_{ % ß 価"})
    summary = outcome_of(frame, targets=("$x_{ % ß 価",), model="linear")
    page = fit_report(summary, "proxlin fit t.csv")
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
        ({"targets": ("price",), "drop": ("area", "rooms", "town")}, "must be left to learn from"),
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


def test_pandas_tables_whatever_their_index_and_names():
    frame = houses().set_index(np.arange(120)[::-1] * 3).rename(columns={"rooms": 7})
    settings = {"targets": ("price",), "model": "linear"}
    found = fit_table(frame, FitSettings(**settings), test=frame)
    known = fit_table(RawTable(houses()), FitSettings(**settings, test_share=0.0))
    np.testing.assert_array_equal(found.model.estimator.coef_, known.model.estimator.coef_)
    judged = found.model.judge(frame)
    assert found.model.explain(frame, judged.worst(1), judged)[0].row <= 12
    assert len(found.model.predict(frame)) == 120
    with pytest.raises(InvalidInputError, match="'a' comes more than once"):
        fit_table(pd.DataFrame([[1, 2]], columns=["a", "a"]), FitSettings())
    with pytest.raises(InvalidInputError, match="must be a DataFrame of pandas or polars"):
        fit_table([[1, 2]], FitSettings())


def test_targets_of_absurd_sizes_end_without_a_warning():
    target = [5e-324, 1e150, 1e-320, 1e150, 5e-324, -1e150, 1e-320, 5e-324] * 4
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=32), "y": target})
    for leverage in (False, True):
        summary = outcome_of(frame, targets=("y",), leverage=leverage)
        assert np.isfinite(summary.trained.scores).all()


def test_targets_with_a_code_for_unknown_are_outliers_and_nothing_is_learned_from_them():
    generator = np.random.default_rng(0)
    x = generator.normal(size=200)
    y = 3 * x + 0.3 * generator.normal(size=200)
    y[:60] = 1e12
    summary = outcome_of(pd.DataFrame({"x": x, "y": y}), targets=("y",))
    assert medians(summary, "y")[MODEL] < 1
    assert summary.metrics["outliers"]["training_share"] > 0.3
    assert any("code for an unknown value" in caveat for caveat in summary.metrics["caveats"])


def test_with_few_rows_only_lines_are_fitted_and_it_is_said():
    frame = pd.DataFrame({"x": np.arange(20.0), "y": 2 * np.arange(20.0) + np.arange(20) % 3})
    status = fit_table(frame, FitSettings(targets=("y",))).model.estimator.result_.status
    assert status == "Only the linear family was fitted."


def test_one_row_cannot_be_learned_from():
    frame = houses(2, bad=0)
    with pytest.raises(InvalidInputError):
        fit_table(RawTable(frame), FitSettings(targets=("price",)))


@pytest.mark.parametrize("p", [float("inf"), "mse"])
def test_every_norm_can_be_written_down(p):
    frame = houses().rename(columns={"price": "outlier", "rooms": "row"})
    summary = outcome_of(frame, targets=("outlier", "row"), p=p)
    files = summary.files(fit_report(summary, "proxlin fit t.csv"))
    json.loads(files["metrics.json"], parse_constant=pytest.fail)
    table = summary.predictions()
    assert list(table.columns[:3]) == ["row", "outlier (target)", "predicted outlier"]
    assert table["row"].tolist() == summary.fitted.test.rows.tolist()


@pytest.mark.slow
def test_more_rows_of_csv_than_members_are_fitted_to(tmp_path, monkeypatch):
    monkeypatch.setattr(folds, "MOST_ROWS", 10_000)
    generator = np.random.default_rng(0)
    count = 40_000
    a, b = generator.normal(size=(2, count)).round(3)
    kind = generator.choice(["x", "y", "z"], count)
    target = (2 * a - b + (kind == "x") + 0.1 * generator.normal(size=count)).round(3)
    target[: count // 20] *= 30
    path = tmp_path / "many.csv"
    pd.DataFrame({"a": a, "b": b, "kind": kind, "y": target}).to_csv(path, index=False)
    summary = FitSummary.of(
        fit_table(read_table_file(path), FitSettings(targets=("y",))), path.name
    )
    errors = medians(summary, "y")
    assert 10 * errors[MODEL] < min(1, errors[SQUARES])
    assert len(summary.fitted.train.rows) == 32_000
    page = fit_report(summary, "proxlin fit many.csv")
    assert len(page) < 3_000_000  # a browser opens it: not every row is drawn


@pytest.mark.skipif(
    "PROXLIN_DATA" not in os.environ, reason="PROXLIN_DATA does not name a folder with the data"
)
@pytest.mark.parametrize(
    ("name", "targets", "model"),
    [("enb", ("Y1", "Y2"), "additive"), ("jura", ("Cd",), None)],
)
def test_real_arff_tables(name, targets, model):
    path = Path(os.environ["PROXLIN_DATA"]) / "multi-target" / f"{name}.arff.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    table, settings = read_table_file(path), FitSettings(targets=targets, model=model)
    clean = FitSummary.of(fit_table(table, settings), path.name)
    frame = table.frame.copy()
    bad = np.random.default_rng(0).choice(len(frame), len(frame) // 5, replace=False)
    columns = [frame.columns.get_loc(target) for target in targets]
    frame.iloc[bad, columns] = 10 * frame.iloc[bad, columns].to_numpy() + 50
    dirty = FitSummary.of(fit_table(RawTable(frame), settings), path.name)
    for target in targets:
        assert medians(clean, target)[MODEL] < 0.9 * medians(clean, target)[MIDDLE]
        assert medians(dirty, target)[MODEL] < 0.7 * medians(dirty, target)[SQUARES]


def test_a_table_without_columns_and_targets_beyond_all_squares_are_named():
    with pytest.raises(InvalidInputError, match=r"'y'\. It has no columns"):
        fit_table(pd.DataFrame(), FitSettings(targets=("y",)))
    huge = pd.DataFrame({"a": np.arange(60.0), "y": 1e300 * np.arange(1.0, 61.0)})
    with pytest.raises(InvalidInputError, match=r"no usable number in any row, such as '1e\+300'"):
        fit_table(huge, FitSettings(targets=("y",)))

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from proxlin.app.tabular import FitSettings, fit_table
from proxlin.app.tabular.reporting import caveats
from proxlin.app.tabular.reporting.fit_summary import FitSummary


def told(frame, **settings):
    fitted = fit_table(pd.DataFrame(frame), FitSettings(targets=("y",), **settings))
    return " ".join(FitSummary.of(fitted, "t.csv").metrics["caveats"])


@pytest.fixture
def line():
    generator = np.random.default_rng(0)
    x = generator.normal(size=300)
    return {"x": x, "y": 2 * x + 0.1 * generator.normal(size=300)}


def test_a_good_fit_raises_none(line):
    assert told(line) == ""


def test_columns_that_say_nothing(line):
    assert "hardly better" in told({"x": np.random.default_rng(1).normal(size=300), "y": line["y"]})


def test_far_features_unless_leverage_is_looked_at(line):
    line["x"][:3] = 1e6
    assert "Cells of 'x' lie more than 100" in told(line, regularizer="none", model="linear")
    assert "robust deviations" not in told(line, leverage=True)


def test_a_third_of_the_rows_off_the_line(line):
    line["y"][::3] += 5
    assert "it may be the model" in told(line)


def test_a_table_with_more_columns_than_rows_is_judged_by_rows_that_a_fit_has_not_seen():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(100, 150))).rename(columns="x{}".format)
    frame["y"] = frame["x0"] + 0.1 * generator.normal(size=100)
    assert "knows its own rows too well" not in told(frame, regularizer="none", model="linear")


@pytest.mark.parametrize(("share", "told_so"), [(0.3, True), (0.02, False)])
def test_test_rows_that_fit_far_worse_than_training_rows(share, told_so):
    fitted = SimpleNamespace(
        settings=SimpleNamespace(kind="linear"), test=SimpleNamespace(rows=range(50))
    )
    trained = SimpleNamespace(flags=np.zeros(200, dtype=bool))
    tested = SimpleNamespace(flags=np.arange(50) < 50 * share)
    sentences = caveats._shares(fitted, trained, tested)
    assert any("knows its own rows too well" in sentence for sentence in sentences) is told_so


def test_few_rows_make_errors_and_scores_uncertain(line):
    def of(rows, **settings):
        return told({name: values[:rows] for name, values in line.items()}, **settings)

    assert "those of 2 test rows" in of(12)
    assert "with 10 training rows" in of(12)
    assert "of 19 test rows" in of(95)
    assert "training rows:" not in of(95)
    assert of(100) == ""
    # Without test rows another sentence says that the errors are of rows already seen.
    assert "test rows:" not in of(12, test_share=0.0)


def test_a_column_that_gives_the_target_away(line):
    assert "'copy' puts the rows in the order of 'y'" in told(
        {**line, "copy": np.exp(line["y"])}, model="linear"
    )


def test_a_column_that_gives_the_target_away_where_targets_are_wrong(line):
    copy = np.exp(line["y"])
    line["y"][::8] += 50
    assert "'copy' puts the rows in the order of 'y'" in told(
        {**line, "copy": copy}, model="linear"
    )


def test_huge_cells_are_named_and_do_no_harm(line):
    line["x"][::12] = 1e12
    words = told(line)
    assert "Cells of 'x' lie more than 100" in words
    assert "count as the outermost usual" in words


def test_targets_of_two_values_and_with_many_zeros(line):
    noise = np.random.default_rng(1).normal(size=300)
    two = pd.DataFrame({**line, "y": np.where(line["x"] + noise > 0, "yes", "no")})
    assert "no row counts as an outlier" in told(two, model="linear")
    linear = FitSettings(targets=("y",), model="linear")
    assert not fit_table(two, linear).model.judge(two).flags.any()
    spent = np.where(np.arange(300) % 5 < 2, 0.0, np.exp(line["x"]))
    assert "% of the training rows have 0 for 'y'" in told({**line, "y": spent}, model="linear")


def test_outliers_beside_a_target_of_two_values_are_not_denied(line):
    away = np.where(np.arange(300) % 10 == 0, 100.0, 0.0) * np.sin(np.arange(300))
    frame = pd.DataFrame({"x": line["x"], "two": line["x"] > 0, "y": line["y"] + away})
    fitted = fit_table(frame.astype(float), FitSettings(targets=("two", "y"), model="linear"))
    summary = FitSummary.of(fitted, "t.csv")
    caveats = " ".join(summary.metrics["caveats"])
    assert summary.trained.flags.any()
    assert "'two' has two values" in caveats
    assert "no row counts as an outlier" not in caveats


def test_small_counts_are_not_taken_for_a_frequent_value(line):
    counts = np.random.default_rng(0).poisson(np.exp(0.5 + 0.7 * line["x"]))
    assert "one model has to say both" not in told({**line, "y": counts})


def test_rows_in_the_order_of_time(line):
    line["y"] += 2 * np.sin(np.arange(300) / 30)
    assert "in the same direction" in told(line, model="linear")


def test_a_line_where_a_curve_is_needed(line):
    assert "Try --model auto" in told({**line, "y": line["x"] ** 2}, model="linear")

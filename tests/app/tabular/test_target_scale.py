"""A skewed target is taken on a log scale, and a few targets without a logarithm do not decide."""

import numpy as np
import pandas as pd
import pytest

from proxlin.app.tabular import FitSettings, fit_table
from proxlin.app.tabular.reading.column_kinds import learn_target, scale_target
from proxlin.app.tabular.reading.csv_file import RawTable
from proxlin.app.tabular.target_scale import choose_target_scales
from proxlin.estimators.families.folds import ColumnRoles


def skewed(rows=400):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2))
    return x, np.exp(3 + x @ [1.0, 0.7] + 0.3 * rng.normal(size=rows))


def chosen(x, y):
    frame = pd.DataFrame({"y": y})
    column, _, _ = learn_target(RawTable(frame), "y")
    column = scale_target(column, frame["y"])
    return choose_target_scales((column,), y[:, None], x, ColumnRoles(np.arange(x.shape[1])), 0)


@pytest.mark.parametrize("wrong", ["none", "one", "zeros", "a twentieth negative"])
def test_a_few_targets_without_a_logarithm_leave_the_scale_alone(wrong):
    x, y = skewed()
    dirty = y.copy()
    count = {"none": 0, "one": 1}.get(wrong, 20)
    dirty[:count] = 0.0 if wrong == "zeros" else -y[:count]
    (column,), notes = chosen(x, dirty)
    assert column.log
    assert column.scale == pytest.approx(chosen(x, y)[0][0].scale, rel=0.1)
    assert len(notes) == 1 + bool(count)


def test_targets_of_both_signs_and_frequent_zeros_keep_their_own_scale():
    x, y = skewed()
    for other in (np.where(np.arange(400) < 60, 0.0, y), y - np.median(y)):
        assert chosen(x, other) != chosen(x, y)
        assert not chosen(x, other)[0][0].log


def test_one_wrong_sign_does_not_move_predictions():
    x, y = skewed(200)
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(y=y)
    wrong = frame.assign(y=np.where(np.arange(200) == 7, -1.0, y))
    settings = FitSettings(targets=("y",), model="additive", test_share=0.0)
    clean, dirty = (fit_table(table, settings).model for table in (frame, wrong))
    away = np.abs(np.log(dirty.predict(frame)["y"] / clean.predict(frame)["y"]))
    assert away.max() < 0.1
    assert dirty.judge(wrong).worst(1) == [7]


def test_few_rows_choose_their_scale_by_lines():
    """Curves of twenty rows tell by chance: by them 26 of these 40 tables got their logarithm."""
    on_log_scale = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(20, 3))
        y = np.exp(1 + x @ [0.6, -0.4, 0.0] + 0.2 * rng.normal(size=20))
        y[rng.choice(20, 3, replace=False)] *= 10
        on_log_scale += chosen(x, y)[0][0].log
    assert on_log_scale >= 34

"""Models of tables as ONNX: the same answers as `predict`, for every family and both scales."""

import numpy as np
import pandas as pd
import pytest
import torch

from proxlin.app.tabular import FitSettings, fit_table
from proxlin.app.tabular.table_module import table_module
from tests.app.tabular.houses import houses

pytestmark = pytest.mark.slow


def curved(rows=240):
    """A skewed target, which is taken on a log scale, beside one that is not."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-2, 2, (2, rows))
    kind = rng.choice(list("uvw"), rows)
    bent = np.sin(2 * a) * b + (kind == "u") + 0.05 * rng.normal(size=rows)
    return pd.DataFrame({"a": a, "b": b, "kind": kind, "skewed": np.exp(2 * bent), "bent": bent})


@pytest.mark.parametrize("family", ["linear", "additive", "kernel", "trees", "forest"])
def test_the_module_answers_as_the_model_does(family):

    for frame, targets in ((curved(), ("skewed", "bent")), (houses(rows=80), ("price",))):
        model = fit_table(frame, FitSettings(targets=targets, model=family)).model
        encoded, _ = model.read(frame)
        rows = np.concatenate([encoded, 9.0 * encoded])  # beyond the training range, too
        module = table_module(model.estimator, model.encoding.targets, reach=4.0)
        answers = module(torch.from_numpy(np.asarray(rows, dtype=np.float64))).numpy()
        np.testing.assert_allclose(answers, model.answers(rows), rtol=1e-9)


@pytest.mark.parametrize("settings", [{}, {"model": "linear"}])
def test_onnx_answers_as_the_model_does(tmp_path, settings):
    onnxruntime = pytest.importorskip("onnxruntime")
    frame = houses(rows=120)
    model = fit_table(frame, FitSettings(targets=("price",), **settings)).model
    model.export_onnx(tmp_path / "model.onnx")
    encoded = np.asarray(model.read(frame)[0], dtype=np.float64)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for rows in (encoded, encoded[:1]):
        answers = session.run(None, {"x": rows})[0]
        np.testing.assert_allclose(answers, model.answers(rows), rtol=1e-5)

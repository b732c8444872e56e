"""What a file says elsewhere is what the estimator says here."""

from __future__ import annotations

import numpy as np
import pytest

from proxlin import RobustAutoencoder, RobustFactorization, RobustRegressor
from proxlin.errors import UnsupportedModuleError

pytestmark = pytest.mark.slow  # the exporter takes seconds to load


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(50, 20, size=(120, 4))
    return x, 1000 * x @ rng.normal(size=(4, 2))


def written(estimator, path):
    """What the file answers, as a function of rows."""
    pytest.importorskip("onnxscript", reason="the onnx extra is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="the onnx extra is not installed")
    estimator.export_onnx(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


@pytest.mark.parametrize(("hidden", "targets"), [((), 2), ((8, 8), 1)], ids=["linear", "net"])
def test_predictions_agree_for_any_number_of_rows(rows, tmp_path, hidden, targets):
    x, y = rows
    wanted = y[:, 0] if targets == 1 else y
    model = RobustRegressor(hidden=hidden, max_iter=20, random_state=0).fit(x, wanted)
    answers = written(model, tmp_path / "model.onnx")
    for part in (x[:1], x[:7], x):
        found = answers(part)
        expected = model.predict(part).reshape(len(part), -1)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_images_go_in_as_rows_of_pixels(tmp_path):
    images = np.random.default_rng(0).random((60, 1, 8, 8))
    model = RobustAutoencoder(3, max_iter=5, random_state=0).fit(images)
    found = written(model, tmp_path / "model.onnx")(images.reshape(60, -1))
    expected = model.reconstruct(images).reshape(60, -1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_what_solves_for_each_row_is_refused(rows, tmp_path):
    model = RobustFactorization(2, random_state=0).fit(rows[0])
    with pytest.raises(UnsupportedModuleError, match="no forward pass"):
        model.export_onnx(tmp_path / "model.onnx")

"""export_onnx: what a fitted estimator computes, scaling included, as a file for other programs."""

from __future__ import annotations

import copy
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from proxlin.errors import UnsupportedModuleError
from proxlin.estimators.scaling import RobustScaling


class Scaled(nn.Module):
    """(x - center) / scale in float64, a net in its own type, and back to plain units."""

    before_center: Tensor
    before_scale: Tensor
    after_center: Tensor
    after_scale: Tensor

    def __init__(self, net: nn.Module, before: RobustScaling, after: RobustScaling) -> None:
        super().__init__()
        self.net = copy.deepcopy(net).cpu().eval().requires_grad_(False)
        self.kind = next(net.parameters()).dtype
        for name, values in (("before", before), ("after", after)):
            self.register_buffer(f"{name}_center", torch.from_numpy(np.array(values.center)))
            self.register_buffer(f"{name}_scale", torch.from_numpy(np.array(values.scale)))

    def forward(self, x: Tensor) -> Tensor:
        """Rows (n, features) to what the estimator returns for them, (n, outputs)."""
        scaled = (x - self.before_center) / self.before_scale
        output: Tensor = self.net(scaled.to(self.kind)).flatten(1).double()
        return output * self.after_scale + self.after_center


class Shaped(nn.Module):
    """A net of images on rows of pixels."""

    def __init__(self, net: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.net, self.shape = net, shape  # (channels, height, width)

    def forward(self, x: Tensor) -> Tensor:
        """Rows (n, pixels) to rows."""
        output: Tensor = self.net(x.reshape(-1, *self.shape))
        return output


def plain_module(estimator: Any) -> nn.Module:
    """The estimator as a module from float64 rows in the data's own units to its answers.

    Predictions of a regressor, reconstructions of an autoencoder.
    """
    check_is_fitted(estimator)
    if hasattr(estimator, "coef_"):
        coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
        line = nn.Linear(coef.shape[1], coef.shape[0], dtype=torch.float64)
        with torch.no_grad():
            line.weight.copy_(torch.from_numpy(coef))
            line.bias.copy_(torch.from_numpy(np.atleast_1d(np.asarray(estimator.intercept_))))
        return line.requires_grad_(False)
    if hasattr(estimator, "_targets_"):
        return Scaled(estimator.module_, estimator._features_, estimator._targets_)
    coding = getattr(estimator, "coding_", None)
    if coding is not None:
        image = coding.form.image
        net = coding.module if image is None else Shaped(coding.module, image)
        return Scaled(net, coding.scaling, coding.scaling)
    raise UnsupportedModuleError(
        f"{type(estimator).__name__} has no forward pass to export: it solves a problem for each"
        " new row. Export a regressor or an autoencoder, or keep the estimator with joblib."
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter warns of its own future and of packages that it does not need here."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def export_onnx(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write the fitted estimator as an ONNX model: input `x` (n, features) float64, output `y`."""
    write_onnx(plain_module(estimator), int(estimator.n_features_in_), path)


def write_onnx(module: nn.Module, features: int, path: str | os.PathLike[str]) -> None:
    """Write a module from float64 rows (n, features) to answers (n, outputs) as an ONNX model."""
    try:
        import onnx  # noqa: F401, PLC0415  an extra
        import onnxscript  # noqa: F401, PLC0415
    except ImportError as missing:
        raise UnsupportedModuleError(
            "export_onnx needs onnx and onnxscript: pip install 'proxlin[onnx]'."
        ) from missing
    rows = torch.zeros(2, features, dtype=torch.float64)
    with _quiet():
        torch.onnx.export(
            module.eval(),
            (rows,),
            os.fspath(path),
            input_names=["x"],
            output_names=["y"],
            dynamic_shapes=({0: torch.export.Dim("rows", min=1)},),
            dynamo=True,
            external_data=False,
            verbose=False,
        )

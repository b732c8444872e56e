"""A fitted estimator as plain values and arrays, and back: what a saved model is made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from proxlin.errors import InvalidInputError
from proxlin.estimators.inference.prediction_interval import Calibration
from proxlin.estimators.low_rank.autoencoder import RobustAutoencoder
from proxlin.estimators.low_rank.autoencoder_nets import RowForm, build_net
from proxlin.estimators.low_rank.coding import Coding
from proxlin.estimators.regression.net_fit import build_module
from proxlin.estimators.regression.regressor import RobustRegressor
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.scores import OutlierScale
from proxlin.methods.contract import Status
from proxlin.run.result import Certificate, History, Result

Saveable = RobustRegressor | RobustAutoencoder
Arrays = dict[str, Tensor]

_KINDS: dict[str, type[Saveable]] = {
    "RobustRegressor": RobustRegressor,
    "RobustAutoencoder": RobustAutoencoder,
}
_NET = "net."  # before the names of a net's parameters
_SIMPLE = (str, int, float, bool, type(None))


def estimator_state(estimator: Saveable) -> tuple[dict[str, Any], Arrays]:
    """Everything that JSON can hold, and everything that it cannot.

    Settings must be plain: a net, regulariser or constraint of one's own is code, which a file
    of data must not hold.
    """
    given = estimator.get_params()
    del given["checkpoint"], given["callbacks"]  # of the training, of no use to the model
    settings = {name: _plain(name, value) for name, value in given.items()}
    result, scale = estimator.result_, estimator.outlier_scale_
    values: dict[str, Any] = {
        "kind": type(estimator).__name__,
        "settings": settings,
        "features": estimator.n_features_in_,
        "iterations": estimator.n_iter_,
        "result": {
            "status": result.status.name,
            "objective": _plain("objective", result.objective),
            "certificate": _plain_certificate(result.certificate),
            "seconds": result.seconds,
            "iterations": result.iterations,
            "remarks": list(result.remarks),
            "history": [
                {key: _plain(key, value) for key, value in record.items()}
                for record in result.history.records
            ],
        },
        "outlier_scale": [scale.center, scale.spread, scale.cutoff],
    }
    arrays: dict[str, Any] = {
        "theta": result.theta,
        "outlier_scores": estimator.outlier_scores_,
        "outliers": estimator.outliers_.astype(np.uint8),
    }
    if isinstance(estimator, RobustRegressor):
        values |= {"flat": estimator._flat_, "alpha": estimator.alpha_}
        values["chosen"] = estimator.chosen_
        arrays |= {
            "feature_scaling": np.stack([estimator._features_.center, estimator._features_.scale]),
            "target_scaling": np.stack([estimator._targets_.center, estimator._targets_.scale]),
            "row_weights": estimator.row_weights_,
        }
        values["copies"] = estimator._copies_
        parts = vars(estimator._calibration_).items()
        arrays |= {f"calibration.{k}": v for k, v in parts if not k.startswith("_")}
        if estimator._errors_ is not None:
            arrays["errors"] = estimator._errors_
        arrays["score"] = estimator._training_score_
        if estimator._trust_ is not None:
            arrays["trust"], arrays["slope"] = estimator._trust_, estimator._slope_
        if estimator.chosen_ == "linear":
            arrays |= {
                "coef": estimator.coef_,
                "intercept": np.asarray(estimator.intercept_),
                "scale": estimator.scale_,
                "unseen_scale": estimator._unseen_scale_,
            }
        else:
            arrays |= _parameters(estimator.module_)
    else:
        coding = estimator.coding_
        if coding.form.image is not None:
            raise InvalidInputError("only autoencoders of tables can be saved; got one of images.")
        values |= {"components": estimator.n_components_, "offset": estimator.offset_}
        layers = [layer for layer in coding.module.encoder if isinstance(layer, nn.Linear)]
        values["widths"] = [layer.out_features for layer in layers[:-1]]
        arrays["feature_scaling"] = np.stack([coding.scaling.center, coding.scaling.scale])
        arrays |= _parameters(estimator.module_)
    return values, {name: _tensor(array) for name, array in arrays.items()}


def restore_estimator(values: dict[str, Any], arrays: Arrays) -> Saveable:
    """The estimator that `estimator_state` took apart; predictions are the same bit for bit."""
    estimator = _KINDS[values["kind"]](**{k: _unplain(v) for k, v in values["settings"].items()})
    estimator.n_features_in_ = values["features"]
    run = values["result"]
    result = Result(
        status=Status[run["status"]],
        objective=_unplain(run["objective"]),
        certificate=None
        if run["certificate"] is None
        else Certificate(*map(_unplain, run["certificate"])),
        seconds=run["seconds"],
        iterations=run["iterations"],
        history=History([{k: _unplain(v) for k, v in record.items()} for record in run["history"]]),
        theta=arrays["theta"],
        remarks=tuple(run["remarks"]),
    )
    estimator.result_, estimator.history_ = result, result.history.frame()
    estimator.n_iter_ = values["iterations"]
    estimator.outlier_scale_ = OutlierScale(*values["outlier_scale"])
    estimator.outlier_scores_ = arrays["outlier_scores"].numpy()
    estimator.outliers_ = arrays["outliers"].numpy().astype(bool)
    scaling = RobustScaling(*arrays["feature_scaling"].numpy())
    if isinstance(estimator, RobustRegressor):
        _restore_regressor(estimator, values, arrays, scaling)
    else:
        _restore_autoencoder(estimator, values, arrays, scaling)
    return estimator


def _restore_regressor(
    estimator: RobustRegressor, values: dict[str, Any], arrays: Arrays, scaling: RobustScaling
) -> None:
    estimator._flat_, estimator.alpha_ = values["flat"], values["alpha"]
    estimator._features_ = scaling
    estimator._targets_ = RobustScaling(*arrays["target_scaling"].numpy())
    estimator.row_weights_ = arrays["row_weights"].numpy()
    estimator.chosen_ = values["chosen"]
    estimator._calibration_ = Calibration(
        *(arrays[f"calibration.{part}"].numpy() for part in ("x", "fitted", "misfit"))
    )
    estimator._copies_ = values["copies"]
    estimator._trust_ = arrays["trust"].numpy() if "trust" in arrays else None
    if estimator._trust_ is not None:
        unknown = np.full_like(estimator._trust_, np.nan)
        estimator._slope_ = arrays["slope"].numpy() if "slope" in arrays else unknown
    estimator._errors_ = arrays["errors"].numpy() if "errors" in arrays else None
    estimator._training_score_ = arrays["score"].numpy()
    if estimator.chosen_ == "linear":
        estimator.coef_, estimator.scale_ = arrays["coef"].numpy(), arrays["scale"].numpy()
        unseen = arrays.get("unseen_scale", arrays["scale"])
        estimator._unseen_scale_ = unseen.numpy()
        intercept = arrays["intercept"].numpy()
        estimator.intercept_ = float(intercept) if estimator._flat_ else intercept
        return
    targets = len(estimator._targets_.scale)
    net = build_module(None, estimator.hidden, estimator.n_features_in_, targets, seed=0)
    estimator.module_ = _loaded(net, arrays).eval()


def _restore_autoencoder(
    estimator: RobustAutoencoder, values: dict[str, Any], arrays: Arrays, scaling: RobustScaling
) -> None:
    form = RowForm(estimator.n_features_in_)
    net = build_net(
        form,
        values["components"],
        n_rows=0,
        hidden=values["widths"],
        activation=estimator.activation,
        factory=None,
        tied=False,
    )
    estimator.image_shape_, estimator.n_components_ = None, values["components"]
    estimator.offset_ = values["offset"]
    estimator.module_ = _loaded(net, arrays)
    estimator.coding_ = Coding.of(estimator.module_, form, scaling)


def _parameters(net: nn.Module) -> Arrays:
    return {_NET + name: value for name, value in net.state_dict().items()}


def _loaded(net: nn.Module, arrays: Arrays) -> nn.Module:
    state = {k.removeprefix(_NET): v for k, v in arrays.items() if k.startswith(_NET)}
    net.load_state_dict(state)
    return net


def _tensor(array: Any) -> Tensor:
    """A copy of its own, rows after rows, as a file holds it."""
    plain = array.detach().cpu() if isinstance(array, Tensor) else torch.from_numpy(np.array(array))
    return plain.contiguous().clone()


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(name, item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if not isinstance(value, _SIMPLE):
        raise InvalidInputError(
            f"{name} must be a plain value for the model to be saved; got {type(value).__name__}."
            " Saved models hold data, never code."
        )
    return value


def _plain_certificate(certificate: Certificate | None) -> Any:
    return certificate and _plain("certificate", list(vars(certificate).values()))


def _unplain(value: Any) -> Any:
    if isinstance(value, dict):
        return float(value["number"])
    return tuple(map(_unplain, value)) if isinstance(value, list) else value

"""save_model and load_model: safetensors and JSON with checksums, no code, no pickle."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load, save
from torch import Tensor

from proxlin.app.tabular.model import TableModel
from proxlin.app.tabular.reading.columns import CategoryColumn, Column, NumberColumn
from proxlin.app.tabular.reading.encoding import TableEncoding
from proxlin.app.tabular.reading.numbers import Reading
from proxlin.app.tabular.storage.model_folder import ARRAYS, MODEL, write_folder
from proxlin.errors import InvalidInputError
from proxlin.estimators.estimator_state import Saveable, estimator_state, restore_estimator
from proxlin.estimators.families.regressor_state import regressor_state, restore_regressor
from proxlin.estimators.families.table_regressor import TableRegressor
from proxlin.estimators.scores import OutlierScale
from proxlin.run.storage import digest, dump_checked, parse_json, read_regular, without_checksum

FORMAT = 2  # of the folder; one of a later format is not read

_WHAT = "proxlin model"
_PACKAGES = ("proxlin", "torch", "numpy", "scikit-learn", "pandas", "safetensors")


def save_model(model: TableModel, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write the model into a new folder, which appears complete or not at all."""
    write_folder(Path(folder), model_files(model), overwrite=overwrite)


def load_model(folder: str | Path) -> TableModel:
    """The model in the folder, which predicts as before bit for bit.

    Nothing in it is executed. A folder of something else, a damaged one, or one of a later
    version is refused with a sentence.
    """
    place = Path(folder)
    header = _read_header(place)
    content = _read(place, ARRAYS)
    if header["arrays"] != digest(content):
        raise InvalidInputError(
            f"{place / ARRAYS} is damaged: its checksum is not the one in {MODEL}. Train again, or"
            " copy the folder again."
        )
    try:
        arrays = load(content)
        estimator = _restored(header["estimator"], arrays)
        encoding = TableEncoding(
            tuple(_column(column) for column in header["features"]),
            tuple(_number_column(column) for column in header["targets"]),
        )
        scale = OutlierScale(*header["scale"])
        model = TableModel(estimator, encoding, scale, header["facts"])
        _check_predicts(model)
    except Exception as cause:  # whatever a stranger wrote, with a right checksum
        raise InvalidInputError(
            f"{place} holds no model that this version can read ({type(cause).__name__}). Train"
            " again."
        ) from cause
    return model


def _check_predicts(model: TableModel) -> None:
    """Refuse a model that cannot predict a row without any cell, or gives no number for it."""
    columns = (*model.encoding.features, *model.encoding.targets)
    if not all(isinstance(column.name, str) for column in columns):
        raise TypeError("a column's name must be text")
    empty = pd.DataFrame({column.name: [None] for column in columns}, dtype=object)
    encoded, _ = model.read(empty)
    numbers = model.predict_encoded(encoded).select_dtypes("number").to_numpy()
    if not np.isfinite(numbers).all():
        raise ValueError("it predicts no number")


def model_files(model: TableModel) -> dict[str, bytes]:
    """The two files of a saved model by name."""
    values, arrays = model_state(model.estimator)
    # Families that begin with the same fit share its tensors, which safetensors refuses.
    content = save({name: array.clone() for name, array in arrays.items()})
    header = {
        "what": _WHAT,
        "format": FORMAT,
        "versions": package_versions(),
        "estimator": values,
        "features": [_described(column) for column in model.encoding.features],
        "targets": [_described(column) for column in model.encoding.targets],
        "scale": [model.scale.center, model.scale.spread, model.scale.cutoff],
        "facts": model.facts,
        "arrays": digest(content),
    }
    return {MODEL: dump_checked(header, indent=1), ARRAYS: content}


def model_state(estimator: Saveable | TableRegressor) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Everything that JSON can hold, and everything that it cannot."""
    if not isinstance(estimator, TableRegressor):
        return estimator_state(estimator)
    values, arrays = regressor_state(estimator)
    return values, {name: torch.as_tensor(part).contiguous() for name, part in arrays.items()}


def _restored(values: dict[str, Any], arrays: dict[str, Tensor]) -> Saveable | TableRegressor:
    if values["kind"] == "TableRegressor":
        return restore_regressor(values, arrays)
    return restore_estimator(values, arrays)


def package_versions() -> dict[str, str]:
    """Of what the model was made with."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def _read_header(place: Path) -> dict[str, Any]:
    content = _read(place, MODEL)
    try:
        header = parse_json(content)
    except ValueError as cause:
        raise InvalidInputError(f"{place / MODEL} is damaged: it is no JSON.") from cause
    if not isinstance(header, dict) or header.get("what") != _WHAT:
        raise InvalidInputError(f"{place} is no model folder: {MODEL} is of something else.")
    number = header.get("format")
    if not isinstance(number, int) or number > FORMAT:
        made = header.get("versions")
        by = made.get("proxlin", "?") if isinstance(made, dict) else "?"
        raise InvalidInputError(
            f"{place} has format {number} of proxlin {by}; this version reads up to {FORMAT}."
            " Update proxlin."
        )
    body = without_checksum(header)
    if body is None:
        raise InvalidInputError(
            f"{place / MODEL} is damaged: its checksum is wrong. Train again, or copy the folder"
            " again."
        )
    return body


def _read(place: Path, name: str) -> bytes:
    try:
        return read_regular(place / name)
    except (FileNotFoundError, NotADirectoryError) as cause:
        what = "does not exist" if not place.exists() else f"is no model folder: it has no {name}"
        raise InvalidInputError(f"{place} {what}. Name the --out of proxlin fit.") from cause
    except OSError as cause:
        raise InvalidInputError(f"{place / name} cannot be opened: {cause.strerror}.") from cause


def _described(column: Column) -> dict[str, Any]:
    kind = "number" if isinstance(column, NumberColumn) else "category"
    return {"kind": kind, **asdict(column)}


def _column(values: Mapping[str, Any]) -> Column:
    if values["kind"] == "number":
        return _number_column(values)
    levels = tuple(values["levels"])
    if not all(isinstance(level, str) for level in levels):
        raise TypeError("the levels of a category must be texts")
    return CategoryColumn(values["name"], levels, values["missing"])


def _number_column(values: Mapping[str, Any]) -> NumberColumn:
    plain = {key: value for key, value in values.items() if key != "kind"}
    numbers = [plain[name] for name in ("center", "scale", "fill")]
    numbers += [plain[name] for name in ("low", "high") if plain.get(name) is not None]
    if not all(type(number) in (int, float) for number in numbers):
        raise TypeError("a column's center, scale, fill and range must be numbers")
    return NumberColumn(**{**plain, "reading": Reading(**plain["reading"])})

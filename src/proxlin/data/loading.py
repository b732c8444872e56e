"""load_dataset: a data set by name, as tensors with rows first."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import PurePosixPath

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proxlin._checks import check_choice
from proxlin.data.formats import MalformedError, NumericTable, parse_idx, parse_table
from proxlin.data.registry import REGISTRY, DataFile, DatasetEntry
from proxlin.data.sources import find
from proxlin.errors import DataError

TRAIN_SHARE = 0.8  # the first rows of a table train, the rest test, as in the published experiments


@dataclass(frozen=True, eq=False, repr=False)
class DataSet:
    """Train and test rows of one data set.

    Images: x is (n, 1, height, width) in [0, 1] and y holds the classes, (n,) int64, which
    `target_names` names. Tables: x is (n, features) and y is (n, targets), both float32.
    """

    name: str
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    source: str  # where the data came from, one sentence
    notes: tuple[str, ...] = ()  # what was filled in, scaled or split, one sentence each

    def __repr__(self) -> str:
        parts = ("x_train", "y_train", "x_test", "y_test")
        shapes = ", ".join(f"{part}={tuple(getattr(self, part).shape)}" for part in parts)
        return f"DataSet({self.name!r}, {shapes})"


def load_dataset(name: str, *, standardize: bool = True, verify: bool = True) -> DataSet:
    """Load a data set by name; `list_datasets()` lists the names.

    Files are looked for in the folder PROXLIN_DATA, in the cache (PROXLIN_CACHE overrides where it
    is), in the folder of a system package, and last on the network; plain or gzipped.

    Parameters
    ----------
    name
        For instance "digits" (always there), "mnist", "fashion-mnist", "scm1d", "rf1", "enb".
    standardize
        For tables: every feature and target gets mean 0 and standard deviation 1 over all rows,
        taken on the known cells. Unknown cells become the mean either way. Images stay in [0, 1].
    verify
        Compare the sha256 of the content on every load (0.1 s for MNIST). With False another
        edition of a file is accepted as long as its shape and its target names are right;
        downloads are compared always.

    >>> data = load_dataset("digits")
    >>> data.x_train.shape, data.y_test.shape
    (torch.Size([1437, 1, 8, 8]), torch.Size([360]))
    """
    key = name.lower().replace("_", "-") if isinstance(name, str) else name
    entry = REGISTRY[check_choice("load_dataset(name)", key, REGISTRY)]
    if entry.kind == "embedded":
        return _load_digits(entry)
    if entry.kind == "images":
        return _load_images(entry, verify)
    return _load_table(entry, standardize, verify)


def _load_digits(entry: DatasetEntry) -> DataSet:
    # Imported here since scikit-learn takes long to import and no other data set needs it.
    from sklearn.datasets import load_digits  # noqa: PLC0415

    digits = load_digits()
    x = torch.from_numpy((digits.images / 16.0).astype(np.float32)).unsqueeze(1)
    y = torch.from_numpy(digits.target.astype(np.int64))
    cut = int(TRAIN_SHARE * len(x))
    return DataSet(
        entry.name,
        *(x[:cut].clone(), y[:cut].clone(), x[cut:].clone(), y[cut:].clone()),
        feature_names=_pixel_names(x),
        target_names=entry.target_names,
        source="digits is embedded in scikit-learn.",
        notes=(f"The first {cut} rows train, the other {len(x) - cut} test.",),
    )


def _load_images(entry: DatasetEntry, verify: bool) -> DataSet:
    def parse(file: DataFile, content: bytes) -> NDArray[np.uint8]:
        images = "images" in PurePosixPath(file.path).name
        array = parse_idx(content, 3 if images else 1)
        if not images and array.size and array.max() >= entry.targets:
            raise MalformedError(f"labels must be below {entry.targets}; got {array.max()}")
        return array

    located = [find(entry, (file,), parse, verify=verify) for file in entry.files]
    places = list(dict.fromkeys(str(item.place) for item in located))
    x_train, y_train, x_test, y_test = (item.value for item in located)
    for x, y, part in ((x_train, y_train, "train"), (x_test, y_test, "test")):
        _check_equal(entry, f"number of {part} labels", len(x), len(y))
        _check_equal(entry, f"pixels of a {part} image", entry.features, prod(x.shape[1:]))
    pixels = [_to_pixels(x_train), _to_pixels(x_test)]
    return DataSet(
        entry.name,
        *(pixels[0], _to_labels(y_train), pixels[1], _to_labels(y_test)),
        feature_names=_pixel_names(pixels[0]),
        target_names=entry.target_names,
        source=f"{entry.name} was read from {' and '.join(places)}.",
        notes=("Pixels are divided by 255.",),
    )


def _to_pixels(images: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(np.divide(images, np.float32(255.0))).unsqueeze(1)


def _to_labels(labels: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(labels.astype(np.int64))


def _pixel_names(images: Tensor) -> tuple[str, ...]:
    height, width = images.shape[-2:]
    return tuple(f"pixel_{row}_{column}" for row in range(height) for column in range(width))


def _load_table(entry: DatasetEntry, standardize: bool, verify: bool) -> DataSet:
    def parse(file: DataFile, content: bytes) -> tuple[NumericTable, list[int]]:
        table = parse_table(content, file.path)
        return table, _target_columns(entry, table)

    located = find(entry, entry.files, parse, verify=verify)
    table, targets = located.value
    features = [column for column in range(len(table.names)) if column not in set(targets)]
    values, constant = _fill(table, standardize=standardize)
    rows = len(values)
    cut = int(TRAIN_SHARE * rows)
    notes = [located.file.note] if located.file.note else []
    unknown = np.isnan(table.values).sum(axis=0)
    if unknown.any():
        worst = int(unknown.argmax())
        notes.append(
            f"{unknown.sum()} of {table.values.size} cells are unknown"
            f" ({unknown[features].sum()} of features, {unknown[targets].sum()} of targets; most in"
            f" {table.names[worst]!r}: {unknown[worst]} of {rows}); the mean of their column's"
            " known cells stands in."
        )
    if standardize:
        notes.append("Each column has mean 0 and standard deviation 1 over the known cells.")
    if constant:
        notes.append(
            f"{constant} columns are constant" + (" and became 0." if standardize else ".")
        )
    if table.levels:
        notes.append(f"Nominal columns became numbers: {', '.join(table.levels)}.")
    notes.append(f"The first {cut} rows train, the other {rows - cut} test.")
    x = torch.from_numpy(values[:, features].astype(np.float32))
    y = torch.from_numpy(values[:, targets].astype(np.float32))
    return DataSet(
        entry.name,
        *(x[:cut].clone(), y[:cut].clone(), x[cut:].clone(), y[cut:].clone()),
        feature_names=tuple(table.names[column] for column in features),
        target_names=entry.target_names,
        source=f"{entry.name} was read from {located.place}.",
        notes=tuple(notes),
    )


def _target_columns(entry: DatasetEntry, table: NumericTable) -> list[int]:
    """Positions of the targets, found by name, since editions may differ in order."""
    expected = (entry.rows, entry.features + entry.targets)
    if table.values.shape != expected:
        raise MalformedError(f"it must have rows x columns {expected}; got {table.values.shape}")
    counts = [table.names.count(name) for name in entry.target_names]
    if counts != [1] * entry.targets:
        missing = [n for n, c in zip(entry.target_names, counts, strict=True) if c != 1]
        raise MalformedError(f"it must have each target once; not so for {', '.join(missing)}")
    for column in np.flatnonzero(np.isnan(table.values).all(axis=0)):
        raise MalformedError(f"column {table.names[column]!r} must have a known cell; it has none")
    return [table.names.index(name) for name in entry.target_names]


def _fill(table: NumericTable, *, standardize: bool) -> tuple[NDArray[np.float64], int]:
    """Unknown cells -> mean of the column; then (value - mean) / std if asked. Counts constants."""
    values = table.values
    unknown = np.isnan(values)
    mean = np.nanmean(values, axis=0)
    filled = np.where(unknown, mean, values)
    # Constant means no range: rounding may leave a tiny standard deviation.
    constant = np.nanmax(values, axis=0) == np.nanmin(values, axis=0)
    if standardize:
        scale = np.where(constant, 1.0, np.nanstd(values, axis=0))
        filled = np.where(constant, 0.0, (filled - mean) / scale)
    return filled, int(constant.sum())


def _check_equal(entry: DatasetEntry, what: str, expected: int, got: int) -> None:
    if expected != got:
        raise DataError(f"Data set {entry.name!r}: the {what} must be {expected}; got {got}.")

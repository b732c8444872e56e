"""Reading tables: numpy, pandas or torch in; one float array, or one sentence, out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _check_sample_weight, validate_data
from torch import Tensor

from proxlin.errors import InvalidInputError, InvalidTypeError

Array = NDArray[Any]  # float32 or float64
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

_FLOATS = (np.float64, np.float32)
_LONGEST = 1000  # characters of a message that may quote a cell
_LARGEST = 1e150  # a size whose squares can be added


def read_table(
    estimator: BaseEstimator,
    x: Any,
    *,
    reset: bool,
    allow_nan: bool = False,
    min_rows: int = 1,
    sparse: bool = False,
) -> Array:
    """The table x as an array (n, features) of float32 or float64, rows first.

    With `reset` the estimator learns the number and the names of the columns; without, they must
    be those it knows. float32 stays float32; all other numbers and booleans become float64. NaN
    passes only where `allow_nan`, infinity nowhere. Where `sparse`, a sparse matrix stays one, in
    rows and float64.
    """
    table: Array = _validated(
        estimator,
        **_host_table(x, sparse=sparse),
        reset=reset,
        ensure_all_finite=False,
        ensure_min_samples=min_rows,
    )
    _check_finite("X", table, allow_nan=allow_nan)
    return table


def _validated(estimator: BaseEstimator, **arguments: Any) -> Any:
    with our_errors():
        try:
            return validate_data(estimator, **arguments)
        except ValueError as cause:
            raise ValueError(f"{cause}{_text_column(arguments['X'])}") from cause


def _text_column(x: Any) -> str:
    """What to do about the first column of a frame that holds text."""
    for name, column in x.items() if isinstance(x, pd.DataFrame) else ():
        texts = [cell for cell in column if isinstance(cell, str)]
        if texts:
            return (
                f". Column {str(name)[:40]!r} holds text such as {texts[0][:40]!r}: encode it, for"
                " instance by scikit-learn's OneHotEncoder, or leave it out"
            )
    return ""


@contextmanager
def our_errors() -> Iterator[None]:
    """What scikit-learn, numpy and pandas say of a table, as an error of ours."""
    try:
        yield
    except (InvalidInputError, NotFittedError):
        raise
    except TypeError as cause:
        raise InvalidTypeError(str(cause)[:_LONGEST]) from cause
    except (ValueError, ArithmeticError) as cause:
        raise InvalidInputError(str(cause)[:_LONGEST]) from cause


def check_squares(table: Array, name: str = "X") -> Array:
    """Return `table` if its squares can be added, or say up to which size they can."""
    cells = table.data if issparse(table) else table
    lowest, highest = (f.reduce(cells, axis=None, initial=0.0) for f in (np.fmin, np.fmax))
    largest = float(max(-lowest, highest))  # NaN counts for nothing
    if largest > _LARGEST:
        raise InvalidInputError(
            f"{name} must have cells up to {_LARGEST:.0e} in size, the squares of which can be"
            f" added; got {largest:.3g}. Divide {name} by that."
        )
    return table


def read_codes(x: Any, width: int) -> Array:
    """Codes or embeddings (n, width), such as `transform` returned."""
    codes = read_table(BaseEstimator(), x, reset=True)
    if codes.shape[1] != width:
        raise InvalidInputError(
            f"X must have n_components = {width} columns; got {codes.shape[1]}. Pass what transform"
            " returned."
        )
    return codes


def read_pair(
    estimator: BaseEstimator,
    x: Any,
    y: Any,
    *,
    reset: bool,
    min_rows: int = 1,
    sparse: bool = False,
) -> tuple[Array, Array]:
    """The table x as in `read_table`, and its targets as (n, targets) or (n,), as they came.

    With `reset` the estimator learns the names of the targets, if they have some.
    """
    pair = _validated(
        estimator,
        **_host_table(x, sparse=sparse),
        y=None if y is None else _numbers(_as_host_table("y", y)),
        reset=reset,
        ensure_all_finite=False,  # said below in fewer words
        multi_output=True,
        y_numeric=True,
        ensure_min_samples=min_rows,
    )
    table, targets = pair
    _check_finite("X", table, allow_nan=False)
    if targets.ndim == 2 and targets.shape[1] == 0:
        raise InvalidInputError(
            f"y must have at least one target; got shape {targets.shape}. Pass the columns to"
            " predict."
        )
    if targets.dtype not in _FLOATS:
        targets = targets.astype(np.float64)
    _check_finite("y", targets.reshape(len(targets), -1), allow_nan=False)
    if reset:
        estimator._target_names_ = _target_names(y)
    return table, targets


def _target_names(y: Any) -> tuple[str, ...] | None:
    """Those of a frame's columns or of a series, if all are text."""
    names = tuple(getattr(y, "columns", (getattr(y, "name", None),)))
    return names if all(isinstance(name, str) and name for name in names) else None


def _numbers(targets: Any) -> Any:
    """The targets, unless they are text that is no number."""
    if not isinstance(targets, (list, tuple, np.ndarray, pd.Series, pd.DataFrame)):
        return targets
    with our_errors():
        cells = np.asarray(targets)
    if cells.dtype.kind not in "USO":
        return targets
    for cell in cells.reshape(-1):
        try:
            float(cell) if isinstance(cell, str) else None
        except ValueError:
            raise InvalidInputError(
                f"y must hold numbers; got the text {cell[:40]!r}. Encode it, or pass the"
                " column to predict."
            ) from None
    return targets


def read_weights(sample_weight: Any, x: Array) -> NDArray[np.float64] | None:
    """Non-negative weights of the rows, not all of them zero, or None for equal ones."""
    if sample_weight is None:
        return None
    given = _as_host_table("sample_weight", sample_weight)
    weights: NDArray[np.float64]
    with our_errors():
        shape = np.asarray(given).shape
        if shape not in ((), (x.shape[0],)):
            raise InvalidInputError(
                f"sample_weight must hold one number for each of {x.shape[0]} rows; got shape"
                f" {shape}."
            )
        weights = _check_sample_weight(given, x, dtype=np.float64)
    if weights.min() < 0:
        raise InvalidInputError(
            f"sample_weight must be >= 0; got a smallest weight of {weights.min():g}."
        )
    if not weights.any():
        raise InvalidInputError("sample_weight must not be zero for every row; all of them are.")
    return weights


def as_tensor(
    array: Array, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> Tensor:
    """A tensor of its own memory unless type and device already fit; one row per row."""
    writable = array if array.flags.writeable else array.copy()
    return torch.from_numpy(np.ascontiguousarray(writable)).to(device=device, dtype=dtype)


def as_array(tensor: Tensor) -> Array:
    """A float64 array in main memory."""
    array: Array = tensor.detach().cpu().double().numpy()
    return array


def _host_table(x: Any, *, sparse: bool) -> dict[str, Any]:
    """How scikit-learn is to read the table."""
    if sparse and issparse(x):
        return {"X": x, "dtype": np.float64, "accept_sparse": "csr", "accept_large_sparse": False}
    table = _as_host_table("X", x)
    flat = isinstance(table, list | tuple) and not any(hasattr(row, "__len__") for row in table)
    if flat or (isinstance(table, np.ndarray) and table.ndim < 2):
        raise InvalidInputError(
            f"X must have two dimensions, one row a sample; got shape {np.shape(table)}. Reshape"
            " your data: X.reshape(-1, 1) if it is one feature, X.reshape(1, -1) if it is one"
            " sample."
        )
    return {"X": table, "dtype": _FLOATS}


def _as_host_table(name: str, x: Any) -> Any:
    """What scikit-learn can read: tensors in main memory, no sparse matrix, no repeated names."""
    if isinstance(x, Tensor):
        if x.layout != torch.strided or x.is_complex():
            raise InvalidInputError(
                f"{name} must be a dense tensor of real numbers; got a sparse or complex one."
                " Complex data not supported; convert sparse data with .to_dense()."
            )
        plain = x.detach().cpu()
        return (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy()
    if hasattr(x, "toarray") and not isinstance(x, np.ndarray):
        raise InvalidInputError(
            f"{name} must be dense here; got the sparse {type(x).__name__}. Convert it with"
            " .toarray() if it fits into memory."
        )
    if getattr(getattr(x, "dtype", None), "kind", "") == "c":
        raise InvalidInputError(f"Complex data not supported: {name} must hold real numbers.")
    if getattr(x, "columns", None) is not None:
        _check_names(name, list(x.columns))
        _check_no_times(name, x)
        if not isinstance(x, pd.DataFrame) and hasattr(x, "to_numpy"):  # polars
            # scikit-learn 1.6 does not see the names of its columns.
            return pd.DataFrame(x.to_numpy(), columns=list(x.columns))
    elif x is None or np.isscalar(x) or isinstance(x, dict):
        raise InvalidInputError(
            f"{name} must be a table or an array; got {type(x).__name__}. Pass one row a sample."
        )
    return x


def _check_finite(name: str, table: Array, *, allow_nan: bool) -> None:
    if issparse(table):
        if not np.isfinite(table.data).all():
            raise InvalidInputError(f"{name} must not hold NaN or infinity; some cells do.")
        return
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(table.sum()):  # which neither NaN nor infinity leave finite
            return
    for kind, bad in (("NaN", np.isnan), ("infinity", np.isinf)):
        cells = bad(table)
        if cells.any() and not (allow_nan and kind == "NaN"):
            row, column = np.argwhere(cells)[0]
            raise InvalidInputError(
                f"{name} must not hold {kind}; {int(cells.sum())} of {cells.size} cells do, the"
                f" first in row {row}, column {column}. Drop or impute them."
            )


def _check_names(name: str, columns: Sequence[Any]) -> None:
    kinds = {isinstance(column, str) for column in columns}
    if len(kinds) > 1:
        raise InvalidInputError(
            f"{name} must have column names of one kind; got strings and others. Convert them with"
            f" {name}.columns.astype(str)."
        )
    _check_unique(name, [str(column) for column in columns])


def _check_no_times(name: str, frame: Any) -> None:
    times = [
        str(column)
        for column, kind in zip(frame.columns, frame.dtypes, strict=True)
        if getattr(kind, "kind", "") in ("m", "M")
    ]
    if times:
        raise InvalidInputError(
            f"{name} must hold numbers, not times, as in {', '.join(map(repr, times[:5]))}. Turn"
            " them into numbers, such as days since a first one."
        )


def _check_unique(name: str, columns: Sequence[str]) -> None:
    if len(set(columns)) == len(columns):
        return
    repeated = sorted({column for column in columns if columns.count(column) > 1})
    raise InvalidInputError(
        f"{name} must not name a column twice; got copies of {', '.join(map(repr, repeated[:5]))}."
        " Rename or drop them."
    )

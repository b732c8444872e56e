"""What a run remembers as tensors and JSON, and back.

Nothing is ever built from a file alone: its content is put into a memory that was made afresh, and
refused where it does not fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import repeat
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from proxlin.errors import CheckpointError

Record = dict[str, float]
Plain = None | bool | int | float | str | list[Any] | dict[str, Any]  # what JSON can hold

_MOST = 2**53  # of anything that is counted: a float holds every whole number up to there


@dataclass
class Serialized:
    """A memory as a tree of JSON whose leaves name the tensors."""

    tree: Plain = None
    tensors: dict[str, Tensor] = field(default_factory=dict)  # by the path to where they belong


def serialize(memory: Any) -> Serialized:
    """Copies of all that the memory holds; later changes of it do not reach them."""
    parts = Serialized()
    parts.tree = _store(memory, "", parts.tensors)
    return parts


def restore(fresh: Any, parts: Serialized, device: torch.device) -> Any:
    """The memory that was taken apart, in the objects of `fresh` wherever it has some.

    An empty tensor, list or dict and None in `fresh` stand for what was not known yet. In our own
    dataclasses whole numbers are counts, and fields whose metadata say `fixed` never change.
    """
    try:
        return _Reader(parts.tensors, device).read(fresh, parts.tree, "")
    except CheckpointError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as e:
        raise CheckpointError(
            f"the checkpoint does not hold what this run remembers ({type(e).__name__}: {e})."
        ) from e


def _store(value: Any, path: str, tensors: dict[str, Tensor]) -> Plain:
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": repr(value)}  # JSON has no NaN and no infinity
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor | torch.Generator):
        return _store_tensor(value, path, tensors)
    if isinstance(value, list | tuple):
        return _store_list(value, path, tensors)
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"entries": _store_named(value.items(), path, tensors)}
    if is_dataclass(value) and not isinstance(value, type):
        named = [(item.name, getattr(value, item.name)) for item in fields(value)]
        return {"fields": _store_named(named, path, tensors), "of": type(value).__name__}
    raise CheckpointError(
        f"a checkpoint keeps tensors, numbers, text, generators, lists, dicts and dataclasses of"
        f" them; {path.lstrip('.')} is a {type(value).__name__}. Make it a dataclass."
    )


def _store_list(values: Sequence[Any], path: str, tensors: dict[str, Tensor]) -> Plain:
    if _is_table(values):
        return _store_table(values, path, tensors)
    return [_store(value, f"{path}.{i}", tensors) for i, value in enumerate(values)]


def _store_tensor(
    value: Tensor | torch.Generator, path: str, tensors: dict[str, Tensor]
) -> dict[str, Any]:
    if isinstance(value, torch.Generator):
        tensors[path] = value.get_state()
        return {"generator": path}
    copy = value.detach().to("cpu", copy=True)
    # The file is row-major, yet the last bits of a product may depend on the order in memory.
    strides = copy.stride()
    order = sorted(range(copy.ndim), key=lambda i: (-strides[i], i))
    tensors[path] = copy.permute(order).contiguous()
    return {"tensor": path} if order == sorted(order) else {"tensor": path, "order": order}


def _store_named(
    named: Iterable[tuple[str, Any]], path: str, tensors: dict[str, Tensor]
) -> dict[str, Plain]:
    return {name: _store(value, f"{path}.{name}", tensors) for name, value in named}


@dataclass
class _Reader:
    """Puts stored values in the place of fresh ones."""

    tensors: Mapping[str, Tensor]
    device: torch.device

    def read(self, fresh: Any, stored: Plain, path: str) -> Any:
        if stored is None:
            if isinstance(fresh, int | float):
                raise _misfit(path, type(fresh).__name__, "nothing")
            return None
        if isinstance(stored, list):
            return self._list(fresh, stored, path)
        kinds = {
            "tensor": self._tensor,
            "generator": self._generator,
            "table": self._table,
            "entries": self._entries,
            "fields": self._fields,
        }
        kind = next((name for name in kinds if isinstance(stored, dict) and name in stored), "")
        return kinds.get(kind, self._leaf)(fresh, stored, path)

    def _leaf(self, fresh: Any, stored: Any, path: str) -> Any:
        value = float(stored["number"]) if isinstance(stored, dict) else stored
        if fresh is not None and _sort(fresh) is not _sort(value):
            raise _misfit(path, type(fresh).__name__, type(value).__name__)
        return float(value) if type(fresh) is float else value  # beyond a float: refused

    def _tensor(self, fresh: Any, stored: Any, path: str) -> Tensor:
        tensor = self.tensors[stored["tensor"]]
        if "order" in stored:
            back = sorted(range(tensor.ndim), key=stored["order"].__getitem__)
            tensor = tensor.permute(back)
        if fresh is None or (isinstance(fresh, Tensor) and not fresh.numel()):
            return tensor.to(self.device, copy=True)
        if not isinstance(fresh, Tensor):
            raise _misfit(path, type(fresh).__name__, "tensor")
        if fresh.shape != tensor.shape or fresh.dtype != tensor.dtype:
            raise _misfit(path, _describe(fresh), _describe(tensor))
        return tensor.to(fresh.device, copy=True)

    def _generator(self, fresh: Any, stored: Any, path: str) -> torch.Generator:
        if not isinstance(fresh, torch.Generator):
            raise _misfit(path, type(fresh).__name__, "generator")
        fresh.set_state(self.tensors[stored["generator"]].clone())
        return fresh

    def _fields(self, fresh: Any, stored: Any, path: str) -> Any:
        kind = type(fresh)
        if not is_dataclass(kind) or kind.__name__ != stored["of"]:
            raise _misfit(path, kind.__name__, stored["of"])
        now = {item.name: getattr(fresh, item.name) for item in fields(kind)}
        values = self._named(now, stored["fields"], path)
        if kind.__module__.startswith("proxlin."):
            _check_fields(kind, now, values, path)
        if kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return replace(fresh, **values)
        for name, value in values.items():
            setattr(fresh, name, value)
        return fresh

    def _table(self, fresh: Any, stored: Any, path: str) -> list[Record]:
        if fresh is not None and fresh != []:
            raise _misfit(path, type(fresh).__name__, "a table")
        return _read_table(stored, self.tensors)

    def _entries(self, fresh: Any, stored: Any, path: str) -> dict[str, Any]:
        if fresh is None or fresh == {}:
            fresh = dict.fromkeys(stored["entries"])
        if not isinstance(fresh, dict):
            raise _misfit(path, type(fresh).__name__, "dict")
        return self._named(fresh, stored["entries"], path)

    def _named(self, fresh: dict[str, Any], stored: Any, path: str) -> dict[str, Any]:
        if fresh.keys() != stored.keys():
            raise _misfit(path, ", ".join(fresh), ", ".join(stored))
        return {name: self.read(fresh[name], stored[name], f"{path}.{name}") for name in fresh}

    def _list(self, fresh: Any, stored: Any, path: str) -> Any:
        if fresh is None or fresh == []:
            fresh = [None] * len(stored)
        if not isinstance(fresh, list | tuple) or len(fresh) != len(stored):
            sized = isinstance(fresh, list | tuple)
            wanted = f"{len(fresh)} parts" if sized else type(fresh).__name__
            raise _misfit(path, wanted, f"{len(stored)} parts")
        pairs = enumerate(zip(fresh, stored, strict=True))
        return type(fresh)([self.read(new, old, f"{path}.{i}") for i, (new, old) in pairs])


def _sort(value: Any) -> type:
    """Whole numbers and others are exchanged freely, as Python does; True is no number."""
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _check_fields(
    kind: type, fresh: Mapping[str, Any], values: Mapping[str, Any], path: str
) -> None:
    """Refuse what the annotations of a dataclass of ours do not allow."""
    hints = get_type_hints(kind)
    for item in fields(kind):
        old, new, hint = fresh[item.name], values[item.name], hints[item.name]
        at = f"{path}.{item.name}"
        if item.metadata.get("fixed") and old != new:
            raise _misfit(at, repr(old), repr(new))
        parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if int in parts and new is not None and not is_count(new):
            raise _misfit(at, "a count", repr(new))
        kinds = [float if part is int else get_origin(part) or part for part in parts]
        if (old is None) != (new is None) and _sort(new) not in kinds:
            raise _misfit(at, str(hint), type(new).__name__)


def is_count(value: Any) -> bool:
    """Whether it is a whole number, from 0 to what a float can count."""
    return type(value) is int and 0 <= value <= _MOST


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def _misfit(path: str, expected: str, got: str) -> CheckpointError:
    return CheckpointError(f"{path.lstrip('.')} must be {expected}; the checkpoint has {got}.")


# Records of numbers are kept as columns: a long history takes moments instead of seconds.


def _is_table(values: Sequence[Any]) -> bool:
    """Whether all are dicts of numbers by name, and there is something to keep."""
    return all(
        isinstance(record, dict)
        and record
        and all(type(name) is str and type(cell) in (int, float) for name, cell in record.items())
        for record in values
    ) and bool(values)


def _store_table(
    records: Sequence[Record], path: str, tensors: dict[str, Tensor]
) -> dict[str, Any]:
    """Put a column for each name into `tensors`, int64 or float64, and one for its gaps if any."""
    names = dict.fromkeys(name for record in records for name in record)
    for name in names:
        cells = [record.get(name) for record in records]
        given = [cell is not None for cell in cells]
        whole = all(cell is None or isinstance(cell, int) for cell in cells)
        filled = [0 if cell is None else cell for cell in cells]
        kind = torch.int64 if whole else torch.float64
        tensors[f"{path}.{name}"] = torch.tensor(filled, dtype=kind)
        if not all(given):
            tensors[f"{path}?{name}"] = torch.tensor(given)
    return {"table": path, "columns": list(names)}


def _read_table(stored: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> list[Record]:
    """The records that `_store_table` took apart."""
    columns = []
    for name in stored["columns"]:
        path = stored["table"]
        gaps = tensors.get(f"{path}?{name}")
        given = repeat(True) if gaps is None else gaps.tolist()
        columns.append(zip(tensors[f"{path}.{name}"].tolist(), given, strict=False))
    return [
        {name: cell for name, (cell, given) in zip(stored["columns"], row, strict=True) if given}
        for row in zip(*columns, strict=True)
    ]

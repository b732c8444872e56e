"""What a run remembers, taken apart into tensors and JSON, and put together again.

Nothing is ever built from a file alone: its content is put into a memory that was made afresh, and
refused where it does not fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from proxlin.errors import CheckpointError
from proxlin.run.checkpoint.table import Record, is_table, read_table, store_table

Plain = None | bool | int | float | str | list[Any] | dict[str, Any]  # what JSON can hold


@dataclass
class Parts:
    """A memory as a tree of JSON whose leaves name the tensors."""

    tree: Plain = None
    tensors: dict[str, Tensor] = field(default_factory=dict)  # by the path to where they belong


def take_apart(memory: Any) -> Parts:
    """Copies of all that the memory holds; later changes of it do not reach them."""
    parts = Parts()
    parts.tree = _store(memory, "", parts.tensors)
    return parts


def put_together(fresh: Any, parts: Parts, device: torch.device) -> Any:
    """The memory that was taken apart, in the objects of `fresh` wherever it has some.

    An empty tensor, list or dict and None in `fresh` stand for what was not known yet.
    """
    return _Reader(parts.tensors, device).read(fresh, parts.tree, "")


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
        named = [(one.name, getattr(value, one.name)) for one in fields(value)]
        return {"fields": _store_named(named, path, tensors), "of": type(value).__name__}
    raise CheckpointError(
        f"a checkpoint keeps tensors, numbers, text, generators, lists, dicts and dataclasses of"
        f" them; {path.lstrip('.')} is a {type(value).__name__}. Make it a dataclass."
    )


def _store_list(values: Sequence[Any], path: str, tensors: dict[str, Tensor]) -> Plain:
    if is_table(values):
        return store_table(values, path, tensors)
    return [_store(one, f"{path}.{i}", tensors) for i, one in enumerate(values)]


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
        kind = next((one for one in kinds if isinstance(stored, dict) and one in stored), "")
        return kinds.get(kind, self._leaf)(fresh, stored, path)

    def _leaf(self, fresh: Any, stored: Any, path: str) -> Any:
        value = float(stored["number"]) if isinstance(stored, dict) else stored
        if fresh is not None and _sort(fresh) is not _sort(value):
            raise _misfit(path, type(fresh).__name__, type(value).__name__)
        return value

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
        now = {one.name: getattr(fresh, one.name) for one in fields(kind)}
        values = self._named(now, stored["fields"], path)
        if kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return replace(fresh, **values)
        for name, value in values.items():
            setattr(fresh, name, value)
        return fresh

    def _table(self, fresh: Any, stored: Any, path: str) -> list[Record]:
        if fresh is not None and fresh != []:
            raise _misfit(path, type(fresh).__name__, "a table")
        return read_table(stored, self.tensors)

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
        return type(fresh)([self.read(one, other, f"{path}.{i}") for i, (one, other) in pairs])


def _sort(value: Any) -> type:
    """Whole numbers and others are exchanged freely, as Python does; True is no number."""
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def _misfit(path: str, expected: str, got: str) -> CheckpointError:
    return CheckpointError(f"{path.lstrip('.')} must be {expected}; the checkpoint has {got}.")

"""Records of numbers as columns: a long history takes moments to keep instead of seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

Record = dict[str, float]


def is_table(values: Sequence[Any]) -> bool:
    """Whether all are dicts of numbers by name, and there is something to keep."""
    return all(
        isinstance(one, dict)
        and one
        and all(type(name) is str and type(number) in (int, float) for name, number in one.items())
        for one in values
    ) and bool(values)


def store_table(records: Sequence[Record], path: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
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


def read_table(stored: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> list[Record]:
    """The records that `store_table` took apart."""
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

"""Packages that few tables need and that are large: loaded when one comes, or asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from proxlin.errors import InvalidInputError


def openpyxl() -> Any:
    """What reads and writes Excel tables."""
    return _extra("openpyxl", "Excel", "excel")


def pyarrow() -> Any:
    """What reads and writes Parquet tables, with its part for such files."""
    _extra("pyarrow.parquet", "Parquet", "parquet")
    return import_module("pyarrow")


def _extra(module: str, kind: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as cause:
        package = module.split(".", maxsplit=1)[0]
        raise InvalidInputError(
            f'{kind} needs {package}; run pip install "proxlin[{extra}]".'
        ) from cause

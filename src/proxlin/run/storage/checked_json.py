"""JSON that carries a checksum of its own content, so that damage does not go unnoticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_SEAL = "checksum"  # the key under which it stands beside the content


def sealed(body: Mapping[str, Any], *, indent: int | None = None) -> bytes:
    """The body as JSON with its checksum; it must not hold NaN or infinity, which JSON lacks.

    >>> sealed({"a": 1})[:24]
    b'{"a": 1, "checksum": "01'
    """
    whole = {**body, _SEAL: _seal(body)}
    return json.dumps(whole, indent=indent, allow_nan=False).encode()


def opened(whole: Mapping[str, Any]) -> dict[str, Any] | None:
    """The body of what was read from such JSON, without its checksum; None if that is wrong.

    >>> opened({"a": 2, "checksum": "01"}) is None
    True
    """
    body = {key: value for key, value in whole.items() if key != _SEAL}
    return body if whole.get(_SEAL) == _seal(body) else None


def digest(content: bytes) -> str:
    """The SHA-256 of the content in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _seal(body: Mapping[str, Any]) -> str:
    return digest(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())

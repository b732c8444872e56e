"""What the tests of the four ways share."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager

from proxlin.data import DataFile, load_dataset
from tests.data.conftest import ARFF, Server, sha256

IMAGE_FILES = [
    "tiny/t10k-images.gz",
    "tiny/t10k-labels.gz",
    "tiny/train-images.gz",
    "tiny/train-labels.gz",
]


def variant(shift: float) -> bytes:
    """The table with another first cell, to tell the places apart."""
    return ARFF.replace("1.0, 10", f"{shift}, 10").encode()


def served(server: Server, content: bytes) -> DataFile:
    """The table's file with `content`, pinned, where `server` has it."""
    url = f"{server.url}/tables/tiny.arff.gz"
    return DataFile(path="tables/tiny.arff", sha256=sha256(content), urls=(url,))


def first_cell(**options: bool) -> float:
    data = load_dataset("tiny-table", standardize=False, **options)
    return float(data.x_train[0, 0])


def damage(kind: str, content: bytes) -> bytes:
    packed = gzip.compress(content)
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    return {
        "empty": b"",
        "gzip cut off": packed[:-20],
        "gzip header only": packed[:6],
        "gzip bit flip": bytes(flipped),
        "gzip with a tail": packed + b"tail",
        "not gzip": b"<html>not found</html>",
        "wrong magic": gzip.compress(b"\x00\x00\x08\x07" + content[4:]),
        "short payload": gzip.compress(content[:-1]),
        "one byte changed": gzip.compress(content[:-1] + bytes([content[-1] ^ 1])),
    }[kind]


DAMAGES = [
    "empty",
    "gzip cut off",
    "gzip header only",
    "gzip bit flip",
    "gzip with a tail",
    "not gzip",
    "wrong magic",
    "short payload",
    "one byte changed",
]


@contextmanager
def unprivileged() -> Iterator[None]:
    """File permissions do not bind root, so root steps down for a moment."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)

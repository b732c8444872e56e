"""Small data sets in every format, an isolated environment, and a server on this machine."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from proxlin.data import DataFile, DatasetEntry
from proxlin.data.registry import REGISTRY

REAL_DATA = os.environ.get("PROXLIN_DATA")  # before the tests hide it


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache for each test, no PROXLIN_DATA, and no way round the local server."""
    folder = tmp_path / "cache"
    monkeypatch.delenv("PROXLIN_DATA", raising=False)
    monkeypatch.setenv("PROXLIN_CACHE", str(folder))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return folder


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> None:
    if REAL_DATA is None:
        pytest.skip("PROXLIN_DATA is not set: no real data at hand")
    monkeypatch.setenv("PROXLIN_DATA", REAL_DATA)


def encode_idx(array: np.ndarray) -> bytes:
    header = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(
        f">{array.ndim}I", *array.shape
    )
    return header + array.astype(np.uint8).tobytes()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def files_below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@dataclass
class Answer:
    """What the server says to one path; `announced` may promise more bytes than follow."""

    body: bytes = b""
    status: int = 200
    announced: int | None = None
    headers: dict[str, str] = field(default_factory=dict)


class Server:
    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                answer = outer.answers.get(self.path, Answer(status=404))
                self.send_response(answer.status)
                length = len(answer.body) if answer.announced is None else answer.announced
                self.send_header("Content-Length", str(length))
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None: ...

        self._httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._httpd.server_port}"
        self._thread = threading.Thread(target=self._httpd.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._httpd.shutdown()
        self._thread.join()
        self._httpd.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@dataclass(frozen=True)
class Small:
    """A registered data set and the content of its files by path."""

    entry: DatasetEntry
    contents: dict[str, bytes]

    def put(self, folder: Path, *, packed: bool = True) -> Path:
        for path, content in self.contents.items():
            target = folder / (f"{path}.gz" if packed else path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(gzip.compress(content) if packed else content)
        return folder

    def serve(self, server: Server, prefix: str = "/") -> None:
        for path, content in self.contents.items():
            server.answers[f"{prefix}{path}.gz"] = Answer(gzip.compress(content))


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch, server: Server) -> Small:
    """Seven train and three test images of 4 x 4 pixels, registered as `tiny-images`."""
    rng = np.random.default_rng(0)
    arrays = {
        "tiny/train-images": rng.integers(0, 256, (7, 4, 4)),
        "tiny/train-labels": rng.integers(0, 3, 7),
        "tiny/t10k-images": rng.integers(0, 256, (3, 4, 4)),
        "tiny/t10k-labels": rng.integers(0, 3, 3),
    }
    contents = {path: encode_idx(array) for path, array in arrays.items()}
    entry = DatasetEntry(
        name="tiny-images",
        description="random bytes",
        kind="images",
        rows=10,
        features=16,
        targets=3,
        licence="none",
        files=tuple(
            DataFile(path=path, sha256=sha256(content), urls=(f"{server.url}/{path}.gz",))
            for path, content in contents.items()
        ),
        target_names=("a", "b", "c"),
    )
    monkeypatch.setitem(REGISTRY, entry.name, entry)
    return Small(entry, contents)


ARFF = """% a comment
@RELATION 'a table'
@attribute "first feature" NUMERIC
@attribute y1 real
@attribute second Integer
@attribute y2 numeric

@DATA
1.0, 10, 1, 5
2.0, 20, ?, 5
3.5, 30, 3, 5
?,   40, 4, 5
5.0, 50, 6, 5
"""


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Small:
    """Five rows, two features with two unknown cells, two targets; registered as `tiny-table`.

    Its checksum is not known: it is never downloaded.
    """
    contents = {"tables/tiny.arff": ARFF.encode()}
    entry = DatasetEntry(
        name="tiny-table",
        description="made up",
        kind="table",
        rows=5,
        features=2,
        targets=2,
        licence="none",
        files=(DataFile(path="tables/tiny.arff"),),
        target_names=("y2", "y1"),
    )
    monkeypatch.setitem(REGISTRY, entry.name, entry)
    return Small(entry, contents)

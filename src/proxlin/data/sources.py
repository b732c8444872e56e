"""Where data files come from: own folder, cache, system package, download; in that order."""

from __future__ import annotations

import gzip
import hashlib
import io
import logging
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import pooch

from proxlin.data.formats import GZIP_MAGIC, MalformedError, unpacked
from proxlin.data.registry import DataFile, DatasetEntry
from proxlin.errors import DataError

logger = logging.getLogger("proxlin")

T = TypeVar("T")
Parser = Callable[[DataFile, bytes], T]

ADVICE = " Replace it, or load with verify=False if it is another edition on purpose."
_MOST_UNPACKED = 2 << 30  # bytes: the largest file has 47 MB
TIMEOUT = (10.0, 60.0)  # seconds to connect, seconds between two pieces of an answer


@dataclass(frozen=True)
class LocatedFile(Generic[T]):
    """The parsed content of a file, which of the alternatives it was, and where it was."""

    file: DataFile
    value: T
    place: str


@dataclass(frozen=True)
class _FileRequest(Generic[T]):
    """Alternative files, any of which serves, and how to accept their content."""

    entry: DatasetEntry
    files: tuple[DataFile, ...]
    parse: Parser[T]
    verify: bool

    def accept(self, file: DataFile, content: bytes, place: str, advice: str = "") -> T:
        """Check the checksum where one is known, then parse."""
        if self.verify and file.sha256 is not None:
            actual = hashlib.sha256(content).hexdigest()
            if actual != file.sha256:
                raise DataError(
                    f"{place} is damaged: the sha256 of its content must be"
                    f" {file.sha256[:12]}...; got {actual[:12]}... ({len(content)} bytes)." + advice
                )
        try:
            return self.parse(file, content)
        except MalformedError as error:
            raise DataError(f"{place} is damaged: {error}.{advice}") from error


class _Unavailable(Exception):  # noqa: N818 - not an error: the next way is tried
    """Why one of the ways does not lead to the file."""


def find(
    entry: DatasetEntry, files: tuple[DataFile, ...], parse: Parser[T], *, verify: bool = True
) -> LocatedFile[T]:
    """Parse the first of `files` that any of the four ways leads to.

    A file in PROXLIN_DATA that is there but damaged raises at once, since that folder is the
    user's explicit choice. A damaged file in the cache or in a system folder is passed over with
    a logged warning, and a download replaces the one in the cache.
    """
    request = _FileRequest(entry, files, parse, verify)
    reasons: list[str] = []
    for source in (_own_folder, _cache, _system_folder, _download):
        try:
            return source(request)
        except _Unavailable as reason:
            reasons.append(f"({len(reasons) + 1}) {reason}")
    names = " or ".join(f"{file.path}[.gz]" for file in files)
    raise DataError(
        f"Data set {entry.name!r} cannot be loaded: four ways were tried for {names}. "
        + " ".join(reasons)
        + " Put the file into a folder and set PROXLIN_DATA to it."
    )


def cache_folder() -> Path:
    """The folder PROXLIN_CACHE, else the user's cache folder of this operating system."""
    return Path(os.environ.get("PROXLIN_CACHE") or pooch.os_cache("proxlin")).expanduser()


def _own_folder(request: _FileRequest[T]) -> LocatedFile[T]:
    setting = os.environ.get("PROXLIN_DATA")
    if not setting:
        raise _Unavailable("PROXLIN_DATA: not set.")
    folder = Path(setting).expanduser()
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise DataError(
            f"PROXLIN_DATA must name a folder that can be read; {str(folder)!r} cannot"
            f" ({error.strerror}). Correct it or unset it."
        ) from error
    return _search("PROXLIN_DATA", folder, request)


def _cache(request: _FileRequest[T]) -> LocatedFile[T]:
    return _search_tolerantly("Cache", cache_folder(), request)


def _system_folder(request: _FileRequest[T]) -> LocatedFile[T]:
    entry = request.entry
    if entry.system_folder is None:
        raise _Unavailable("System package: none is known for this data set.")
    title = f"System package {entry.system_package}"
    return _search_tolerantly(title, Path(entry.system_folder), request)


def _search_tolerantly(title: str, folder: Path, request: _FileRequest[T]) -> LocatedFile[T]:
    try:
        return _search(title, folder, request)
    except DataError as error:
        logger.warning("%s Trying the next place.", error)
        raise _Unavailable(f"{title}: {error}") from error


def _search(title: str, folder: Path, request: _FileRequest[T]) -> LocatedFile[T]:
    for file in request.files:
        for path in (folder / f"{file.path}.gz", folder / file.path):
            content = _read(path)
            if content is not None:
                value = request.accept(file, content, str(path), ADVICE)
                return LocatedFile(file, value, f"{folder} ({title})")
    raise _Unavailable(f"{title}: no such file in {folder}.")


def _read(path: Path) -> bytes | None:
    """The uncompressed content, or None where there is no such file."""
    try:
        return _decompress(path.read_bytes(), str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path} cannot be read ({error.strerror}). Check its permissions or remove it."
        ) from error


def _decompress(content: bytes, place: str) -> bytes:
    try:
        return unpacked(content, _MOST_UNPACKED)
    except MalformedError as error:
        raise DataError(f"{place} is damaged: {error}. Replace it.") from error


def _download(request: _FileRequest[T]) -> LocatedFile[T]:
    reasons: list[str] = []
    for file in request.files:
        for url in file.urls:
            try:
                body = _get(url)
                content = _decompress(body, url)
                value = replace(request, verify=True).accept(file, content, url)
            except DataError as error:
                logger.warning("%s", error)
                reasons.append(str(error))
                continue
            packed = body.startswith(GZIP_MAGIC)
            _store(cache_folder() / f"{file.path}.gz", body if packed else _compress(content))
            return LocatedFile(file, value, f"{url} (download)")
    if not reasons:
        pages = " or ".join(file.page for file in request.files if file.page)
        reasons.append(f"no address with a known checksum{pages and f'; see {pages}'}.")
    raise _Unavailable("Download: " + " ".join(reasons))


def _get(url: str) -> bytes:
    logger.info("Downloading %s", url)
    body = io.BytesIO()
    fetch = pooch.HTTPDownloader(chunk_size=2**16, timeout=TIMEOUT)
    try:
        fetch(url, body, None)
    except OSError as error:  # all of requests' errors are OSErrors
        response = getattr(error, "response", None)
        why = type(error).__name__ if response is None else f"HTTP status {response.status_code}"
        raise DataError(f"{url} gave no complete answer ({why}).") from error
    return body.getvalue()


def _compress(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=6, mtime=0)


def _store(path: Path, content: bytes) -> None:
    """Write all of `content` or nothing: a temporary file takes the place of `path` when done."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as handle:
                handle.write(content)
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, path)
        except BaseException:  # also when interrupted: nothing half-written stays
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise DataError(
            f"{path.name} ({len(content) / 1e6:.1f} MB) cannot be stored in the cache folder"
            f" {path.parent} ({error.strerror}). Make room there, or set PROXLIN_CACHE to another"
            " folder."
        ) from error

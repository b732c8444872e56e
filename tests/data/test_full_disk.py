"""A cache that cannot be written: nothing half-written stays, and the error says what to do."""

from __future__ import annotations

import errno
import gzip
import os
import resource
import subprocess
from pathlib import Path

import pytest

from proxlin.data import load_dataset
from proxlin.errors import DataError
from tests.data.conftest import Server, Small, files_below
from tests.data.ways import unprivileged


class TestFullDisk:
    """Nothing half-written stays, and the sentence says what to do."""

    @pytest.fixture(autouse=True)
    def _served(self, images: Small, server: Server) -> None:
        images.serve(server)

    def fails(self) -> str:
        with pytest.raises(DataError, match="cannot be stored in the cache folder") as error:
            load_dataset("tiny-images")
        assert "set PROXLIN_CACHE to another folder" in str(error.value)
        return str(error.value)

    def test_no_space_at_the_end_of_writing(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        assert "No space left on device" in self.fails()
        assert files_below(cache) == []

    def test_failing_to_take_the_place_leaves_what_was_there(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = cache / "tiny/train-images.gz"
        old.parent.mkdir(parents=True)
        old.write_bytes(b"old and damaged")

        def refuse(*_: object) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "replace", refuse)
        assert "Input/output error" in self.fails()
        assert files_below(cache) == ["tiny/train-images.gz"]
        assert old.read_bytes() == b"old and damaged"

    def test_file_size_limit_in_the_middle_of_writing(self, cache: Path) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        try:
            message = self.fails()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "File too large" in message
        assert files_below(cache) == []

    def test_real_disk_without_space(self, cache: Path) -> None:
        cache.mkdir()
        page = os.sysconf("SC_PAGE_SIZE")
        mount = ["mount", "-t", "tmpfs", "-o", f"size={2 * page}", "tmpfs", str(cache)]
        try:
            mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        except OSError:
            mounted = False
        if not mounted:
            pytest.skip("a small file system cannot be mounted here")
        try:
            (cache / "filler").write_bytes(b"x" * page)
            assert "No space left on device" in self.fails()
            # The one page that was left took the first file, and that one is whole.
            assert files_below(cache) == ["filler", "tiny/train-images.gz"]
            gzip.decompress((cache / "tiny/train-images.gz").read_bytes())
        finally:
            subprocess.run(["umount", str(cache)], check=True)

    def test_interruption_removes_the_temporary_file(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(_: int) -> None:
            assert [f for f in files_below(cache) if f.endswith(".part")]
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            load_dataset("tiny-images")
        assert files_below(cache) == []

    def test_cache_that_is_a_file(self, cache: Path) -> None:
        cache.write_bytes(b"")
        assert "File exists" in self.fails() or "Not a directory" in self.fails()

    def test_cache_without_permission(self, cache: Path) -> None:
        cache.mkdir(mode=0o500)
        with unprivileged():
            assert "Permission denied" in self.fails()
        assert files_below(cache) == []

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxlin.errors import InvalidInputError
from proxlin.run.storage import (
    clear_parts,
    digest,
    dump_checked,
    locked,
    parse_json,
    read_regular,
    without_checksum,
    write_whole,
)


def test_the_file_is_replaced_and_nothing_stays_beside_it(tmp_path):
    for content in (b"first", b"second"):
        write_whole(tmp_path / "new" / "whole", content)
    assert (tmp_path / "new" / "whole").read_bytes() == b"second"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["whole"]


def test_what_a_killed_process_left_is_cleared_and_nothing_else(tmp_path):
    write_whole(tmp_path / "b.json", b"whole")
    (tmp_path / ".0123456789abcdef.part").write_text("half")
    (tmp_path / ".notes.part").write_text("a user's")
    others = tmp_path / ".model.123.part" / ".other.part"  # a folder is somebody else's
    others.parent.mkdir()
    others.write_text("being written")
    clear_parts(tmp_path)
    left = [".model.123.part", ".notes.part", "b.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left
    assert others.read_text() == "being written"
    clear_parts(tmp_path / "none")


def test_files_have_the_usual_permissions(tmp_path):
    write_whole(tmp_path / "whole", b"x")
    (tmp_path / "plain").write_bytes(b"x")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*predictions"):
        write_whole(tmp_path / "predictions.csv", b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["pipe", "device", "link to a device", "folder", "no name"])
def test_only_regular_files_are_read_and_others_refused_at_once(tmp_path, kind):
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    path = {"device": Path("/dev/zero"), "no name": tmp_path / "a\0b"}.get(kind, path)
    with pytest.raises(OSError, match=r"no regular file|[Dd]irectory|null"):
        read_regular(path)


def test_regular_files_are_read_also_through_links(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link") == read_regular(tmp_path / "file") == b"content"


def test_json_that_is_nested_without_end_is_a_value_error():
    with pytest.raises(ValueError, match="too deep"):
        parse_json(b"[" * 200_000)


def test_writing_never_touches_the_mask_of_the_process(tmp_path, monkeypatch):
    """A thread that wrote at the same moment would make files that all may write."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the mask is of the whole process"))
    write_whole(tmp_path / "whole", b"x")


HOLD = """
import sys, time
from pathlib import Path
from proxlin.run.storage import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.processes
def test_a_second_process_is_refused_until_the_first_dies(tmp_path, holder):
    with (
        pytest.raises(InvalidInputError, match=f"in use by process {holder.pid} on .*Wait"),
        locked(tmp_path),
    ):
        pytest.fail("it was let in")
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with locked(tmp_path):
        assert f"process {os.getpid()} " in (tmp_path / "proxlin.lock").read_text()


def test_a_stale_file_keeps_nobody_out(tmp_path):
    (tmp_path / "proxlin.lock").write_text("process 999999 on elsewhere")
    with locked(tmp_path):
        pass
    with locked(tmp_path):  # and the lock is given back
        pass
    assert (tmp_path / "proxlin.lock").read_text() == ""


def test_an_error_inside_gives_the_lock_back(tmp_path):
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        _ = 1 / 0
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("kind", ["symlink", "dangling", "hard link", "fifo"])
def test_a_lock_that_is_no_file_of_its_own_is_refused_and_nothing_is_emptied(tmp_path, kind):
    victim = tmp_path / "victim"
    if kind != "dangling":
        victim.write_text("precious")
    lock = tmp_path / "folder" / "proxlin.lock"
    lock.parent.mkdir()
    if kind == "hard link":
        lock.hardlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(lock)
    else:
        lock.symlink_to(victim)
    with pytest.raises(InvalidInputError, match="a link, a special file"), locked(lock.parent):
        pytest.fail("it was let in")
    assert not victim.exists() if kind == "dangling" else victim.read_text() == "precious"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives files away")
def test_files_of_other_users_are_neither_locked_nor_removed(tmp_path):
    lock, part = tmp_path / "proxlin.lock", tmp_path / ".0123456789abcdef.part"
    for path in (lock, part):
        path.write_text("theirs")
        os.chown(path, 12345, -1)
    with pytest.raises(InvalidInputError, match="one of another user"), locked(tmp_path):
        pytest.fail("it was let in")
    clear_parts(tmp_path)
    assert lock.read_text() == part.read_text() == "theirs"
    os.chown(tmp_path, 12345, -1)  # in a folder of their own they may
    with locked(tmp_path):
        pass


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
KEYS = st.text().filter(lambda key: key != "checksum")


@given(st.dictionaries(KEYS, PLAIN, max_size=4), st.sampled_from([None, 1]))
def test_checked_json_comes_back(body, indent):
    assert without_checksum(json.loads(dump_checked(body, indent=indent))) == body


@given(st.dictionaries(KEYS, PLAIN, max_size=4), KEYS)
def test_a_change_is_noticed(body, key):
    whole = json.loads(dump_checked(body))
    assert without_checksum({**whole, key: "changed"}) is None or body.get(key) == "changed"
    assert without_checksum({**whole, "checksum": digest(b"")}) is None
    assert without_checksum(body) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_lacks_is_refused(value):
    with pytest.raises(ValueError, match="JSON"):
        dump_checked({"a": value})

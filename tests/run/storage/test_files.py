import os

import pytest

from proxlin.run.storage import clear_parts, write_whole


def test_the_file_is_replaced_and_nothing_stays_beside_it(tmp_path):
    for content in (b"first", b"second"):
        write_whole(tmp_path / "new" / "whole", content)
    assert (tmp_path / "new" / "whole").read_bytes() == b"second"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["whole"]


def test_what_a_killed_process_left_is_cleared_and_nothing_else(tmp_path):
    write_whole(tmp_path / "b.json", b"whole")
    (tmp_path / ".b.json123.part").write_text("half")
    (tmp_path / "notes.part").write_text("a user's")
    others = tmp_path / ".model.123.part" / ".other.part"  # a folder is somebody else's
    others.parent.mkdir()
    others.write_text("being written")
    clear_parts(tmp_path)
    left = [".model.123.part", "b.json", "notes.part"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left
    assert others.read_text() == "being written"
    clear_parts(tmp_path / "none")


def test_files_have_the_usual_permissions(tmp_path):
    write_whole(tmp_path / "whole", b"x")
    (tmp_path / "plain").write_bytes(b"x")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_writing_never_touches_the_mask_of_the_process(tmp_path, monkeypatch):
    """A thread that wrote at the same moment would make files that all may write."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the mask is of the whole process"))
    write_whole(tmp_path / "whole", b"x")

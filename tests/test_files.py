from proxlin.files import clear_parts, write_whole


def test_the_file_is_replaced_and_nothing_stays_beside_it(tmp_path):
    for content in (b"first", b"second"):
        write_whole(tmp_path / "new" / "whole", content)
    assert (tmp_path / "new" / "whole").read_bytes() == b"second"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["whole"]


def test_what_a_killed_process_left_is_cleared_and_nothing_else(tmp_path):
    write_whole(tmp_path / "a" / "b.json", b"whole")
    (tmp_path / "a" / ".b.json123.part").write_text("half")
    (tmp_path / "a" / "notes.part").write_text("a user's")
    clear_parts(tmp_path)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["b.json", "notes.part"]


def test_files_have_the_usual_permissions(tmp_path):
    write_whole(tmp_path / "whole", b"x")
    (tmp_path / "plain").write_bytes(b"x")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode

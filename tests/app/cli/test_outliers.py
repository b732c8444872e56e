import json

import pandas as pd

from tests.app.tabular.houses import houses


def test_cells_of_numbers_are_written_as_numbers_whatever_the_table_wrote(run, tmp_path):
    frame = houses().assign(price=lambda t: t["price"] + 0.25)
    frame["price"] = frame["price"].astype(object)
    frame.loc[0, "price"] = -999.5
    frame.loc[1, "town"] = None
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    arguments = (tmp_path / "m", tmp_path / "t.csv", "--top", "0")
    linear = ("--targets", "price", "--model", "linear", "--out", tmp_path / "m", "--quiet")
    run("fit", tmp_path / "t.csv", *linear)
    code, out, error = run("outliers", *arguments, "--json")
    assert code == 0, error
    cells = {one["row"]: one["cells"][0] for one in json.loads(out)["worst"]}
    assert {row: cell["got"] for row, cell in cells.items()} == dict(
        enumerate(frame["price"], start=1)
    )
    assert all(isinstance(cell["expected"], float) for cell in cells.values())
    run("outliers", *arguments, "--out", tmp_path / "o.csv")
    written = pd.read_csv(tmp_path / "o.csv").set_index("row")
    assert written["got"].to_dict() == {row: cell["got"] for row, cell in cells.items()}
    assert written["expected"].dtype == float
    _, out, _ = run("outliers", *arguments)
    assert f"{frame['price'][5]:,.2f}" in out


def test_csv_and_json_at_once_are_refused_before_the_work(run, tmp_path):
    for out in ("-", tmp_path / "o.csv"):
        code, told, error = run("outliers", tmp_path, tmp_path / "t.csv", "--json", "--out", out)
        assert (code, told) == (2, "")
        assert error.startswith("proxlin: --out writes a table and --json prints JSON; give one")
    assert not list(tmp_path.iterdir())


def test_numbers_of_rows_are_shown_as_one_would_type_them(run, tmp_path):
    frame = houses(1100, bad=0)
    frame.loc[1099, "price"] *= 10
    frame.to_csv(tmp_path / "t.csv", index=False)
    linear = ("--targets", "price", "--model", "linear", "--out", tmp_path / "m", "--quiet")
    run("fit", tmp_path / "t.csv", *linear)
    _, out, _ = run("outliers", tmp_path / "m", tmp_path / "t.csv", "--top", "1")
    assert " 1100 " in out


def test_a_table_alone_is_enough(run, tmp_path):
    frame = houses(bad=0)
    frame.loc[3, "area"] = 1200.0
    frame.to_csv(tmp_path / "t.csv", index=False)
    page = tmp_path / "r.html"
    code, out, error = run("outliers", tmp_path / "t.csv", "--report", page, "--json")
    assert code == 0, error
    worst = json.loads(out)["worst"][0]
    assert worst["row"] == 4
    assert worst["cells"][0]["column"] == "area"
    assert 50 < worst["cells"][0]["expected"] < 250
    assert "odd rows" in page.read_text()
    code, _, error = run("outliers", tmp_path)
    assert code == 2
    assert "is a folder" in error


def test_targets_that_are_all_empty_end_in_no_score(run, tmp_path):
    frame = houses()
    frame.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "--targets", "price", "--out", tmp_path / "m", "--quiet")
    frame.assign(price=None).to_csv(tmp_path / "e.csv", index=False)
    code, out, error = run("outliers", tmp_path / "m", tmp_path / "e.csv")
    assert code == 0, error
    assert "No score: 120 rows without a target" in out

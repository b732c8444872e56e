import json

import pandas as pd

from tests.tabular.tables import houses


def test_cells_of_numbers_are_written_as_numbers_whatever_the_table_wrote(run, tmp_path):
    frame = houses().assign(price=lambda t: t["price"] + 0.25)
    frame["price"] = frame["price"].astype(object)
    frame.loc[0, "price"] = -999.5
    frame.loc[1, "town"] = None
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    arguments = (tmp_path / "m", tmp_path / "t.csv", "--top", "0")
    run("fit", tmp_path / "t.csv", "--targets", "price", "--out", tmp_path / "m", "--quiet")
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
    assert f"{frame['price'][5]:.2f}" in out

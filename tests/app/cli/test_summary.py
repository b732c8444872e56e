from tests.app.tabular.houses import houses


def test_r2_is_shown_in_plain_decimals(run, tmp_path):
    # Least squares follows the bad rows so far that its r2 is hugely negative.
    frame = houses(bad=0)
    frame.to_csv(tmp_path / "test.csv", index=False)
    frame.loc[:11, "price"] *= 1e6
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, out, error = run("fit", tmp_path / "t.csv", "--targets", "price", "--out", tmp_path / "m",
                           "--test", tmp_path / "test.csv")  # fmt: skip
    assert code == 0, error
    shown = [line.split("│")[-2].strip() for line in out.splitlines() if "│ price" in line]
    assert len(shown) == 3
    assert all(set(text) <= set("-.0123456789") for text in shown)
    assert float(shown[2]) < -1e6

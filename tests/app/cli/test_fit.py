import io
import json
import os
import shutil
import signal
import sys

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxlin.app.cli import main as cli
from proxlin.app.cli import terminal
from proxlin.estimators import RobustRegressor
from proxlin.run.checkpoint import CheckpointWriter
from tests.app.tabular.houses import houses

LINEAR = ("--targets", "price", "--model", "linear")


@pytest.fixture(scope="session")
def house_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "house.csv"
    houses().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def fitted(house_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted") / "m"
    arguments = ("fit", house_file, "--targets", "price", "--out", folder, "--quiet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["proxlin", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert not ended.value.code
    return folder


@pytest.fixture
def model(fitted, tmp_path):
    """A copy of the fitted model, to do with as a test likes."""
    return shutil.copytree(fitted, tmp_path / "m")


def test_one_wrong_test_row_is_one_with_the_largest_seed_too(run, tmp_path):
    numbers = pd.DataFrame({"x": range(0, 300, 2)})
    numbers["x"] = numbers["x"] * 37 % 300 / 10
    numbers["y"] = 2 * numbers["x"] + numbers.index % 7 / 10
    numbers[:120].to_csv(tmp_path / "train.csv", index=False)
    other = numbers[120:].copy()
    other.loc[130, "y"] = 1000
    other.to_csv(tmp_path / "test.csv", index=False)
    code, out, error = run(
        "fit", tmp_path / "train.csv", "--targets", "y", "--test", tmp_path / "test.csv",
        "--seed", 2**32 - 1, "--out", tmp_path / "m",
    )  # fmt: skip
    assert code == 0, error
    assert "1 of the test rows is an outlier itself; it decides" in " ".join(out.split())


def test_fit_just_works_and_says_what_it_did(run, house_file, tmp_path):
    code, out, error = run("fit", house_file, "--targets", "price", "--out", tmp_path / "m")
    assert code == 0, error
    assert "'town' is a category with 3 values" in out
    assert "least squares" in out
    assert "outliers themselves; they decide mean error and r2" in " ".join(out.split())
    assert "training rows" in out
    names = sorted(path.name for path in (tmp_path / "m").iterdir())
    assert names == [
        "metrics.json",
        "model.json",
        "model.safetensors",
        "predictions.csv",
        "report.html",
    ]
    metrics = json.loads((tmp_path / "m" / "metrics.json").read_text())
    assert metrics["targets"] == ["price"]
    assert {error["predictor"] for error in metrics["errors"]} >= {"proxlin", "least squares"}
    assert any("category" in note for note in metrics["notes"])
    assert metrics["settings"]["model"] == "auto"
    families = {family["family"] for family in metrics["families"]}
    assert families == {"linear", "additive", "kernel", "trees"}
    assert set(metrics["importances"]) == {"area", "rooms", "town"}
    assert len(pd.read_csv(tmp_path / "m" / "predictions.csv")) == 24


def test_json_is_all_that_is_printed_and_quiet_prints_nothing(run, house_file, tmp_path):
    _, out, _ = run("fit", house_file, *LINEAR, "--out", tmp_path / "a", "--json")
    assert json.loads(out)["test_rows"] == 24
    code, out, error = run("fit", house_file, *LINEAR, "--out", tmp_path / "b", "--quiet")
    assert (code, out, error) == (0, "", "")


def test_predict_in_any_order_of_columns(run, model, house_file, tmp_path):
    frame = pd.read_csv(house_file)
    turned = frame[["town", "rooms", "area"]].assign(extra=1)
    turned.to_csv(tmp_path / "new.csv", index=False, sep=";")
    code, out, error = run("predict", model, tmp_path / "new.csv")
    assert code == 0
    found = pd.read_csv(io.StringIO(out))
    assert found["row"].tolist() == list(range(1, 121))
    assert (found["price"] - frame["price"]).abs().median() < 5000
    assert "Not used: 'extra'." in error
    run("predict", model, tmp_path / "new.csv", "--out", tmp_path / "p.csv", "--quiet")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "p.csv"), found)


def test_predictions_for_cells_never_seen_carry_a_caveat(run, model, house_file, tmp_path):
    new = pd.read_csv(house_file)[:3].drop(columns="price")
    new.loc[1, "area"] = 5000.0
    new.loc[2, "town"] = "Ulm"
    new.to_csv(tmp_path / "new.csv", index=False)
    code, out, error = run("predict", model, tmp_path / "new.csv")
    assert code == 0
    caveats = pd.read_csv(io.StringIO(out))["caveat"].fillna("").tolist()
    assert caveats[0] == ""
    assert caveats[1].startswith("area = 5000, trained on")
    assert caveats[2] == "town = 'Ulm', not a known value"
    assert "2 rows with cells far from" in error


def test_predictions_can_be_joined_and_have_bounds_and_scores(run, model, house_file, tmp_path):
    options = ("--id", "town,area", "--interval", "0.9", "--out", tmp_path / "p.csv", "--quiet")
    code, _, error = run("predict", model, house_file, *options)
    assert code == 0, error
    table, frame = pd.read_csv(tmp_path / "p.csv"), pd.read_csv(house_file)
    headings = ["row", "town", "area", "predicted price", "price low", "price high"]
    assert list(table.columns) == [*headings, "outlier score"]
    pd.testing.assert_frame_equal(table[["town", "area"]], frame[["town", "area"]])
    inside = (table["price low"] <= frame["price"]) & (frame["price"] <= table["price high"])
    assert 0.8 <= inside[12:].mean() <= 1
    assert (table["outlier score"][:12] > 3.5).all()
    code, _, error = run("predict", model, house_file, "--id", "twon")
    assert code == 2
    assert "Did you mean 'town'" in error


def test_fits_remember_the_interval_that_predictions_get(run, house_file, tmp_path):
    folder = tmp_path / "m"
    options = ("--targets", "price", "--model", "linear", "--interval", "0.8", "--quiet")
    code, _, error = run("fit", house_file, *options, "--out", folder)
    assert code == 0, error
    assert "Bad far: both" in (folder / "report.html").read_text()
    _, out, _ = run("predict", folder, house_file, "--quiet")
    as_fitted = pd.read_csv(io.StringIO(out))
    _, out, _ = run("predict", folder, house_file, "--quiet", "--interval", "0.5")
    asked = pd.read_csv(io.StringIO(out))
    widths = [table["price high"] - table["price low"] for table in (as_fitted, asked)]
    assert (widths[0] > widths[1]).all()
    code, _, error = run("fit", house_file, "--targets", "price", "--interval", "90", "--out", "x")
    assert code == 2
    assert "--interval must lie strictly between 0 and 1" in error


def test_outliers_by_score_with_what_was_expected(run, model, house_file, tmp_path):
    code, out, _ = run("outliers", model, house_file, "--top", "12", "--json")
    assert code == 0
    told = json.loads(out)
    assert {one["row"] for one in told["worst"]} == set(range(1, 13))
    assert [one["score"] for one in told["worst"]] == sorted(
        (one["score"] for one in told["worst"]), reverse=True
    )
    assert told["worst"][0]["cells"][0]["column"] == "price"
    _, out, _ = run("outliers", model, house_file, "--top", "3")
    assert "expected" in out
    assert "beyond 3.5" in out
    run("outliers", model, house_file, "--top", "0", "--out", tmp_path / "o.csv")
    assert pd.read_csv(tmp_path / "o.csv")["row"].nunique() == 120


def test_without_targets_an_autoencoder_scores_rows(run, house_file, tmp_path):
    code, _, error = run(
        "fit", house_file, "--out", tmp_path / "m", "--hidden", "8", "--seconds", "0.5"
    )
    assert code == 0, error
    _, out, _ = run("predict", tmp_path / "m", house_file)
    assert list(pd.read_csv(io.StringIO(out)).columns) == ["row", "score", "outlier"]
    _, out, _ = run("outliers", tmp_path / "m", house_file, "--json")
    columns = {cell["column"] for one in json.loads(out)["worst"] for cell in one["cells"]}
    assert columns <= {"area", "rooms", "town", "price"}


def test_formulas_of_the_table_are_text_in_what_is_written(run, tmp_path):
    frame = houses().rename(columns={"price": "=price", "area": "@area"})
    frame["town"] = frame["town"].replace("Bonn", "=1+1")
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ("--targets", "=price", "--model", "linear", "--out", tmp_path / "m")
    code, _, error = run("fit", tmp_path / "t.csv", *options)
    assert code == 0, error
    header = (tmp_path / "m" / "predictions.csv").read_text().splitlines()[0]
    assert "'=price" in header
    run("outliers", tmp_path / "m", tmp_path / "t.csv", "--out", tmp_path / "o.csv")
    assert "'=price" in (tmp_path / "o.csv").read_text()
    assert ",=" not in (tmp_path / "o.csv").read_text()


BAD_TABLES = {
    "empty": (b"", "empty"),
    "header only": (b"a,price\n", "no rows"),
    "duplicated names": (b"a,a,price\n1,2,3\n", "more than once"),
    "more cells than names": (b"a,price\n1,2,3\n", "line 2 has 3 cells"),
    "NUL bytes": (b"a,price\n1,\x002\n", "NUL byte"),
    "an open quote": (b'a,price\n"1,2\n3,4\n', "quote"),
    "another separator": (b"a:price\n1:2\n", "no column 'price'"),
    "no such target": (b"a,prise\n1,2\n2,3\n", "Did you mean 'prise'"),
    "text in the target": (b"a,price\n1,x\n2,y\n", "must hold numbers"),
    "a constant target": (b"a,price\n1,5\n2,5\n", "always 5"),
    "the target alone": (b"price\n1\n2\n3\n", "left to learn from"),
    "one row": (b"a,price\n1,2\n", "nothing to learn"),
    "a spreadsheet": (b"PK\x03\x04" + bytes(50), "spreadsheet"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_end_with_code_2_and_one_sentence(run, tmp_path, case):
    content, told = BAD_TABLES[case]
    (tmp_path / "t.csv").write_bytes(content)
    code, out, error = run("fit", tmp_path / "t.csv", "--targets", "price", "--out", tmp_path / "m")
    assert (code, out) == (2, "")
    assert told in error
    assert error.startswith("proxlin: ")
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--targets", ""], "--targets must name at least one"),
        (["--p", "half"], "--p must be"),
        (["--p", "0.5"], ">= 1"),
        (["--hidden", "4,x"], "--hidden must be whole numbers"),
        (["--alpha", "much"], "--alpha must be"),
        (["--model", "mpl"], "Did you mean 'mlp'"),
        (["--regularizer", "rigde"], "Did you mean 'ridge'"),
        (["--test", "x.csv", "--test-share", "0.1"], "exclude each other"),
        (["--test", "x.csv"], "does not exist"),
        (["--separator", "x"], "separator must be one of"),
        (["--seconds", "0"], "> 0"),
    ],
)
def test_bad_options_end_with_code_2_and_one_sentence(run, house_file, tmp_path, arguments, told):
    given = ["--targets", "price"] if "--targets" not in arguments else []
    code, out, error = run("fit", house_file, *given, *arguments, "--out", tmp_path / "m")
    assert (code, out) == (2, "")
    assert told in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_destinations_that_cannot_be_used(run, house_file, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")

    def never(*arguments, **named):
        raise AssertionError("training began before the destination was looked at")

    monkeypatch.setattr(RobustRegressor, "fit", never)
    fit = ("fit", house_file, "--targets", "price", "--out")
    for out in ("file", "file/below", "/proc/none/below"):
        code, _, error = run(*fit, tmp_path / out)
        assert code == 2
        assert error.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("inner", ["m", "m/run", "other/../m", "link/run"])
def test_checkpoints_in_the_folder_of_the_model_are_refused_at_once(
    run, house_file, tmp_path, monkeypatch, inner
):
    (tmp_path / "link").symlink_to(tmp_path / "m")
    monkeypatch.setattr(RobustRegressor, "fit", lambda *_, **__: pytest.fail("training began"))
    code, out, error = run(
        "fit", house_file, "--targets", "price", "--hidden", "8",
        "--out", tmp_path / "m", "--checkpoint", tmp_path / inner,
    )  # fmt: skip
    assert (code, out) == (2, "")
    assert "--checkpoint must be a folder outside of --out" in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_predict_refuses_what_is_no_model_or_no_file(run, model, house_file, tmp_path):
    cases = [
        ((tmp_path / "none", house_file), "does not exist"),
        ((tmp_path, house_file), "no model folder"),
        ((model, tmp_path / "none.csv"), "does not exist"),
        ((model, house_file, "--out", tmp_path), "is a folder"),
        ((model, house_file, "--out", "/proc/none/p.csv"), "cannot be written"),
    ]
    for arguments, told in cases:
        code, out, error = run("predict", *arguments)
        assert (code, out) == (2, "")
        assert told in error
    pd.DataFrame({"aera": [1], "rooms": [2], "town": ["x"]}).to_csv(tmp_path / "n.csv", index=False)
    code, _, error = run("predict", model, tmp_path / "n.csv")
    assert code == 2
    assert "Did you mean 'aera'" in error
    code, _, error = run("outliers", model, tmp_path / "n.csv")
    assert code == 2


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.one_of(st.binary(max_size=200), st.binary(max_size=120).map(lambda b: b"a,price\n" + b)))
def test_random_bytes_end_with_success_or_code_2(run, tmp_path, content):
    (tmp_path / "t.csv").write_bytes(content)
    arguments = ("--targets", "price", "--out", tmp_path / "m", "--quiet", "--overwrite")
    code, _, error = run("fit", tmp_path / "t.csv", *arguments)
    assert code in (0, 2)
    assert (code == 2) == error.startswith("proxlin: ")


grid = st.lists(
    st.tuples(
        *[st.sampled_from(["1", "2.5", "-3", "1e300", "inf", "x", "", "=1", "2020-01-01"])] * 3
    ),
    min_size=1,
    max_size=12,
)


@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(grid)
def test_any_small_table_ends_with_success_or_code_2(run, tmp_path, rows):
    lines = ["a,b,price", *(",".join(row) for row in rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    arguments = ("--targets", "price", "--out", tmp_path / "m", "--quiet", "--overwrite")
    code, _, error = run("fit", tmp_path / "t.csv", *arguments)
    assert code in (0, 2)
    assert (code == 2) == error.startswith("proxlin: ")


def test_an_interrupted_fit_goes_on_from_its_checkpoint(
    run, house_file, tmp_path, monkeypatch, ticking_clock
):
    due = CheckpointWriter.due

    def pressed(writer, step):
        if step == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return due(writer, step)

    place, kept = tmp_path / "model", tmp_path / "kept"
    arguments = ("fit", house_file, "--targets", "price", "--hidden", "4", "--seconds", "3")
    arguments += ("--out", place, "--checkpoint", kept)
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointWriter, "due", pressed)
        code, _, error = run(*arguments)
    assert code == 130
    assert error.endswith("the same command goes on from the checkpoint.\n")
    assert not place.exists()
    assert list(kept.rglob("*.safetensors"))
    code, _, error = run(*arguments)
    assert code == 0, error
    assert "checkpoint" not in json.loads((place / "metrics.json").read_text())["settings"]


def test_ctrl_c_while_training_keeps_the_best_until_then(run, house_file, tmp_path, monkeypatch):
    def press(_, state):
        if state.iteration >= 5:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(terminal.Stages, "training", press)
    code, _, error = run(
        "fit", house_file, "--targets", "price", "--hidden", "8", "--seconds", "100",
        "--out", tmp_path / "m",
    )  # fmt: skip
    assert code == 130
    assert error == "Interrupted: training ended early; the best model until then was written.\n"
    assert run("predict", tmp_path / "m", house_file)[0] == 0


def test_messages_are_short_and_harmless_whatever_the_names(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 30)
    name = "x" * 5000 + "\x1b[31mred"
    code, out, error = run("fit", tmp_path / "t.csv", "--targets", name, "--out", tmp_path / "m")
    assert (code, out) == (2, "")
    assert len(error) < 800
    assert "\x1b" not in error


def test_a_linear_model_needs_no_checkpoint(run, house_file, tmp_path):
    code, out, error = run("fit", house_file, "--targets", "price", "--checkpoint", tmp_path)
    assert (code, out) == (2, "")
    assert "--checkpoint keeps the training of one net" in error


def test_r2_is_shown_in_plain_decimals(run, tmp_path):
    # Least squares follows the bad rows so far that its r2 is hugely negative.
    frame = houses(bad=0)
    frame.to_csv(tmp_path / "test.csv", index=False)
    frame.loc[:11, "price"] *= 1e4
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, out, error = run("fit", tmp_path / "t.csv", "--targets", "price", "--out", tmp_path / "m",
                           "--model", "linear", "--test", tmp_path / "test.csv")  # fmt: skip
    assert code == 0, error
    shown = [line.split("│")[-2].strip() for line in out.splitlines() if "│ price" in line]
    assert len(shown) == 5
    assert all(set(text) <= set("-.,0123456789") for text in shown)
    assert float(shown[2].replace(",", "")) < -1e3

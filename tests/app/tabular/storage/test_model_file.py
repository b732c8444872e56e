import json
import os
import shutil
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from proxlin.app.tabular import FitSettings, RawTable, fit_table, load_model, save_model
from proxlin.app.tabular.storage.model_file import model_files, model_state
from proxlin.app.tabular.storage.model_folder import check_destination, write_folder
from proxlin.errors import InvalidInputError
from proxlin.estimators.families.table_regressor import TableRegressor
from proxlin.run.storage import digest, dump_checked, locked
from tests.app.tabular.houses import houses
from tests.app.tabular.killed import overwrite_until_killed
from tests.data.ways import unprivileged
from tests.forks import FORKS

KINDS = {
    "auto": FitSettings(targets=("price",)),
    "linear": FitSettings(targets=("price",), model="linear"),
    "two targets": FitSettings(targets=("price", "rooms"), p=2.0, reweight=True),
    "mlp": FitSettings(targets=("price",), hidden=(5,), seconds=0.3),
    "autoencoder": FitSettings(seconds=0.3),
    "infinite p": FitSettings(targets=("price", "rooms"), p=float("inf")),
}


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    return fit_table(RawTable(houses()), KINDS[request.param])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "m"
    save_model(fit_table(RawTable(houses()), KINDS["linear"]).model, folder)
    return folder


def test_a_model_comes_back_bit_for_bit(fitted, tmp_path):
    new = houses(50, seed=1)
    save_model(fitted.model, tmp_path / "m")
    back = load_model(tmp_path / "m")
    pd.testing.assert_frame_equal(back.predict(new), fitted.model.predict(new), check_exact=True)
    np.testing.assert_array_equal(back.judge(new).scores, fitted.model.judge(new).scores)
    assert back.encoding == fitted.model.encoding
    before, after = fitted.model.estimator, back.estimator
    if isinstance(before, TableRegressor):
        assert after.figures == before.figures
        assert after.weights == before.weights
        return
    assert after.get_params() == before.get_params()
    assert after.result_.status is before.result_.status
    np.testing.assert_array_equal(after.outliers_, before.outliers_)
    pd.testing.assert_frame_equal(after.history_, before.history_)


def test_families_that_share_a_fit_are_saved(monkeypatch):
    """Kernels and trees of an average begin with the same linear fit, tensors and all."""
    model = fit_table(RawTable(houses()), KINDS["linear"]).model
    values, arrays = model_state(model.estimator)
    first = next(iter(arrays.values()))
    monkeypatch.setattr(
        "proxlin.app.tabular.storage.model_file.model_state",
        lambda _: (values, {**arrays, "twin": first, "part": first.flatten()[:1]}),
    )
    kept = load(model_files(model)["model.safetensors"])
    assert torch.equal(kept["twin"], first)


def test_the_order_of_slashed_dates_is_kept(tmp_path):
    days = pd.Series(pd.date_range("2020-01-25", periods=120))
    settings = FitSettings(targets=("price",), features=("sold", "area"))
    sold = houses().assign(sold=days.dt.strftime("%m/%d/%Y"))
    save_model(fit_table(RawTable(sold), settings).model, tmp_path / "m")
    told, meant = (houses(1).assign(sold=[text]) for text in ("02/03/2020", "2020-02-03"))
    back = load_model(tmp_path / "m")
    pd.testing.assert_frame_equal(back.predict(told), back.predict(meant), check_exact=True)
    assert not any("no date" in note for note in back.read(told)[1])


def test_no_pickle_and_nothing_else_in_the_folder(saved):
    assert sorted(path.name for path in saved.iterdir()) == ["model.json", "model.safetensors"]
    assert json.loads((saved / "model.json").read_text())["what"] == "proxlin model"
    assert not list(saved.parent.glob(".*"))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["model.json", "model.safetensors"]), st.data())
def test_any_flipped_bit_is_found(saved, tmp_path, name, data):
    broken = tmp_path / "broken"
    shutil.rmtree(broken, ignore_errors=True)
    shutil.copytree(saved, broken)
    content = bytearray((broken / name).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    (broken / name).write_bytes(content)
    try:
        found = load_model(broken)
    except InvalidInputError:
        return
    # White space between the words of JSON says nothing.
    assert name == "model.json"
    assert found.encoding == load_model(saved).encoding


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_truncated_files_are_refused(saved, tmp_path, name, share):
    shutil.copytree(saved, tmp_path / "m")
    content = (saved / name).read_bytes()
    (tmp_path / "m" / name).write_bytes(content[: int(share * len(content))])
    with pytest.raises(InvalidInputError, match="damaged"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_models_that_predict_no_number_are_refused(saved, tmp_path, value):
    """With a right checksum: whoever wrote it meant it."""
    arrays = load((saved / "model.safetensors").read_bytes())
    weights = next(name for name in arrays if "coef" in name)
    content = save({**arrays, weights: torch.full_like(arrays[weights], value)})
    header = json.loads((saved / "model.json").read_text())
    body = {key: part for key, part in header.items() if key != "checksum"}
    (tmp_path / "model.safetensors").write_bytes(content)
    (tmp_path / "model.json").write_bytes(dump_checked({**body, "arrays": digest(content)}))
    with pytest.raises(InvalidInputError, match="no model that this version can read"):
        load_model(tmp_path)


def test_foreign_and_later_folders_are_refused(saved, tmp_path):
    with pytest.raises(InvalidInputError, match="does not exist"):
        load_model(tmp_path / "none")
    with pytest.raises(InvalidInputError, match=r"has no model\.json"):
        load_model(tmp_path)
    (tmp_path / "model.json").write_text('{"layers": 3}')
    with pytest.raises(InvalidInputError, match="something else"):
        load_model(tmp_path)
    header = json.loads((saved / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**header, "format": 99}))
    with pytest.raises(InvalidInputError, match=r"format 99 .* Update proxlin"):
        load_model(tmp_path)
    shutil.copytree(saved, tmp_path / "half")
    (tmp_path / "half" / "model.safetensors").unlink()
    with pytest.raises(InvalidInputError, match=r"has no model\.safetensors"):
        load_model(tmp_path / "half")


def test_folders_of_others_are_never_replaced(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "thesis.txt").write_text("years of work")
    with pytest.raises(InvalidInputError, match=r"thesis\.txt"):
        write_folder(tmp_path / "m", {"model.json": b""}, overwrite=True)
    assert (tmp_path / "m" / "thesis.txt").read_text() == "years of work"
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="is no folder"):
        check_destination(tmp_path / "file", overwrite=True)


def test_an_old_model_is_replaced_only_if_asked_and_as_a_whole(tmp_path):
    write_folder(tmp_path / "m", {"model.json": b"1", "report.html": b"1"}, overwrite=False)
    with pytest.raises(InvalidInputError, match="--overwrite"):
        write_folder(tmp_path / "m", {"model.json": b"2"}, overwrite=False)
    write_folder(tmp_path / "m", {"model.json": b"2"}, overwrite=True)
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["model.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")
def test_folders_without_permission_are_refused():
    with TemporaryDirectory() as place:
        below = Path(place) / "locked"
        below.mkdir()
        for folder, mode in ((Path(place), 0o755), (below, 0o555)):
            folder.chmod(mode)
        with unprivileged(), pytest.raises(InvalidInputError, match="Permission denied"):
            check_destination(below / "m", overwrite=False)
        assert not list(below.iterdir())


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.processes
@pytest.mark.skipif(os.name == "nt", reason="needs a signal of POSIX")
@pytest.mark.parametrize(  # two files are written, the old folder and the new are renamed
    ("before", "steps"),
    [(None, 1), (None, 2), (None, 3), (b"1", 1), (b"1", 2), (b"1", 3), (b"1", 4)],
)
def test_killed_at_any_step_leaves_the_old_folder_or_the_new(tmp_path, before, steps):
    if before is not None:
        write_folder(tmp_path / "m", {"model.json": before}, overwrite=False)
    child = FORKS.Process(target=overwrite_until_killed, args=(tmp_path / "m", steps))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    check_destination(tmp_path / "m", overwrite=True)
    new = steps == (3 if before is None else 4)
    if new:
        assert contents(tmp_path / "m") == {"model.json": b"2", "report.html": b"2"}
    elif before is not None:
        assert contents(tmp_path / "m") == {"model.json": before}
    assert [path.name for path in tmp_path.iterdir()] == (["m"] if new or before else [])
    write_folder(tmp_path / "m", {"model.json": b"3"}, overwrite=True)
    assert contents(tmp_path / "m") == {"model.json": b"3"}


@pytest.mark.parametrize("number", [1, 2])
def test_ctrl_c_at_a_rename_leaves_one_whole_folder(tmp_path, monkeypatch, number):
    write_folder(tmp_path / "m", {"model.json": b"1"}, overwrite=False)
    rename, done = os.rename, []

    def pressed(source, target):
        rename(source, target)
        done.append(target)
        if len(done) == number:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", pressed)
    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "m", {"model.json": b"2"}, overwrite=True)
    assert contents(tmp_path / "m") == {"model.json": str(number).encode()}
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_an_old_model_that_cannot_be_put_back_is_kept(tmp_path, monkeypatch):
    write_folder(tmp_path / "m", {"model.json": b"1"}, overwrite=False)
    rename = os.rename

    def only_away(source, target):
        if Path(target).name == "m":
            raise OSError(5, "Input/output error")
        rename(source, target)

    with monkeypatch.context() as broken:
        broken.setattr(os, "rename", only_away)
        with pytest.raises(InvalidInputError, match=r"It is kept as .*old"):
            write_folder(tmp_path / "m", {"model.json": b"2"}, overwrite=True)
    assert not (tmp_path / "m").exists()
    with pytest.raises(InvalidInputError, match="--overwrite"):
        check_destination(tmp_path / "m", overwrite=False)
    assert contents(tmp_path / "m") == {"model.json": b"1"}
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_what_others_are_writing_is_no_leftover(tmp_path):
    working, foreign, namesake = (
        tmp_path / name for name in (".m.12345678.part", ".m.abcdefgh.part", ".m.x.12345678.part")
    )
    for folder in (working, foreign, namesake):
        (folder / "old").mkdir(parents=True)
    (foreign / "thesis.txt").write_text("years of work")
    with locked(working):
        check_destination(tmp_path / "m", overwrite=True)
        assert (working / "old").exists()
    assert (foreign / "thesis.txt").exists()
    assert (namesake / "old").exists()
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("planted", ["link", "stranger's file", "another user's"])
def test_what_somebody_planted_is_not_installed_as_a_model(tmp_path, planted):
    beside = tmp_path / ".m.12345678.part"
    beside.mkdir()
    if planted == "link":
        (tmp_path / "elsewhere").mkdir()
        (beside / "old").symlink_to(tmp_path / "elsewhere")
    elif planted == "another user's":
        if os.name == "nt" or os.geteuid() != 0:
            pytest.skip("gives files away")
        write_folder(beside / "old", {"model.json": b"theirs"}, overwrite=False)
        os.chown(beside / "old", 12345, -1)
    else:
        (beside / "old").mkdir()
        (beside / "old" / "run.sh").write_text("#!/bin/sh")
    check_destination(tmp_path / "m", overwrite=True)
    assert not (tmp_path / "m").exists()
    assert (beside / "old").exists()


def test_the_same_seed_gives_the_same_arrays():
    settings = KINDS["two targets"]
    first, second = (fit_table(RawTable(houses()), settings).model for _ in range(2))
    assert model_files(first)["model.safetensors"] == model_files(second)["model.safetensors"]


def test_a_failure_while_writing_leaves_the_old_folder(tmp_path, monkeypatch):
    write_folder(tmp_path / "m", {"model.json": b"1"}, overwrite=False)

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("proxlin.app.tabular.storage.model_folder.write_whole", full)
    with pytest.raises(InvalidInputError, match="No space left"):
        write_folder(tmp_path / "m", {"model.json": b"2"}, overwrite=True)
    assert (tmp_path / "m" / "model.json").read_bytes() == b"1"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]

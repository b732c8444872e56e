"""Checkpoints that are damaged, foreign or too new are refused by name; the one before is used."""

import json
import logging
import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proxlin import Adam, Checkpoints, Ridge, minimize
from proxlin.errors import CheckpointError
from proxlin.run.checkpoint.folder import FORMAT, CheckpointFolder
from proxlin.run.storage import dump_checked, without_checksum
from tests.run.checkpoint.conftest import waiting
from tests.run.checkpoint.runs import CrashError, problem, run, timeless


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory):
    """The folder of a run that crashed at step 20, with checkpoints of the steps 9 and 18."""
    folder = tmp_path_factory.mktemp("run")
    with waiting(), pytest.raises(CrashError):
        run("adam", checkpoint=Checkpoints(folder, every_steps=9), crash_at=20)
    assert CheckpointFolder(folder).numbers() == [1, 2]
    return folder


@pytest.fixture
def folder(broken_off, tmp_path):
    return shutil.copytree(broken_off, tmp_path / "run")


def truncate(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


def swap(path):
    """The file of the other checkpoint, itself whole."""
    shutil.copy(path.with_name(path.name.replace("2", "1")), path)


def foreign(path):
    path.write_text('{"weights": [1, 2, 3]}')


def newer(path):
    content = without_checksum(json.loads(path.read_bytes())) | {"format": FORMAT + 1}
    path.write_bytes(dump_checked(content))


DAMAGE = [
    (truncate, "json", "is damaged"),
    (flip, "json", "is damaged"),
    (empty, "json", "is damaged"),
    (foreign, "json", "is no checkpoint of proxlin"),
    (newer, "json", "has format 2, newer than the 1 that this version reads; update proxlin"),
    (truncate, "safetensors", "bytes; got"),
    (flip, "safetensors", "is damaged: its checksum is wrong"),
    (swap, "safetensors", "bytes; got"),
    (foreign, "safetensors", "bytes; got"),
    (lambda path: path.unlink(), "safetensors", "cannot be read: No such file"),
]


@pytest.mark.parametrize(("damage", "suffix", "words"), DAMAGE)
def test_the_checkpoint_before_is_used(damage, suffix, words, folder, caplog):
    spoilt = CheckpointFolder(folder).path(2, suffix)
    damage(spoilt)
    with caplog.at_level(logging.WARNING, logger="proxlin"):
        found = run("adam", checkpoint=folder)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert str(spoilt) in warning
    assert words in warning
    whole = run("adam")
    assert torch.equal(found.theta, whole.theta)
    assert timeless(found) == timeless(whole)


def test_without_any_whole_one_the_error_says_what_is_wrong_with_each(folder, caplog):
    truncate(CheckpointFolder(folder).path(1))
    flip(CheckpointFolder(folder).path(2, "safetensors"))
    with pytest.raises(CheckpointError, match="empty this one to begin anew") as caught:
        run("adam", checkpoint=folder)
    assert "checkpoint-000001.json is damaged" in str(caught.value)
    assert "checkpoint-000002.safetensors is damaged" in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(place=st.integers(min_value=0), bit=st.integers(0, 7), suffix=st.sampled_from(["json", "t"]))
def test_no_flipped_bit_is_taken_for_the_truth(broken_off, place, bit, suffix):
    folder = CheckpointFolder(broken_off)
    path = folder.path(2, "json" if suffix == "json" else "safetensors")
    told, content = folder.read(2)[0].tree, path.read_bytes()
    spoilt = bytearray(content)
    spoilt[place % len(spoilt)] ^= 1 << bit
    try:
        path.write_bytes(spoilt)
        try:
            found = folder.read(2)[0].tree
        except CheckpointError:
            return
        assert found == told  # such as a blank in the place of the last line break
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: (problem(n=119), Adam(batch_size=32), 0), "its rows: 120; here: 119"),
        (lambda: (problem(width=39), Adam(batch_size=32), 0), "its parameters: ['0.weight'"),
        (lambda: (problem(p=2), Adam(batch_size=32), 0), "its p: 1.0; here: 2.0"),
        (
            lambda: (problem(regularizer=Ridge(1e-3)), Adam(batch_size=32), 0),
            "its terms: g = 0; C = everything; here: g = Ridge(weight=0.001)",
        ),
        (lambda: (problem(), Adam(batch_size=31), 0), "its method: Adam("),
        (lambda: (problem(), "sgd", 0), "here: SGD("),
        (lambda: (problem(), Adam(batch_size=32), 1), "its seed: 0; here: 1"),
        (
            lambda: (problem(seed=5), Adam(batch_size=32), 0),
            "The data or the residual have changed",
        ),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(other, words, folder):
    task, method, seed = other()
    before = task.theta()
    with pytest.raises(CheckpointError) as caught:
        minimize(task, method, max_iter=40, max_seconds=None, seed=seed, checkpoint=folder)
    assert words in str(caught.value)
    assert torch.equal(task.theta(), before)
    assert CheckpointFolder(folder).numbers() == [1, 2]


@pytest.mark.parametrize("name", ["start", "best_theta", "history", "remarks", "state"])
def test_a_right_checksum_over_nothing_is_refused(name, folder):
    for path in folder.glob("*.json"):
        content = without_checksum(json.loads(path.read_bytes()))
        content["memory"]["entries"][name] = None
        path.write_bytes(dump_checked(content))
    with pytest.raises(CheckpointError, match=f"does not hold {name}"):
        run("adam", checkpoint=folder)


@pytest.mark.parametrize("value", [None, 1, "a", {}, [], [1]])
def test_parameters_that_are_no_list_of_names_are_another_run(value, folder):
    for path in folder.glob("*.json"):
        content = without_checksum(json.loads(path.read_bytes()))
        content["about"]["owner"]["parameters"] = value
        path.write_bytes(dump_checked(content))
    with pytest.raises(CheckpointError, match="another run: its parameters"):
        run("adam", checkpoint=folder)


def changed(folder, path, value):
    """Both checkpoints with another value at a path into what they remember."""
    for file in folder.glob("*.json"):
        content = without_checksum(json.loads(file.read_bytes()))
        *way, last = path
        place = content["memory"]["entries"]
        for key in way:
            place = place[key]
        place[last] = value
        file.write_bytes(dump_checked(content))


NAN, INFINITE = {"number": "nan"}, {"number": "inf"}


@pytest.mark.parametrize("value", [-1, -(2**42), 2**53 + 1, 1.5, True])
@pytest.mark.parametrize(
    "path", [("used", 0), ("evaluated_at", 0), ("stale",), ("steps_since",)], ids=str
)
def test_counts_that_no_budget_would_end_are_refused(path, value, folder):
    changed(folder, path, value)
    with pytest.raises(CheckpointError):
        run("adam", checkpoint=folder)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *[(("used", 1), value) for value in (-1.0, NAN, INFINITE, 10**400)],
        *[(("used", 2), value) for value in (-1.0, NAN, INFINITE)],
        (("evaluated_at", 0), 1000),  # later than the run: it would never be evaluated again
        (("evaluated_at", 1), NAN),
        (("cost",), -1.0),
        (("best",), NAN),
        (("best",), {"number": "-inf"}),
        (("stationarity",), -1.0),
        (("used",), [18, 0.1]),
        (("evaluated_at",), None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_times_and_objectives_that_cannot_be_are_refused(path, value, folder):
    changed(folder, path, value)
    with pytest.raises(CheckpointError):
        run("adam", checkpoint=folder)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("steps",), -3, "state.steps must be a count; the checkpoint has -3"),
        (("steps",), 10**400, "state.steps must be a count"),
        (("batches", "fields", "n_rows"), 2**26, "n_rows must be 120; the checkpoint has 67108864"),
        (("batches", "fields", "batch_size"), 1, "batch_size must be 32; the checkpoint has 1"),
        (("batches", "fields", "visited"), -7, "visited must be a count"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_states_of_a_method_that_cannot_be_are_refused(path, value, words, folder):
    changed(folder, ("state", "fields", *path), value)
    with pytest.raises(CheckpointError, match=words):
        run("adam", checkpoint=folder)


def test_a_trust_region_keeps_its_bound(tmp_path):
    """It comes into play some steps later, where nobody would look for the checkpoint's fault."""
    run("probed dense", max_iter=5, checkpoint=tmp_path)
    changed(tmp_path, ("state", "fields", "region", "fields", "widest"), -1)
    with pytest.raises(CheckpointError, match=r"widest must be 0\.05; the checkpoint has -1"):
        run("probed dense", checkpoint=tmp_path)


def test_another_kind_of_budget_may_follow(folder):
    longer = minimize(
        problem(), Adam(batch_size=32), max_iter=None, max_seconds=0.5, checkpoint=folder
    )
    assert longer.iterations > 18
    more = minimize(
        problem(), Adam(batch_size=32), max_iter=longer.iterations + 5, max_seconds=None,
        checkpoint=folder,
    )  # fmt: skip
    assert more.iterations == longer.iterations + 5

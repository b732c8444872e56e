"""A run that was cut off and went on is the same run, bit for bit."""

from dataclasses import dataclass, field
from functools import cache

import pytest
import torch

from proxlin import Adam, Checkpoints, minimize
from proxlin.errors import CheckpointError
from tests.run.checkpoint.runs import CASES, CrashError, problem, run, timeless

whole_run = cache(run)


def same(found, whole):
    return torch.equal(found.theta, whole.theta) and timeless(found) == timeless(whole)


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_crashed_goes_on_bit_for_bit(case, tmp_path):
    whole = whole_run(case)
    kept = Checkpoints(tmp_path, every_seconds=None, every_steps=13)
    with pytest.raises(CrashError):
        run(case, checkpoint=kept, crash_at=20)
    found = run(case, checkpoint=kept)
    assert same(found, whole)
    assert found.objective == whole.objective
    assert (found.status, found.iterations) == (whole.status, whole.iterations)
    assert found.remarks == whole.remarks
    assert list(found.history.frame()) == list(whole.history.frame())


@pytest.mark.parametrize("case", CASES)
def test_checkpoints_change_nothing(case, tmp_path):
    assert same(run(case, checkpoint=Checkpoints(tmp_path, every_steps=5)), whole_run(case))


def test_the_best_point_by_held_out_rows_is_kept_too(tmp_path):
    apart = problem(n=30, seed=1).rows.take(slice(0, 30))
    whole = run("adam", held_out=apart)
    kept = Checkpoints(tmp_path, every_steps=13)
    with pytest.raises(CrashError):
        run("adam", checkpoint=kept, crash_at=20, held_out=apart)
    assert same(run("adam", checkpoint=kept, held_out=apart), whole)
    assert same(run("adam", checkpoint=kept, held_out=apart), whole)  # over, and told as it was
    with pytest.raises(CheckpointError, match="its rows held out: 30; here: none"):
        run("adam", checkpoint=kept)


@dataclass(frozen=True)
class Scheduled(Adam):
    """Adam with a rule that prints as an address, another one in each process."""

    rule: object = field(default_factory=object)


def test_settings_that_print_as_an_address_are_the_same_settings(tmp_path):
    options = {"max_seconds": None, "max_iter": 4, "checkpoint": tmp_path}
    first = minimize(problem(), Scheduled(), **options)
    assert torch.equal(minimize(problem(), Scheduled(), **options).theta, first.theta)


def test_what_others_write_below_the_folder_is_left_alone(tmp_path):
    (tmp_path / "other").mkdir()
    name = ".0123456789abcdef.part"
    theirs = tmp_path / "other" / name
    theirs.write_text("being written")
    (tmp_path / name).write_text("left by a killed process")
    run("adam", checkpoint=tmp_path)
    assert theirs.exists()
    assert not (tmp_path / name).exists()

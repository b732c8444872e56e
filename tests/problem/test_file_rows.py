"""Rows that stay in their file: the same numbers as in memory, and no more memory than a batch."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from proxlin import Problem, minimize
from proxlin.errors import DataError, InvalidInputError
from proxlin.problem.file_rows import FileRows
from proxlin.problem.rows import as_rows


@pytest.fixture
def saved(tmp_path):
    array = np.random.default_rng(0).normal(size=(50, 3, 2)).astype(np.float32)
    path = tmp_path / "rows.npy"
    np.save(path, array)
    return array, path


@pytest.mark.parametrize(
    "index",
    [
        slice(0, 50),
        slice(7, 20),
        slice(40, 99),
        slice(0, 0),
        slice(3, 30, 4),
        torch.tensor([49, 0, 0, 17]),
        torch.tensor([], dtype=torch.long),
    ],
)
@pytest.mark.parametrize("part", [slice(0, 50), slice(13, 44)])
def test_rows_read_are_the_rows_of_the_array(saved, index, part):
    array, path = saved
    if isinstance(index, torch.Tensor):
        index = index.clamp(max=part.stop - part.start - 1)
    rows = FileRows(np.load(path, mmap_mode="r")[part])
    expected = (
        torch.from_numpy(array[part])[index]
        if not (isinstance(index, slice) and index.step)
        else torch.from_numpy(array[part][index].copy())
    )
    found = rows.read(index)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)
    assert torch.equal(pickle.loads(pickle.dumps(rows)).read(index), expected)


def test_training_on_files_takes_the_same_steps(tmp_path):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(200, 3, generator=generator), torch.randn(200, 2, generator=generator)
    for name, tensor in (("x", x), ("y", y)):
        np.save(tmp_path / f"{name}.npy", tensor.numpy())
    files = tuple(np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy")
    thetas = []
    for data in ((x, y), files):
        torch.manual_seed(0)
        problem = Problem(nn.Linear(3, 2), data)
        thetas.append(minimize(problem, max_seconds=None, max_iter=10).theta)
    assert torch.equal(*thetas)


@pytest.mark.processes
def test_a_file_larger_than_the_memory_allowed_is_passed_over(tmp_path):
    """A pass over 400 MB leaves the peak memory where it was, up to a few chunks."""
    path = tmp_path / "big.npy"
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (1_000_000, 100))
    rows[::1000] = 1.0  # the rest is a hole in the file
    rows.flush()
    del rows
    # A process of its own: the peak of this one may lie higher already.
    told = subprocess.run(
        [sys.executable, "-c", _PASS_OVER, str(path)], capture_output=True, text=True, check=True
    )
    assert int(told.stdout) < 100_000  # of 400,000 KB


_PASS_OVER = """
import sys
from pathlib import Path
import numpy as np
from torch import nn
from proxlin import Problem

def peak():  # ru_maxrss would begin at the peak of the process that started this one
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

problem = Problem(nn.Linear(100, 100), np.load(sys.argv[1], mmap_mode="r"))
before = peak()
assert np.isfinite(problem.objective(problem.theta()))
print(peak() - before)
"""


def test_neighbours_are_read_in_one_go(saved, monkeypatch):
    array, path = saved
    rows, reads, real = FileRows(np.load(path, mmap_mode="r")), [], os.preadv

    def counted(*given):
        reads.append(given)
        return real(*given)

    monkeypatch.setattr("os.preadv", counted)
    index = torch.tensor([4, 5, 6, 2, 9, 8])
    assert np.array_equal(rows.read(index).numpy(), array[index.numpy()])
    assert len(reads) == 4
    assert rows.read(torch.tensor([], dtype=torch.long)).shape == (0, *array.shape[1:])


def test_systems_without_positioned_reads_read_the_same(saved, monkeypatch):
    array, path = saved
    rows, index = FileRows(np.load(path, mmap_mode="r")), torch.tensor([4, 5, 2, 49])
    monkeypatch.delattr("os.preadv")
    assert np.array_equal(rows.read(index).numpy(), array[index.numpy()])


def test_edits_of_a_copy_on_write_map_are_seen(saved):
    array, path = saved
    mapped = np.load(path, mmap_mode="c")
    mapped[3] = 7.0  # in memory alone; the file stays as it was
    (batch,) = as_rows(mapped).take(slice(0, 50))
    assert bool((batch[3] == 7.0).all())
    assert np.array_equal(batch[4:].numpy(), array[4:])


def test_files_and_tensors_may_be_mixed_in_any_form(tmp_path):
    x, y = np.arange(12.0).reshape(6, 2), torch.arange(6.0)[:, None]
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "swapped.npy", x.astype(">f8"))
    index = torch.tensor([4, 1])
    for name in ("x", "swapped"):
        mapped = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
        rows = as_rows(({"a": mapped, "b": y}, mapped), torch.float32)
        assert rows.form == ({"a": 0, "b": 1}, 2)
        first, second, third = rows.take(index)
        assert first.dtype == third.dtype == torch.float32
        assert torch.equal(first.double(), torch.from_numpy(x[index.numpy()]))
        assert torch.equal(second, y[index])
    with pytest.raises(InvalidInputError, match=r"got shapes \(6, 2\), \(5, 1\)"):
        as_rows((mapped, y[:5]))


def test_what_cannot_be_read_is_refused(saved, tmp_path):
    array, path = saved
    mapped = np.load(path, mmap_mode="r")
    with pytest.raises(InvalidInputError, match="whole rows one after the other"):
        FileRows(mapped[:, :1])
    with pytest.raises(InvalidInputError, match="same number of rows"):
        as_rows((mapped, mapped[:5]))
    bad = array.copy()
    bad[20] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    rows = as_rows(np.load(tmp_path / "bad.npy", mmap_mode="r"))
    rows.take(slice(0, 20))
    with pytest.raises(InvalidInputError, match="must be finite"):
        rows.take(torch.tensor([3, 20]))
    rows = as_rows(mapped)
    with path.open("r+b") as file:
        file.truncate(200)
    with pytest.raises(DataError, match="cut short"):
        rows.take(slice(40, 50))

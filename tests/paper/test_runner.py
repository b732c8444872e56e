import importlib.util
import os

import pytest

from proxlin.errors import DataError, InvalidInputError, ProxlinError
from proxlin.paper.runner import Engine, Watch, run
from proxlin.paper.store import Store
from tests.paper.jobs import (
    Square,
    die_at_three,
    fail_at_three,
    miss_data_at_three,
    square,
    stop_at_three,
)

JOBS = [Square(number) for number in range(6)]
ENGINES = [Engine(), Engine(jobs=2)]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def squares(outcome):
    return {name: record["square"] for name, record in outcome.records.items()}


EXPECTED = {f"square{number}": number**2 for number in range(6)}


@pytest.mark.parametrize("engine", ENGINES, ids=["one", "two"])
def test_every_job_is_done_once_and_kept(store, engine):
    first = run(store, JOBS, square, engine=engine)
    assert (squares(first), first.made, first.failures) == (EXPECTED, 6, {})
    assert len(list(store.folder.iterdir())) == 6
    again = run(store, JOBS, square, engine=engine)
    assert (squares(again), again.made) == (EXPECTED, 0)
    processes = {record["process"] for record in first.records.values()}
    assert (processes == {os.getpid()}) == (engine.jobs == 1)


def test_workers_share_the_cores(store):
    engine = Engine(jobs=2)
    assert engine.threads * 2 <= max(2, os.cpu_count())
    outcome = run(store, JOBS, square, engine=engine)
    assert {record["threads"] for record in outcome.records.values()} == {engine.threads}


@pytest.mark.parametrize("engine", ENGINES, ids=["one", "two"])
def test_an_interrupt_leaves_what_was_finished(store, engine):
    with pytest.raises(KeyboardInterrupt):
        run(store, JOBS, stop_at_three, engine=engine)
    finished = {path.stem for path in store.folder.iterdir()}
    assert {"square0", "square1"} <= finished <= set(EXPECTED) - {"square3"}
    rest = run(store, JOBS, square, engine=engine)
    assert squares(rest) == EXPECTED
    assert rest.made == 6 - len(finished)


@pytest.mark.parametrize("engine", ENGINES, ids=["one", "two"])
def test_a_failure_is_noted_and_the_others_go_on(store, engine, caplog):
    outcome = run(store, JOBS, fail_at_three, engine=engine)
    assert outcome.failures == {"square3": "InvalidInputError: three is not for squaring."}
    assert set(outcome.records) == set(EXPECTED) - {"square3"}
    assert "square3 failed" in caplog.text
    assert run(store, JOBS, square, engine=engine).made == 1


@pytest.mark.parametrize("engine", ENGINES, ids=["one", "two"])
def test_missing_data_end_the_run(store, engine):
    with pytest.raises(DataError, match="no data for three"):
        run(store, JOBS, miss_data_at_three, engine=engine)


@pytest.mark.skipif(os.name == "nt", reason="needs a signal of POSIX")
def test_a_killed_worker_ends_the_run_with_a_sentence_and_what_is_finished_stays(store):
    with pytest.raises(ProxlinError, match=r"worker process was killed.*lower --jobs"):
        run(store, JOBS, die_at_three, engine=Engine(jobs=2))
    finished = len(list(store.folder.iterdir()))
    rest = run(store, JOBS, square, engine=Engine(jobs=2))
    assert (squares(rest), rest.made) == (EXPECTED, 6 - finished)


def test_damaged_and_foreign_files_are_made_anew_and_no_others(store, caplog):
    before = run(store, JOBS, square).records
    store.path("square1").write_text("{")
    store.write("square2", {"config": {"number": 99}, "square": 99**2})
    after = run(store, JOBS, square)
    assert (squares(after), after.made) == (EXPECTED, 2)
    assert {name for name in before if store.path(name).exists()} == set(EXPECTED)
    assert caplog.text.count("will be made anew") == 2


def test_the_watch_hears_of_each_job(store):
    class Ear(Watch):
        def __init__(self):
            self.heard = []

        def begin(self, stage, jobs):
            self.heard.append((stage, jobs))

        def finished(self, job, record):
            self.heard.append((job.name, record is not None))

    run(store, JOBS[:1], square)
    ear = Ear()
    run(store, JOBS[:4], fail_at_three, stage="squaring", watch=ear)
    assert ear.heard == [("squaring", 3), ("square1", True), ("square2", True), ("square3", False)]


@pytest.mark.parametrize(
    "wrong",
    [{"jobs": 0}, {"backend": "threads"}, {"backend": "dask"}, {"address": "tcp://localhost:1"}],
    ids=str,
)
def test_engines_that_cannot_run_are_refused(wrong):
    with pytest.raises(InvalidInputError):
        Engine(**wrong)


@pytest.mark.skipif(
    importlib.util.find_spec("distributed") is not None, reason="distributed is installed"
)
def test_dask_without_its_package_is_one_sentence(store):
    engine = Engine(backend="dask", address="tcp://127.0.0.1:1")
    with pytest.raises(InvalidInputError, match=r"pip install 'proxlin\[cluster\]'"):
        run(store, JOBS, square, engine=engine)


def test_dask_runs_the_same_jobs(store):
    distributed = pytest.importorskip("distributed", reason="needs the extra 'cluster'")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
    ):
        engine = Engine(backend="dask", address=cluster.scheduler_address)
        outcome = run(store, JOBS, square, engine=engine)
    assert (squares(outcome), outcome.made) == (EXPECTED, 6)


def test_a_scheduler_that_does_not_answer_is_one_sentence(store):
    pytest.importorskip("distributed", reason="needs the extra 'cluster'")
    engine = Engine(backend="dask", address="tcp://127.0.0.1:1")
    with pytest.raises(InvalidInputError, match=r"no scheduler answers at tcp://127.0.0.1:1"):
        run(store, JOBS, square, engine=engine)

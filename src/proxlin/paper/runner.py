"""run: every cell that has no file yet, one after the other or several at once."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import joblib
import torch

from proxlin._checks import check_choice, check_count
from proxlin.errors import DataError, InvalidInputError, ProxlinError
from proxlin.paper.store import Record, Store
from proxlin.run.result import Callback, Progress

_LOG = logging.getLogger("proxlin")
_LOOK = 0.5  # seconds between two looks of a worker at whether its master lives


class Job(Protocol):
    """One piece of work whose outcome is a record in a store."""

    @property
    def name(self) -> str:
        """The name of its record."""
        ...

    def config(self) -> dict[str, Any]:
        """What its record must state."""
        ...


Work = Callable[[Any, tuple[Callback, ...]], Record]


class Watch:
    """What follows the progress of a run; this one shows nothing."""

    folder: Path | None = None  # where workers of this machine note how far they are, if anywhere

    def begin(self, stage: str, jobs: int) -> None:
        """So many jobs of a stage are about to run; 0: the stage is not made of jobs."""

    def callbacks(self, job: Job) -> tuple[Callback, ...]:
        """For a job that runs in this process."""
        return ()

    def finished(self, job: Job, record: Record | None) -> None:
        """A job has ended; without a record it failed."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How many jobs run at once, and where.

    `backend` is "loky", `jobs` processes of this machine, each with its share of the cores, or
    "dask", all workers of the scheduler at `address`, which must find the data themselves.
    """

    jobs: int = 1
    backend: str = "loky"
    address: str | None = None

    def __post_init__(self) -> None:
        check_count("jobs", self.jobs)
        check_choice("backend", self.backend, ("loky", "dask"))
        if (self.backend == "dask") != (self.address is not None):
            raise InvalidInputError(
                'backend="dask" and an address such as tcp://host:8786 go together;'
                f" got {self.backend!r} and {self.address!r}."
            )

    @property
    def threads(self) -> int:
        """Threads of each job: the cores of this machine, divided."""
        return max(1, (os.cpu_count() or 1) // self.jobs)


@dataclass
class Outcome:
    """What a run leaves: records by the name of their job, and what went wrong."""

    records: dict[str, Record] = field(default_factory=dict)
    made: int = 0  # of the records, in this run
    failures: dict[str, str] = field(default_factory=dict)  # name -> sentence


def pending(store: Store, jobs: Iterable[Job]) -> tuple[dict[str, Record], list[Any]]:
    """The finished records by name, and the jobs that are left."""
    records: dict[str, Record] = {}
    left = []
    for job in jobs:
        record = store.read(job.name, job.config())
        if record is None:
            left.append(job)
        else:
            records[job.name] = record
    return records, left


def run(
    store: Store,
    jobs: Sequence[Job],
    work: Work,
    *,
    stage: str = "training",
    engine: Engine | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Do the jobs that have no record yet. Only this process writes, each record as it comes.

    A job that fails is noted and the others go on; data that are missing and workers that the
    system kills end the run at once.
    """
    engine, watch = engine or Engine(), watch or Watch()
    records, left = pending(store, jobs)
    outcome = Outcome(records)
    watch.begin(stage, len(left))
    for job, answer in _answers(left, work, engine, watch):
        if isinstance(answer, str):
            _LOG.warning("%s failed: %s", job.name, answer)
            outcome.failures[job.name] = answer
            watch.finished(job, None)
            continue
        store.write(job.name, answer)
        outcome.records[job.name] = answer
        outcome.made += 1
        watch.finished(job, answer)
    return outcome


def _answers(
    jobs: Sequence[Any], work: Work, engine: Engine, watch: Watch
) -> Iterator[tuple[Any, Record | str]]:
    if not jobs:
        return
    if engine.jobs == 1 and engine.backend == "loky":
        for job in jobs:
            yield job, _attempt(work, job, watch.callbacks(job))
        return
    folder = watch.folder if engine.backend == "loky" else None
    master = os.getpid()
    tasks = (joblib.delayed(_remote)(work, job, engine, folder, master) for job in jobs)
    with _backend(engine):
        parallel = joblib.Parallel(
            n_jobs=engine.jobs if engine.backend == "loky" else -1,  # all that the cluster has
            return_as="generator_unordered",
            batch_size=1,
            pre_dispatch="n_jobs",
        )
        by_name = {job.name: job for job in jobs}
        try:
            for name, answer in parallel(tasks):
                if answer is None:  # Ctrl-C reached the worker before this process
                    raise KeyboardInterrupt
                yield by_name[name], answer
        except BrokenProcessPool as cause:
            raise ProxlinError(
                "a worker process was killed, most often because the memory ran out. What is"
                " finished is kept: lower --jobs, and the same command goes on from there."
            ) from cause


def _remote(
    work: Work, job: Any, engine: Engine, folder: Path | None, master: int
) -> tuple[str, Record | str | None]:
    """In a worker: the job with its share of the cores, telling how far it is in a small file."""
    if engine.backend == "loky":
        torch.set_num_threads(engine.threads)
        _end_with(master)
    note = None if folder is None else folder / f"{job.name}.json"
    callbacks = () if note is None else (_Noting(note),)
    try:
        return job.name, _attempt(work, job, callbacks)
    except KeyboardInterrupt:
        return job.name, None


@cache
def _end_with(master: int) -> None:
    """End this worker when the process that would take its answers is killed.

    Ctrl-C on a terminal reaches all processes; it is for the master to end the workers then.
    """
    if threading.current_thread() is threading.main_thread():  # elsewhere Python forbids it
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == master:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _attempt(work: Work, job: Any, callbacks: tuple[Callback, ...]) -> Record | str:
    try:
        return work(job, callbacks)
    except DataError:
        raise
    except (ProxlinError, MemoryError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


class _Noting:
    """A callback that writes the latest progress into a file; readers may miss one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, progress: Progress) -> None:
        note = {"share": progress.share, "objective": progress.objective, "best": progress.best}
        try:
            self.path.write_text(json.dumps(note))
        except OSError:  # the folder goes away with the process that watched
            _LOG.debug("progress of %s could not be noted", self.path.stem)


@contextmanager
def _backend(engine: Engine) -> Iterator[None]:
    if engine.backend == "loky":
        with joblib.parallel_config(backend="loky", inner_max_num_threads=engine.threads):
            yield
        return
    try:
        from distributed import Client  # noqa: PLC0415
    except ImportError as cause:
        raise InvalidInputError(
            'backend="dask" needs the package distributed; install it with'
            " pip install 'proxlin[cluster]'."
        ) from cause
    try:
        client = Client(engine.address, timeout=10)
    except (OSError, ValueError) as cause:
        raise InvalidInputError(
            f"no scheduler answers at {engine.address}: {cause}. Start one with"
            " `dask scheduler` and workers with `dask worker ADDRESS`."
        ) from cause
    with client, joblib.parallel_config(backend="dask"):
        yield

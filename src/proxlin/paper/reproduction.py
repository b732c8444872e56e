"""reproduce: the cells of an experiment, then its table or figure."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from proxlin.paper.catalog import Experiment
from proxlin.paper.cell import run_cell
from proxlin.paper.classify import Classified, classify
from proxlin.paper.experiment_files import Written, pictures, write_experiment
from proxlin.paper.grid import Cell, has_images
from proxlin.paper.metrics import best_runs, group
from proxlin.paper.runner import Engine, Outcome, Watch, pending, run
from proxlin.paper.store import Store
from proxlin.problem.parallel import Communicator, alone, communicator
from proxlin.run.storage import clear_parts, locked

_AROUND = {True: 8.0, False: 1.0}  # seconds a cell of images or of a table takes besides training
_CLASSIFIER = 75.0  # seconds of a logistic regression on the codes of 60,000 images, one thread


@dataclass
class Reproduction:
    """What came out: the records behind it, the files, and how it stands to the paper."""

    outcome: Outcome
    classified: Outcome = field(default_factory=Outcome)
    written: Written = field(default_factory=lambda: Written([], [], []))

    @property
    def files(self) -> list[Path]:
        """Everything that was written, the report last."""
        return self.written.files

    @property
    def failures(self) -> dict[str, str]:
        """What went wrong, by the name of the cell."""
        return {**self.outcome.failures, **self.classified.failures}


@dataclass(frozen=True)
class Plan:
    """What a run would do."""

    cells: list[Cell]
    left: list[Cell]  # those without a record
    classifiers: int  # logistic regressions without a record
    seconds: float | None  # how long about; None where only steps are limited


def cell_store(out: Path) -> Store:
    """Where the training runs of an experiment in the folder `out` are kept."""
    return Store(out / "cells")


def accuracy_store(out: Path) -> Store:
    """Where the classifiers' accuracies are kept."""
    return Store(out / "accuracy")


def plan(experiment: Experiment, out: Path, engine: Engine) -> Plan:
    """What is left to do, and how long it will take; nothing is written."""
    cells = experiment.grid.cells()
    records, left = pending(cell_store(out), cells)
    classifiers = 0
    if experiment.classified:
        open_groups = {group(cell) for cell in left}
        ready = [cell for cell in best_runs(cells, records) if group(cell) not in open_groups]
        jobs = [Classified(cell, records[cell.name]["theta"]) for cell in ready]
        classifiers = len(open_groups) + len(pending(accuracy_store(out), jobs)[1])
    if any(cell.seconds is None for cell in left):
        return Plan(cells, left, classifiers, None)
    training = sum((cell.seconds or 0.0) + _AROUND[has_images(cell.dataset)] for cell in left)
    seconds = training / min(engine.jobs, max(1, len(left)))
    share = 1.0 if experiment.grid.rows is None else min(1.0, experiment.grid.rows / 60_000)
    seconds += classifiers * _CLASSIFIER * share / min(engine.jobs, max(1, classifiers))
    return Plan(cells, left, classifiers, seconds)


def reproduce(
    experiment: Experiment, out: Path, *, engine: Engine | None = None, watch: Watch | None = None
) -> Reproduction | None:
    """Run what is left of the experiment's cells and write its files into `out`.

    The folder is this process's alone while it runs. Cells that are finished stay so whatever
    happens; the same call goes on from there. The processes of torchrun share the cells out, in a
    folder that all of them can reach; rank 0 does what is then missing, classifies, writes, and is
    the only one to return something.
    """
    processes = communicator()
    cells = experiment.grid.cells()
    with locked(out) if processes.leads else nullcontext():
        if processes.leads:
            for folder in (out, cell_store(out).folder, accuracy_store(out).folder, pictures(out)):
                clear_parts(folder)
        shared = _share_out(processes, cell_store(out), cells, engine=engine, watch=watch)
        if not processes.leads:
            return None
        with alone():
            return _finish(experiment, cells, out, shared, engine=engine, watch=watch)


def _share_out(
    processes: Communicator,
    store: Store,
    cells: list[Cell],
    *,
    engine: Engine | None,
    watch: Watch | None,
) -> Outcome:
    """Each process does every so many-th cell by itself; then all wait for the last one.

    Returns how many cells all of them made, and what went wrong; nothing for a process by itself.
    """
    if processes.size == 1:
        return Outcome()
    mine = cells[processes.rank :: processes.size]
    processes.barrier()
    with alone():
        own = run(store, mine, run_cell, engine=engine, watch=watch)
    processes.barrier()
    outcomes = processes.each((own.made, own.failures))
    failures = {name: sentence for _, failed in outcomes for name, sentence in failed.items()}
    return Outcome(made=sum(made for made, _ in outcomes), failures=failures)


def _finish(
    experiment: Experiment,
    cells: list[Cell],
    out: Path,
    shared: Outcome,
    *,
    engine: Engine | None,
    watch: Watch | None,
) -> Reproduction:
    """Run the cells that are missing and did not fail, and make what is made of all of them."""
    rest = [cell for cell in cells if cell.name not in shared.failures]
    reproduction = Reproduction(run(cell_store(out), rest, run_cell, engine=engine, watch=watch))
    reproduction.outcome.made += shared.made
    reproduction.outcome.failures |= shared.failures
    if experiment.classified:
        records = reproduction.outcome.records
        jobs = [Classified(c, records[c.name]["theta"]) for c in best_runs(cells, records)]
        reproduction.classified = run(
            accuracy_store(out), jobs, classify,
            stage="classifying", engine=engine, watch=watch,
        )  # fmt: skip
    if watch is not None:
        watch.begin("drawing the report", 0)
    reproduction.written = write_experiment(
        experiment, cells, out,
        records=reproduction.outcome.records,
        accuracies_of=reproduction.classified.records,
        failures=reproduction.failures,
    )  # fmt: skip
    return reproduction

"""What `make results` runs and keeps."""

import argparse
import json
import re

import pytest
from benchmarks import show

from proxlin.paper.grid import PAPER_DATASETS

HALF_AN_HOUR = 30 * 60


def settings(**changes):
    usual = {"seconds": 30.0, "jobs": 2, "rows": None, "datasets": ",".join(PAPER_DATASETS)}
    return argparse.Namespace(**{**usual, **changes})


def test_the_steps_are_commands_that_take_about_half_an_hour_on_two_cores(run, tmp_path):
    cells, classifiers, seconds = set(), 0, 0.0
    for step in show.plan(settings()):
        if step.arguments[0] == "demo":
            seconds += 90
            continue
        code, told, error = run(*step.arguments, "--out", tmp_path / "new", "--dry-run", "--json")
        assert (code, error) == (0, ""), step.command()
        cells |= set(json.loads(told)["left"])
        classifiers += json.loads(told)["classifiers_left"]
    for name in cells:
        seconds += (30 + (1 if name.startswith("scm1d") else 8)) / 2
    seconds += classifiers * 75 / 2
    assert 0.6 * HALF_AN_HOUR <= seconds <= 1.1 * HALF_AN_HOUR


@pytest.fixture
def work(tmp_path):
    """A folder as a run leaves it, with every file that is kept."""
    for step in show.plan(settings()):
        for source in step.kept:
            path = show.folder_of(step, tmp_path / "work") / source
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{step.name} {source}\n")
    table = tmp_path / "work" / "experiments" / "table1.csv"
    table.write_text("f_obj_better,f_test_better\nours,paper\nours,\n")
    return tmp_path / "work"


def test_what_is_kept_says_how_it_was_made(work, tmp_path):
    steps = show.plan(settings())
    to = tmp_path / "docs" / "results"
    written = show.collect(steps, work, to, "make results SECONDS=30")
    assert sorted(written) == sorted(to.iterdir())
    made = json.loads((to / "results.json").read_text())
    assert made["command"] == "make results SECONDS=30"
    assert made["scores"] == {"better": 2, "compared": 3}
    assert made["seed"] == 0
    assert set(made["steps"]) == {"demo", "table1", "convergence", "robustness", "accuracy"}
    assert {"torch", "proxlin"} <= set(made["versions"])
    assert made["machine"]["cores"] >= 1
    page = (to / "index.md").read_text()
    pictures = re.findall(r"\]\(([^)]+)\)", page)
    assert set(pictures) == {path.name for path in to.glob("*.svg")}
    assert "table1 table1.md" in page
    assert "proxlin reproduce table1 --datasets mnist,fashion-mnist,scm1d" in page


def test_a_step_that_fails_ends_the_run_with_its_code(tmp_path, capsys):
    step = show.Step("table1", ("reproduce", "tabel1"), {})
    with pytest.raises(SystemExit) as ended:
        show.run(step, tmp_path)
    assert ended.value.code == 2
    assert "goes on from there" in capsys.readouterr().out
    assert not (tmp_path / "table1.done").exists()


def test_a_finished_demonstration_is_not_run_again(tmp_path, monkeypatch):
    (step,) = [step for step in show.plan(settings()) if step.name == "demo"]
    (tmp_path / "demo.done").write_text(step.command())
    monkeypatch.setattr(show.subprocess, "run", lambda *_, **__: pytest.fail("it ran again"))
    show.run(step, tmp_path)

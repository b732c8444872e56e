"""The results that the README shows: run them, and keep their tables and pictures.

`make results` takes about half an hour on two cores. Finished cells stay in the work folder, so
that the same command goes on where an earlier one stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from proxlin.paper.grid import PAPER_DATASETS, has_images
from proxlin.run.storage import write_whole

SEED = 0
_PACKAGES = ("proxlin", "torch", "numpy", "scikit-learn", "pandas", "matplotlib")


@dataclass(frozen=True)
class Step:
    """One command of proxlin, and which of its files are kept under which name."""

    name: str
    arguments: tuple[str, ...]
    kept: dict[str, str]  # path below the folder of the step -> name in the folder of results

    def command(self) -> str:
        """What to type for it."""
        return " ".join(("proxlin", *self.arguments))


def plan(settings: argparse.Namespace) -> list[Step]:
    """The steps, the demonstration first. All experiments share one folder of cells."""
    datasets = tuple(settings.datasets.split(","))
    images = tuple(name for name in datasets if has_images(name))
    shared = [
        "--seconds",
        f"{settings.seconds:g}",
        "--seeds",
        str(SEED),
        "--jobs",
        str(settings.jobs),
    ]
    shared += [] if settings.rows is None else ["--rows", str(settings.rows)]
    table = Step(
        "table1",
        ("reproduce", "table1", "--datasets", ",".join(datasets), "--methods", "probed", *shared),
        {"table1.csv": "table1.csv", "table1.md": "table1.md"},
    )
    if settings.rows is None:  # otherwise nothing stands beside the paper's
        table.kept["pictures/table1-beside-the-published-figures-1.svg"] = "standing.svg"
    if images:
        table.kept["pictures/table1-images-given-back-1.svg"] = "images.svg"
    demo = ("demo", "--seconds", f"{min(10.0, settings.seconds):g}", "--seed", str(SEED))
    steps = [
        Step(
            "demo",
            demo,
            {
                "table.csv": "demo.csv",
                "table.md": "demo.md",
                "pictures/the-same-net-three-losses-1.svg": "demo-completions.svg",
                "pictures/the-more-rubbish-the-larger-the-gap-1.svg": "demo-shares.svg",
                "pictures/which-rows-are-rubbish-2.svg": "demo-residuals.svg",
                "pictures/how-training-went-1.svg": "demo-training.svg",
            },
        ),
        table,
    ]
    if images:
        first = images[0]
        race = ("reproduce", "fig2", "--datasets", first, *shared)
        curves = ("reproduce", "fig3", "--datasets", first, "--methods", "probed,mse", *shared)
        few = ("--methods", "probed", "--p", "1", "--outliers", "0,0.3")
        codes = ("reproduce", "accuracy", "--datasets", ",".join(images), *few, *shared)
        steps += [
            Step(
                "convergence", race, {"fig2.svg": "convergence.svg", "fig2.csv": "convergence.csv"}
            ),
            Step(
                "robustness", curves, {"fig3.svg": "robustness.svg", "fig3.csv": "robustness.csv"}
            ),
            Step("accuracy", codes, {"accuracy.csv": "accuracy.csv", "accuracy.md": "accuracy.md"}),
        ]
    return steps


def folder_of(step: Step, work: Path) -> Path:
    """Where the step writes."""
    return work / ("demo" if step.arguments[0] == "demo" else "experiments")


def run(step: Step, work: Path) -> None:
    """Carry the step out; its progress goes to this terminal."""
    out = folder_of(step, work)
    done = work / f"{step.name}.done"
    # Experiments know themselves what is left; the demonstration begins anew each time.
    if step.name == "demo" and done.is_file() and done.read_text() == step.command():
        return
    print(f"\n{step.command()}", flush=True)
    command = [sys.executable, "-m", "proxlin", *step.arguments, "--out", str(out)]
    code = subprocess.run(command, check=False).returncode
    if code != 0:
        print(f"{step.name} ended with exit code {code}; the same command goes on from there.")
        raise SystemExit(code)
    write_whole(done, step.command().encode())


def collect(steps: list[Step], work: Path, to: Path, command: str) -> list[Path]:
    """Copy what is kept, and write how it was made: results.json, and index.md to look at."""
    written = []
    for step in steps:
        for source, name in step.kept.items():
            written.append(to / name)
            write_whole(to / name, (folder_of(step, work) / source).read_bytes())
    made = {
        "command": command,
        "steps": {step.name: step.command() for step in steps},
        "seed": SEED,
        "scores": score(to / "table1.csv"),
        "versions": {name: version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "machine": machine(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    for name, text in {
        "results.json": json.dumps(made, indent=2) + "\n",
        "index.md": page(steps, to, command),
    }.items():
        written.append(to / name)
        write_whole(to / name, text.encode())
    return written


def score(table: Path) -> dict[str, int]:
    """How many figures of Table 1 are below the lowest of the paper's."""
    verdicts = pd.read_csv(table).filter(regex="_better$")
    return {
        "better": int((verdicts == "ours").sum().sum()),
        "compared": int(verdicts.count().sum()),
    }


def machine() -> dict[str, object]:
    """What the results were made on."""
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        model = names[0] if names else model
    return {"processor": model, "cores": os.cpu_count(), "system": platform.system()}


_PICTURES = {
    "demo-completions.svg": "Digits completed from their upper half by nets of three losses",
    "demo-shares.svg": "Error on digits never seen over the share of outliers, for three losses",
    "demo-residuals.svg": "Losses of training rows under the l2 norm, outliers in a second colour",
    "demo-training.svg": "Objective of the three nets over the seconds of training",
    "standing.svg": "Every figure of Table 1 as a share of the paper's best; left of 1 is better",
    "robustness.svg": "Losses over the share of outliers, ours and the paper's",
    "convergence.svg": "Objective over time for every method, no outliers",
    "images.svg": "Test images, and what each net gives back after training with 30 % outliers",
}


def page(steps: list[Step], to: Path, command: str) -> str:
    """A page with every kept table and picture."""
    kept = {name for step in steps for name in step.kept.values()}
    lines = [
        "# Results",
        "",
        f"`{command}` writes this folder; results.json says on what machine.",
        "",
    ]
    for name, words in _PICTURES.items():
        if name in kept:
            lines += [f"![{words}]({name})", "", f"{words}.", ""]
    for step in steps:
        for name in step.kept.values():
            if name.endswith(".md"):
                lines += [(to / name).read_text(), ""]
    lines += ["## Commands", "", "```", *(step.command() for step in steps), "```", ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Run every step, then collect."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.show", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="training time of each cell")
    parser.add_argument("--jobs", type=int, default=2, help="cells at once")
    parser.add_argument("--rows", type=int, help="only so many rows, for a first look")
    parser.add_argument("--datasets", default=",".join(PAPER_DATASETS), help="of Table 1")
    parser.add_argument("--work", type=Path, default=Path("out/results"), help="for the cells")
    parser.add_argument("--to", type=Path, default=Path("docs/results"), help="for what is kept")
    settings = parser.parse_args(arguments)
    steps = plan(settings)
    for step in steps:
        run(step, settings.work)
    command = f"make results SECONDS={settings.seconds:g}"
    if settings.rows is not None:
        command += f" ROWS={settings.rows}"
    for path in collect(steps, settings.work, settings.to, command):
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])

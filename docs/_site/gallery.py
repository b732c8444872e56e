"""The gallery: every file of examples/ is run, and becomes a page with what it printed and drew.

    python docs/_site/gallery.py [NAME ...]     run all examples, or these, and keep what they made

An example prints what it found and saves its pictures in the folder that it is given.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MADE = ROOT / "docs" / "gallery"
SECTIONS = {
    "Tables with a target": (
        "robust_regression",
        "wrong_features",
        "curved_relation",
        "quantiles_and_intervals",
        "feature_selection",
        "dirty_table",
    ),
    "Tables and images without one": (
        "outlier_hunt",
        "autoencoder_outliers",
        "factorization",
        "video_background",
    ),
    "Your own module": ("own_module", "own_training_loop", "implicit_image"),
    "Methods and machines": ("paper_figure", "several_processes"),
}


@dataclass(frozen=True)
class Example:
    """One file of examples/ and the folder that holds what it made."""

    name: str

    @property
    def source(self) -> Path:
        """The file."""
        return ROOT / "examples" / f"{self.name}.py"

    @property
    def title(self) -> str:
        """The file's name in words."""
        return self.name.replace("_", " ").capitalize().replace("csv", "CSV")

    def words(self) -> str:
        """The docstring without the line that says how to run it."""
        text = ast.get_docstring(ast.parse(self.source.read_text(encoding="utf-8"))) or ""
        kept = (part for part in text.split("\n\n") if not part.startswith("    "))
        return "\n\n".join(part.replace(" PROXLIN_QUICK=1 makes it short.", "") for part in kept)

    def fingerprint(self) -> str:
        """Of the source, to tell whether pictures are older than it."""
        return hashlib.sha256(self.source.read_bytes()).hexdigest()[:16]

    def pictures(self) -> list[Path]:
        """What the example drew, the first one for the overview."""
        return sorted((MADE / self.name).glob("*.png"))

    def printed(self) -> str:
        """What the example said."""
        return (MADE / self.name / "printed.txt").read_text(encoding="utf-8")

    def page(self) -> str:
        """The example as Markdown."""
        code = self.source.read_text(encoding="utf-8")
        pictures = [f"![{self.title}]({self.name}/{path.name})" for path in self.pictures()]
        return "\n\n".join(
            (
                f"# {self.title}",
                self.words(),
                *pictures,
                "It prints",
                f"```text\n{self.printed().rstrip()}\n```",
                f"## The code\n\nRun it with `python examples/{self.name}.py FOLDER`.",
                f"```python\n{code}```",
            )
        )

    def run(self) -> None:
        """Run it on one thread and keep its pictures and words."""
        print(f"{self.name} ...", end=" ", flush=True)  # noqa: T201
        before = os.times().children_user
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
            done = subprocess.run(
                [sys.executable, str(self.source), folder],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"{self.name} failed:\n{done.stderr}")
            to = MADE / self.name
            to.mkdir(parents=True, exist_ok=True)
            for old in self.pictures():
                old.unlink()
            for picture in sorted(Path(folder).glob("*.png")):
                (to / picture.name).write_bytes(picture.read_bytes())
            (to / "printed.txt").write_text(done.stdout, encoding="utf-8")
            seconds = round(os.times().children_user - before, 1)  # of the processor
            made = {"source": self.fingerprint(), "seconds": seconds}
            (to / "made.json").write_text(json.dumps(made) + "\n", encoding="utf-8")
        print(f"{made['seconds']} s")  # noqa: T201


def examples() -> list[Example]:
    """All examples in the order of the gallery."""
    return [Example(name) for names in SECTIONS.values() for name in names]


def overview() -> str:
    """Cards that lead to the pages, by section."""
    parts = []
    for section, names in SECTIONS.items():
        cards = []
        for example in map(Example, names):
            first = example.words().split("\n\n")[0].replace("\n", " ")
            picture = f"![]({example.name}/{example.pictures()[0].name}){{ loading=lazy }}"
            link = f"**[{example.title}]({example.name}.md)**"
            cards.append(f"-   {picture}\n\n    {link}\n\n    {first}")
        body = "\n\n".join(cards)
        parts.append(f'## {section}\n\n<div class="grid cards" markdown>\n\n{body}\n\n</div>')
    return "\n\n".join(parts)


if __name__ == "__main__":
    for chosen in [Example(name) for name in sys.argv[1:]] or examples():
        chosen.run()

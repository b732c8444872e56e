"""Every code block of the README and of the pages is run, with shorter budgets.

Python blocks of a page run one after the other, as a reader would type them. Commands run in a
folder that has the tables they name; those that take minutes are planned or looked up instead.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path

import pytest
import torch
from examples.dirty_table import dirty_table
from matplotlib import pyplot

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
SHORTER = {"max_seconds=10)": "max_seconds=0.5)", "max_seconds=10,": "max_seconds=0.5,"}
SHORTER |= {"10_000": "100"}
COMMANDS = ("proxlin", "make", "pip", "torchrun", "python", "mkdocs", "head", "cat")


def blocks(page: Path, *languages: str) -> list[tuple[int, str]]:
    """(line, code) of the page's blocks in these languages."""
    text = page.read_text(encoding="utf-8")
    return [
        (text[: found.start()].count("\n") + 1, textwrap.dedent(found[3]))
        for found in FENCE.finditer(text)
        if found[2] in languages
    ]


def commands(page: Path) -> list[list[str]]:
    """What the page's console blocks tell to type; the rest of a block is what comes out."""
    lines = [
        line.removeprefix("$ ").split("  #")[0].split(" | ")[0].split(" > ")[0].strip()
        for _, block in blocks(page, "", "console")
        for line in block.splitlines()
        if line.startswith("$ ") or ("$ " not in block and line.split(" ")[0] in COMMANDS)
    ]
    return [shlex.split(line.replace("…", "x")) for line in lines]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # for what an example writes
    torch.manual_seed(0)
    pyplot.switch_backend("Agg")
    dirty_table(100).to_csv("house.csv", index=False)
    names: dict[str, object] = {"__name__": "__main__"}
    for line, code in blocks(page, "python"):
        for long, short in SHORTER.items():
            code = code.replace(long, short)  # noqa: PLW2901
        exec(compile("\n" * line + code, str(page), "exec"), names)  # the examples are ours
    pyplot.close("all")


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run) -> None:
    monkeypatch.chdir(tmp_path)
    table = dirty_table(120)
    for file in ("house.csv", "new.csv", "table.csv"):
        table.to_csv(file, index=False)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for arguments in commands(page):
        program, *rest = arguments
        if program == "make":
            assert {word for word in rest if "=" not in word} <= set(targets), arguments
        elif program == "proxlin" and rest[0] not in ("demo", "--version", "datasets"):
            extra = {"reproduce": ["--dry-run"], "fit": ["--overwrite"]}.get(rest[0], [])
            code, _, error = run(*rest, *(option for option in extra if option not in rest))
            assert code == 0, (arguments, error)
        elif program == "python" and rest[0] == "-m":
            assert (ROOT / rest[1].replace(".", "/")).with_suffix(".py").exists() or (
                ROOT / rest[1].replace(".", "/")
            ).is_dir(), arguments
        elif program == "python":
            assert (ROOT / rest[0]).exists(), arguments
        else:
            assert program in COMMANDS, arguments


def test_blocks_are_found() -> None:
    assert len(blocks(ROOT / "README.md", "python")) >= 3
    assert sum(len(commands(page)) for page in PAGES) >= 20
    assert sum(len(blocks(page, "python")) for page in PAGES) >= 30


def test_every_block_has_a_language_that_is_looked_after() -> None:
    for page in PAGES:
        languages = {found[2] for found in FENCE.finditer(page.read_text(encoding="utf-8"))}
        assert languages <= {"", "python", "console", "text", "mermaid", "json"}, page

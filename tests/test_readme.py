"""The examples of the README and of the pages run as they stand, with shorter budgets."""

import re
from pathlib import Path

import pytest
import torch
from matplotlib import pyplot

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


EXAMPLES = [
    pytest.param(page, block, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page))
]


@pytest.mark.parametrize(("page", "block"), EXAMPLES)
def test_example_runs(
    page: Path, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # for what an example writes
    torch.manual_seed(0)
    pyplot.switch_backend("Agg")
    shorter = block.replace("max_seconds=10", "max_seconds=0.5").replace("10_000", "100")
    exec(compile(shorter, str(page), "exec"), {})  # the examples are ours
    pyplot.close("all")


def test_there_are_examples() -> None:
    assert len(blocks(ROOT / "README.md")) == 4
    assert len(EXAMPLES) >= 8

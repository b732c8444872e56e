"""The examples of the README run as they stand, with shorter budgets."""

import re
from pathlib import Path

import pytest
import torch

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[str(number) for number in range(len(BLOCKS))])
def test_example_runs(block: str) -> None:
    torch.manual_seed(0)
    shorter = block.replace("max_seconds=10", "max_seconds=0.5").replace("10_000", "100")
    exec(compile(shorter, str(README), "exec"), {})  # the examples are ours


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 4

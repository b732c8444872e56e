"""Times as ratios: taken in turns, so that a busy machine slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import torch

Name = TypeVar("Name", bound=Hashable)
Work = Callable[[], object]


def best_of(function: Work, repeats: int) -> float:
    """Seconds of the fastest of `repeats` calls."""
    return best_of_each({"": function}, repeats)[""]


def best_of_each(functions: Mapping[Name, Work], repeats: int) -> dict[Name, float]:
    """Seconds of the fastest of `repeats` calls of each function, called in turns."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use so many threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def verdict(value: float, bar: float | None, *, text: str | None = None) -> str:
    """The text, "<= bar" by default, in green if the bar holds and in red if it does not."""
    if bar is None:
        return text or ""
    return f"[{'green' if value <= bar else 'bold red'}]{text or f'<= {bar:g}'}[/]"

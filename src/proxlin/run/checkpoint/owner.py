"""Whose checkpoint it is: what must be the same for a run to go on from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from proxlin.methods import Method
from proxlin.problem import Problem

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object that does not print its settings
_LONGEST = 160  # characters of a value that a message shows


def owner_of(
    problem: Problem, method: Method, seed: int, held_out: int | None = None
) -> dict[str, Any]:
    """What tells one run from another, as JSON gives it back; budgets are free to change."""
    layout = problem.layout
    return {
        "parameters": [[n, list(s)] for n, s in zip(layout.names, layout.shapes, strict=True)],
        "type": str(problem.dtype).removeprefix("torch."),
        "rows": problem.n_rows,
        "rows held out": held_out,
        "outputs": problem.n_outputs,
        "p": str(problem.p),
        "terms": problem.penalty.describe(),
        "method": _ADDRESS.sub("", repr(method)),
        "seed": seed,
    }


def first_difference(owner: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """A sentence on the first thing that differs, None if the two are the same."""
    for name, mine in owner.items():
        theirs = other.get(name)
        if theirs == mine:
            continue
        if name == "parameters" and theirs:
            pairs = zip_longest(mine, theirs)
            mine, theirs = next((a, b) for a, b in pairs if a != b)  # noqa: PLW2901
        return f"it is of another run: its {name}: {_brief(theirs)}; here: {_brief(mine)}"
    return None


def _brief(value: Any) -> str:
    text = "none" if value is None else f"{value}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

"""Runs saved one by one, so that a benchmark that was ended goes on where it stopped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pandas as pd


class Runs:
    """A CSV file of runs; the first columns, `key` of them, tell one run from the others."""

    def __init__(
        self, path: Path, columns: Sequence[str], *, key: int, renew: Collection[str] = ()
    ) -> None:
        """Read what is there, without the runs whose key holds a name to `renew`."""
        self.path, self.columns, self.key = path, list(columns), key
        known = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=self.columns)
        lines = known.astype(object).where(known.notna(), "").values.tolist()
        self.lines = [line for line in lines if not set(map(str, line[:key])) & set(renew)]
        path.parent.mkdir(parents=True, exist_ok=True)
        self.frame().to_csv(path, index=False)

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        return any(tuple(line[: self.key]) == key for line in self.lines)

    def add(self, *line: Any) -> None:
        """Keep and write one more run."""
        self.lines.append(list(line))
        self.frame().tail(1).to_csv(self.path, mode="a", header=False, index=False)

    def frame(self) -> pd.DataFrame:
        """All of them."""
        return pd.DataFrame(self.lines, columns=self.columns)


def markdown(frame: pd.DataFrame, corner: str) -> str:
    """The frame as a table in Markdown, three decimals."""
    lines = [[corner, *map(str, frame.columns)], ["---"] * (len(frame.columns) + 1)]
    for name, row in frame.iterrows():
        cells = [f"{value:.3f}" if isinstance(value, float) else str(value) for value in row]
        lines.append([str(name), *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)

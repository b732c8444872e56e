"""What a run leaves behind: History, Result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torch import Tensor

from proxlin.methods.contract import Status

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class History:
    """One record for each time the full objective was evaluated."""

    records: list[dict[str, float]] = field(default_factory=list)

    def add(self, record: dict[str, float]) -> None:
        """Append one record: at least iteration, seconds and objective."""
        self.records.append(record)

    def frame(self) -> pd.DataFrame:
        """The records as a table, one row for each evaluation."""
        import pandas as pd  # noqa: PLC0415  half a second that `import proxlin` need not take

        return pd.DataFrame(self.records)


@dataclass(frozen=True)
class Result:
    """The outcome of `minimize`. The module of the problem holds the same parameters as `theta`."""

    status: Status
    objective: float  # full objective at theta, never an estimate
    stationarity: float | None  # h * ||theta - minimiser of its model||, last measured; or None
    seconds: float
    iterations: int
    history: History
    theta: Tensor  # (d,) the best point seen
    stationarity_rows: int | None = None  # rows on which it was measured
    start: Tensor | None = None  # (d,) where the run began, only if asked for
    remarks: tuple[str, ...] = ()  # what the run had to change or leave out, one sentence each

    def continued(self, later: Result) -> Result:
        """This run and one that began where it ended, as one."""
        history = History([*self.history.records])
        for record in later.history.records:
            moved = {"iteration": self.iterations, "seconds": self.seconds}
            history.add({key: value + moved.get(key, 0) for key, value in record.items()})
        return replace(
            later,
            seconds=self.seconds + later.seconds,
            iterations=self.iterations + later.iterations,
            history=history,
            start=self.start,
            remarks=tuple(dict.fromkeys(self.remarks + later.remarks)),
        )

    def __str__(self) -> str:
        parts = [
            f"objective {self.objective:.6g} after {self.iterations} steps, {self.seconds:.1f} s"
        ]
        if self.stationarity is not None:
            rows = "" if self.stationarity_rows is None else f" on {self.stationarity_rows:,} rows"
            parts.append(f"stationarity {self.stationarity:.3g}{rows}")
        return "; ".join([*parts, str(self.status), *self.remarks])

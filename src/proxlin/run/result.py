"""What a run tells while it goes on and leaves behind: Certificate, Progress, History, Result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from proxlin.methods.contract import Status

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Certificate:
    """A measured bound on how far a point is from where it should be.

    A duality gap is at most so much above the least objective there is. A stationarity is 0 at
    points that the method cannot improve; for `minimize` it is h ||theta - minimiser of the convex
    model at theta||, the length of a gradient.
    """

    kind: Literal["duality gap", "stationarity"]
    value: float
    relative_to: str  # what 1 would be
    rows: int  # on which it was measured
    steps_since: int = 0  # steps from the point that was measured to the one returned

    def __str__(self) -> str:
        since = f", {self.steps_since} step(s) before" if self.steps_since else ""
        return f"{self.kind} {self.value:.3g} on {self.rows:,} rows{since}"


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each evaluation of the full objective."""

    iteration: int
    seconds: float
    objective: float  # at the point just evaluated
    best: float  # lowest so far
    certificate: Certificate | None
    share: float  # of the budget used, in [0, 1]
    theta: Tensor  # (d,) the point just evaluated; do not change it


Callback = Callable[[Progress], bool | None]


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


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a run. After `minimize` the module holds the same parameters as `theta`."""

    status: Status
    objective: float  # full objective at theta, never an estimate
    certificate: Certificate | None  # what is proven about theta, None if nothing was measured
    seconds: float
    iterations: int
    history: History
    theta: Tensor  # (d,) the best point seen
    start: Tensor | None = None  # (d,) where the run began, only if asked for
    remarks: tuple[str, ...] = ()  # what the run had to change or leave out, one sentence each

    def continued(self, later: Result) -> Result:
        """This run and one that began where it ended, as one."""
        offsets = {"iteration": self.iterations, "seconds": self.seconds}
        records = [
            {key: value + offsets.get(key, 0) for key, value in record.items()}
            for record in later.history.records
        ]
        return replace(
            later,
            seconds=self.seconds + later.seconds,
            iterations=self.iterations + later.iterations,
            history=History([*self.history.records, *records]),
            start=self.start,
            remarks=tuple(dict.fromkeys(self.remarks + later.remarks)),
        )

    def __str__(self) -> str:
        parts = [
            f"objective {self.objective:.6g} after {self.iterations} steps, {self.seconds:.1f} s"
        ]
        if self.certificate is not None:
            parts.append(str(self.certificate))
        return "; ".join([*parts, str(self.status), *self.remarks])

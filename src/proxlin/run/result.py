"""What a run reports while it goes on and returns: Certificate, Progress, History, Result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from proxlin._checks import counted
from proxlin.methods.contract import Status

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Certificate:
    """A measured bound on how far a point is from optimal.

    A duality gap bounds how far the objective lies above its minimum. A stationarity is 0 at points
    that the method cannot improve; for `minimize` it is h ||theta - minimiser of the convex model
    at theta||, which has the units of a gradient.
    """

    kind: Literal["duality gap", "stationarity"]
    value: float
    relative_to: str  # the unit of `value`
    rows: int  # on which it was measured
    steps_since: int = 0  # steps from the point that was measured to the one returned

    def __str__(self) -> str:
        since = f", {counted(self.steps_since, 'step')} before" if self.steps_since else ""
        return f"{self.kind} {self.value:.3g} on {self.rows:,} rows{since}"


@dataclass(frozen=True)
class Progress:
    """What a callback receives after each evaluation of the objective."""

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
    """One record for each time the objective was evaluated."""

    records: list[dict[str, float]] = field(default_factory=list)

    def add(self, record: dict[str, float]) -> None:
        """Append one record: at least iteration, seconds and objective."""
        self.records.append(record)

    def frame(self) -> pd.DataFrame:
        """The records as a table, one row for each evaluation."""
        import pandas as pd  # noqa: PLC0415  half a second that `import proxlin` need not take

        return pd.DataFrame(self.records)

    def __repr__(self) -> str:
        if not self.records:
            return "History(no evaluations)"
        first, last = (self.records[place].get("objective", float("nan")) for place in (0, -1))
        return f"History({len(self.records)} evaluations, objective {first:.6g} to {last:.6g})"


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a run. After `minimize` the module holds the parameters `theta`."""

    status: Status
    objective: float  # at theta, of all rows unless a remark says of how many
    certificate: Certificate | None  # what was measured at theta; None: nothing
    seconds: float
    iterations: int
    history: History
    theta: Tensor  # (d,) the best point seen
    start: Tensor | None = None  # (d,) the starting point, with keep_start=True
    remarks: tuple[str, ...] = ()  # warnings of the run, one sentence each

    def continued(self, later: Result) -> Result:
        """This run and `later`, which started where it ended, as one result."""
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

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the objective over the seconds of the run; returns the matplotlib axes."""
        if ax is None:
            from matplotlib import pyplot  # noqa: PLC0415  few runs are drawn

            _, ax = pyplot.subplots()
        course = self.history.frame()
        ax.plot(course["seconds"], course["objective"], marker=".", label="evaluated")
        ax.plot(course["seconds"], course["objective"].cummin(), label="best so far")
        ax.set(xlabel="seconds", ylabel="objective", title=str(self.status))
        if float(course["objective"].min()) > 0:
            ax.set_yscale("log")
        ax.legend()
        return ax

    def __repr__(self) -> str:
        return f"Result({self})"

    def _repr_html_(self) -> str:
        """The same as a small table, for notebooks."""
        rows = {
            "objective": f"{self.objective:.6g}",
            "steps": f"{self.iterations:,}",
            "seconds": f"{self.seconds:.1f}",
            "certificate": str(self.certificate or "none measured"),
            "status": str(self.status),
            "remarks": " ".join(self.remarks) or "none",
        }
        cells = "".join(
            f"<tr><th style='text-align:left'>{name}</th>"
            f"<td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in rows.items()
        )
        return f"<table>{cells}</table>"

    def __str__(self) -> str:
        steps = f"{self.iterations:,} step" + "s" * (self.iterations != 1)
        parts = [f"objective {self.objective:.6g} after {steps}, {self.seconds:.1f} s"]
        if self.certificate is not None:
            parts.append(str(self.certificate))
        return " ".join(["; ".join([*parts, str(self.status)]), *self.remarks])

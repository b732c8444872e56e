"""What a probed run remembers from step to step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from proxlin.methods.curvature import AveragedCurvature, DenseCurvature
from proxlin.methods.probed.batch_probe import HALVES
from proxlin.methods.probed.batch_size import GradientNoise
from proxlin.methods.probed.collapse import CollapseWatch
from proxlin.methods.probed.normed import NormedMemory
from proxlin.methods.probed.pace import OtherRows
from proxlin.methods.probed.trial import Trial
from proxlin.methods.probed.trust_region import TrustRegion
from proxlin.problem.rows import Shuffler
from proxlin.problem.target_units import TargetUnits

LOSS_RATE = 0.05  # of the running average of losses
_PARTS = 4  # of a batch, each with a probe of its own; halves after the cautious steps
_CAUTIOUS = 50  # first steps, after each of which the prediction is checked
_KEPT_EVERY = 50  # steps, of points to return to
_SETTLED = 12  # of them, after which a region that is as wide as it gets ends the caution


@dataclass
class ProbedState:
    """Memory of a probed run."""

    theta: Tensor  # (d,) present point, always in C
    batches: Shuffler
    batch_size: int  # of the next batch
    noise: GradientNoise | None  # of the slopes of batches; None: their size is fixed
    whole: bool  # every batch is the whole data, g smooth, C a box or all: Newton's steps
    region: TrustRegion
    generator: torch.Generator
    curvature: AveragedCurvature
    gradient: Tensor  # (d,) running average of the sub-gradients, shrunk by `gradient_weight`
    dual: Tensor  # (d,) scaled multiplier of the proximal step, kept from step to step
    average: Tensor | None  # (d,) running average of the latest points, where it keeps its zeros
    good: Tensor  # (d,) the point to return to after a bad stretch
    start: Tensor  # (d,) where the run began
    trial: Trial | None  # of normed steps, where those are taken
    units: TargetUnits | None = None  # in which everything here is told
    watch: CollapseWatch = field(default_factory=CollapseWatch)
    restarts: int = 0  # so far
    good_loss: float = math.inf  # `loss` when `good` was kept
    settling: int = 0  # steps until `loss` is that of steps of the present length
    gradient_weight: float = 0.0
    floor: float = 1e-2  # |r| below this part of its scale counts as that
    loss: float = math.nan  # running average of the typical loss of a row, and g
    pending: list[Tensor] = field(default_factory=list)  # probes not yet in the curvature
    probes: float = 0.0  # how many probes the curvature averages over
    split: float = 1.0  # penalty of the proximal step's ADMM
    steps: int = 0
    normed_rows: int = 0  # of a batch of normed steps; 0: not settled yet
    other: OtherRows = field(default_factory=OtherRows)  # while steps with other rows are timed
    residual_size: float = 0.0  # of a typical entry, as normed steps saw it last
    first_size: float = 0.0  # the same as they saw it first

    @property
    def normed(self) -> NormedMemory | None:
        """The memory of normed steps, if those are taken now."""
        return None if self.trial is None else self.trial.normed

    @property
    def trying(self) -> bool:
        """Whether lengths of steps are still being tried."""
        return self.trial is not None and not self.trial.over

    def go_on_from(self, theta: Tensor) -> None:
        """Stand at another point, of which nothing is known yet.

        If ever shorter steps have led there, longer ones raise the loss at first, and that is no
        sign that they go wrong.
        """
        self.theta, self.good, self.average = theta.clone(), theta.clone(), theta.clone()
        self.loss, self.good_loss, self.settling = math.nan, math.inf, _KEPT_EVERY

    def track(self, loss: float, rate: float) -> None:
        """Average the typical loss of a batch in."""
        self.loss = loss if math.isnan(self.loss) else self.loss + rate * (loss - self.loss)

    def average_in(self, steps: int) -> None:
        """Average the present point in, the run's or its kind's `steps`-th."""
        if self.average is not None:
            self.average.lerp_(self.theta, 1.0 / min(200.0, 1.0 + 0.1 * steps))

    def astray(self, loss: float, factor: float) -> bool:
        """Whether a batch's loss is no number or the averaged one `factor` times the last good."""
        return not math.isfinite(loss) or self.loss > factor * self.good_loss

    def keep_good(self, steps: int) -> None:
        """Keep the present point now and then, where it is better than the one kept."""
        self.settling = max(0, self.settling - 1)
        if not self.settling and steps % _KEPT_EVERY == 0 and self.loss < self.good_loss:
            self.good, self.good_loss = self.theta.clone(), self.loss

    def go_back(self) -> None:
        """Stand at the last good point again, and believe the quadratic much less."""
        self.theta = self.good.clone()
        self.average = None if self.average is None else self.good.clone()
        self.gradient.zero_()
        self.gradient_weight = 0.0
        self.loss = self.good_loss if math.isfinite(self.good_loss) else math.nan
        self.region.retreat()
        self.pending.clear()

    @property
    def damping(self) -> float:
        """What is added to the diagonal of C, beside g."""
        return self.region.damping * self.curvature.scale

    @property
    def parts(self) -> int:
        """In how many parts a batch is probed."""
        return _PARTS if self.whole or not (self.layered or self.steps >= _CAUTIOUS) else HALVES

    @property
    def layered(self) -> bool:
        """Whether blocks stand for the curvature, which need fewer probes than a dense matrix."""
        return not isinstance(self.curvature, DenseCurvature)

    @property
    def cautious(self) -> bool:
        """Whether every prediction is checked: first, until the quadratic has earned its region."""
        wide = self.region.radius >= 0.5 * self.region.widest
        settled = self.layered and wide and self.steps >= _SETTLED
        return self.whole or (self.steps < _CAUTIOUS and not settled)

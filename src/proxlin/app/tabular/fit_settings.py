"""FitSettings: what a user may choose for a fit, and the estimator that it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from proxlin._checks import (
    check_choice,
    check_count,
    check_exponent,
    check_non_negative,
    check_positive,
    check_share,
)
from proxlin.errors import CombinationError, InvalidInputError
from proxlin.estimators import RobustAutoencoder, RobustRegressor
from proxlin.estimators.estimator_settings import REGULARIZERS
from proxlin.estimators.families.table_regressor import FAMILIES
from proxlin.problem.loss import Exponent

MODELS = ("auto", "linear", "additive", "kernel", "trees", "forest", "net", "mlp", "autoencoder")

FEW_ROWS = (
    "{columns} encoded columns are many for {rows} training rows: a ridge of a strength that these"
    " rows chose was added."
)

_WIDTHS = (64, 64)
_ROWS_A_COLUMN = 5  # with fewer, a linear model gets a ridge by default


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """Columns, model and budget of a fit; what is None or "auto" is decided from the table.

    What is refused is called by the name that it has on the command line.
    """

    targets: tuple[str, ...] = ()  # none for an autoencoder
    features: tuple[str, ...] | None = None  # all others
    drop: tuple[str, ...] = ()
    p: Exponent = 1.0
    model: str | None = None  # auto with targets
    hidden: tuple[int, ...] | None = None
    code: int | None = None  # width of an autoencoder's code
    regularizer: str = "auto"
    alpha: float | Literal["auto"] | None = None  # 1e-3 for a regulariser by name
    reweight: bool = False
    leverage: bool = False
    test_share: float = 0.2
    seconds: float | None = None
    checkpoint: str | None = None  # a folder that keeps the training of a net
    seed: int = 0

    def __post_init__(self) -> None:
        if self.p != "mse":
            check_exponent("--p", self.p)
        if self.model is not None:
            check_choice("--model", self.model, MODELS)
        check_choice("--regularizer", self.regularizer, ("auto", "none", *REGULARIZERS))
        if self.alpha is not None and self.alpha != "auto":
            check_non_negative("--alpha", self.alpha)
        for width in self.hidden or ():
            check_count("--hidden", width)
        if self.code is not None:
            check_count("--code", self.code)
        if self.seconds is not None:
            check_positive("--seconds", self.seconds)
        check_share("--test-share", self.test_share)
        check_count("--seed", self.seed, minimum=0)
        if self.seed >= 2**32:
            raise InvalidInputError(f"--seed must be below {2**32}; got {self.seed}.")
        self._check_together()

    @property
    def kind(self) -> str:
        """One of MODELS."""
        if self.model is not None:
            return self.model
        if not self.targets:
            return "autoencoder"
        if self.hidden:
            return "mlp"
        return "auto" if self.by_default else "linear"

    @property
    def by_default(self) -> bool:
        """Whether nothing was said about the loss."""
        weights = self.reweight or self.leverage
        return self.p == 1 and self.regularizer == "auto" and not weights

    @property
    def distrusts_features(self) -> bool:
        """Whether rows whose features are far out cannot pull the model."""
        return bool(self.leverage or self.families or (self.kind == "linear" and self.by_default))

    @property
    def families(self) -> tuple[str, ...]:
        """Of models that are compared on held-out rows; none for a model of one's own settings."""
        if self.kind == "auto":
            return FAMILIES
        return (self.kind,) if self.kind in FAMILIES[1:] else ()

    def estimator(self, rows: int, columns: int) -> tuple[Any, list[str]]:
        """The estimator for so many rows and encoded columns, and what was decided for it."""
        shared: dict[str, Any] = {
            "max_seconds": self.seconds,
            "random_state": self.seed,
            "scaling": False,
            "checkpoint": self.checkpoint,
        }
        named: dict[str, Any] = {}
        if self.regularizer == "none":
            named = {"regularizer": None}
        elif self.regularizer != "auto":
            named = {"regularizer": self.regularizer}
            named["alpha"] = 1e-3 if self.alpha is None else self.alpha
        if self.kind == "autoencoder":
            net: dict[str, Any] = {"n_components": self.code, "hidden": self.hidden}
            return RobustAutoencoder(p=self.p, **net, **named, **shared), []
        if self.kind == "linear" and self.by_default:
            return RobustRegressor(**shared), []  # what 45 % of wrong rows cannot move
        notes = []
        if self.kind == "linear" and not named and rows < _ROWS_A_COLUMN * columns:
            named = {"regularizer": "ridge", "alpha": "auto"}
            notes.append(FEW_ROWS.format(columns=columns, rows=rows))
        hidden = () if self.kind == "linear" else self.hidden or _WIDTHS
        far = {"leverage": "auto" if self.leverage else None}
        weights: dict[str, Any] = {"reweight": self.reweight or self.leverage, **far}
        return RobustRegressor(self.p, hidden=hidden, **weights, **named, **shared), notes

    def _check_together(self) -> None:
        if self.kind == "autoencoder" and self.targets:
            raise CombinationError("an autoencoder has no targets; leave out --targets or --model.")
        if self.kind != "autoencoder" and not self.targets:
            raise CombinationError(
                f"a model {self.kind!r} needs --targets, the columns to predict."
            )
        if self.kind not in ("mlp", "autoencoder") and self.hidden:
            raise CombinationError(
                f"--hidden is for --model mlp or autoencoder; leave it out of --model {self.kind}."
            )
        if self.kind not in ("mlp", "autoencoder") and self.checkpoint is not None:
            raise CombinationError(
                "--checkpoint keeps the training of one net; leave it out, or use --model mlp."
            )
        if self.families and not self.by_default:
            raise CombinationError(
                f"--p, --regularizer, --reweight and --leverage are for --model linear and mlp;"
                f" --model {self.kind} chooses them itself. Leave them out."
            )
        if self.kind != "autoencoder" and self.code is not None:
            raise CombinationError("--code is the width of an autoencoder's code; leave it out.")
        if self.kind == "autoencoder" and (self.reweight or self.leverage):
            raise CombinationError("--reweight and --leverage are for models with --targets.")
        if self.kind != "linear" and self.alpha == "auto":
            raise CombinationError("--alpha auto is for linear models; give a number.")
        if self.alpha is not None and self.regularizer in ("auto", "none"):
            raise CombinationError(
                "--alpha is the weight of a --regularizer; name one, or drop it."
            )
        named = (*self.targets, *(self.features or ()), *self.drop)
        twice = [name for name in named if named.count(name) > 1]
        both = [name for name in self.targets if name in (self.features or ()) + self.drop]
        if twice and not both:
            raise CombinationError(f"column {twice[0]!r} is named twice; name it once.")
        if both:
            raise CombinationError(
                f"{both[0]!r} is a target; leave it out of --features and --drop."
            )

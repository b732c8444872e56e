"""RobustAutoencoder: codes of rows or images that outliers cannot bend, and scores of outliers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    OutlierMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted
from torch import nn

from proxlin._checks import check_flag, check_interval, check_non_negative
from proxlin.errors import InvalidInputError
from proxlin.estimators.base import Checkpoint, RobustBase
from proxlin.estimators.estimator_settings import named_regularizer, seeded
from proxlin.estimators.low_rank.autoencoder_nets import (
    Factory,
    RowForm,
    build_net,
    has_hidden_layers,
    joint_constraint,
)
from proxlin.estimators.low_rank.autoencoder_start import start_at_plane
from proxlin.estimators.low_rank.cell_repair import bounded_rows
from proxlin.estimators.low_rank.coding import (
    Coding,
    flat_rows,
    has_images,
    read_image_shape,
    typical_norm,
)
from proxlin.estimators.scaling import RobustScaling
from proxlin.estimators.scores import detection_limit
from proxlin.estimators.tables import Array, read_codes, read_table
from proxlin.methods import Method, Probed
from proxlin.problem import Problem
from proxlin.problem.loss import Exponent
from proxlin.run.callbacks import EarlyStopping
from proxlin.run.result import Callback
from proxlin.terms import Constraint, Regularizer

if TYPE_CHECKING:
    from typing import Self

_STEPS = 300  # of a fit without a budget
_PROGRESS = 0.02  # of the objective from one evaluation to the next, or a linear net is done
# Nets of tables are small: many cheap steps lead nearly as far as few Newton steps, in a quarter of
# the time.
_TABLE_STEPS = 600
_TABLE_METHOD = Probed(curvature="layered", batch_size=256)
_PART_STEPS = 30  # of a partial fit without a budget


class RobustAutoencoder(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn has no types
    TransformerMixin,  # type: ignore[misc]
    OutlierMixin,  # type: ignore[misc]
    RobustBase,
):
    """min (1/n) sum_i ||decode(encode(x_i)) - x_i||_p + g over the weights of a small net.

    Rows that are like the others come back from the code, outliers do not: how far a row is from
    its reconstruction is its outlier score. The norm, other than its square, lets a few bad rows
    stay badly reconstructed instead of bending the code towards them.

    Parameters
    ----------
    n_components
        Width of the code; by default about the square root of the number of features.
    hidden
        Widths of the layers between the row and the code, mirrored on the way back; for images the
        channels of convolutions, each of which halves the sides. By default (8, 16) for images, and
        (32,) for tables with at least ten cells a weight. With `()`, the default for smaller
        tables, the net is linear: a robust principal component analysis. Nets of tables begin at
        the plane that most rows follow; linear ones, without a budget, end when they gain little.
    activation
        Name ("tanh", "softplus", "silu", "sigmoid", "identity") or maker of what follows each
        hidden layer; code and output are linear.
    module
        A function (number of features or image shape, n_components) -> net, whose parts are
        `encoder` and `decoder`, in place of `hidden` and `activation`.
    p
        Exponent of the norm, >= 1, or "mse" for the smooth baseline. 2 suits rows that are bad as
        a whole, 1 rows with a few bad cells.
    tied
        Keep each decoder weight equal to its encoder weight (transposed).
    noise
        Standard deviation of Gaussian noise on the inputs in training, after scaling; the residual
        is taken against the clean row (a denoising autoencoder).
    scaling
        Centre each column at its median and divide by its inter-quartile range; "auto" does so for
        tables only.
    image_shape
        (c, h, w) of images that come as flat rows. Rows of shape (n, c, h, w) need none.
    bounded
        Train on rows whose errors of any size have the same say: wrong cells of tables are put to
        what the rest of their row lets expect, others pulled in to six robust standard deviations
        of their column, and rows to three median norms. Scores are of the rows as they are. False
        minimises the plain norm.
    contamination
        Share of outliers among the training rows, in (0, 0.5], which sets the cut-off. "auto" flags
        rows 3.5 robust standard deviations above the middle and, of the others, the one in 80 that
        fits worst.
    regularizer, alpha, constraint
        g ("ridge", "lasso", ... of weight `alpha` on all weights, or an object) and C.
    validation_fraction
        Share of the rows that the net is not trained on: of all its steps, the one after which
        their median loss was lowest is kept. Not for linear nets and below 100 rows; 0 trains on
        all rows to the end.
    method, max_seconds, max_iter, tol, random_state, device
        As in `minimize`. Without a budget a net with hidden layers takes 600 steps on a table, any
        other at most 300, and the same seed gives the same net.
    warm_start
        Begin a fit at the net of the earlier one.
    checkpoint
        A folder, or `Checkpoints`, in which `fit` keeps itself, so that the same call goes on after
        whatever ended it; needs a number as `random_state`.
    verbose
        Show on the standard error one line with objective, time left and what is being done.
    callbacks
        Called while the net is trained, as in `minimize`: to watch it, or to end it by returning
        True.

    After `fit`: `module_` (the net), `coding_` (the net with its scaling), `n_components_`,
    `image_shape_`, `result_`, `history_`, `outlier_scores_` and `outliers_` of the training rows,
    `offset_` (the `score_samples` of the cut-off).

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 1)) @ np.ones((1, 6))
    >>> x[:3] = [3, -3, 3, -3, 3, -3]
    >>> net = RobustAutoencoder(1, hidden=(), random_state=0).fit(x)
    >>> np.flatnonzero(net.outliers_)
    array([0, 1, 2])
    """

    module_: nn.Module
    coding_: Coding
    image_shape_: tuple[int, int, int] | None
    n_components_: int
    offset_: float

    def __init__(
        self,
        n_components: int | None = None,
        *,
        hidden: Sequence[int] | None = None,
        activation: str | Callable[[], nn.Module] = "tanh",
        module: Factory | None = None,
        p: Exponent = 2.0,
        tied: bool = False,
        noise: float = 0.0,
        scaling: bool | Literal["auto"] = "auto",
        image_shape: Sequence[int] | None = None,
        bounded: bool = True,
        contamination: float | Literal["auto"] = "auto",
        regularizer: str | Regularizer | None = "ridge",
        alpha: float = 1e-3,
        constraint: Constraint | None = None,
        method: str | Method = "probed",
        max_seconds: float | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        device: str | torch.device | None = None,
        warm_start: bool = False,
        checkpoint: Checkpoint = None,
        callbacks: Sequence[Callback] = (),
        verbose: bool | int = False,
    ) -> None:
        self.n_components = n_components
        self.hidden = hidden
        self.activation = activation
        self.module = module
        self.p = p
        self.tied = tied
        self.noise = noise
        self.scaling = scaling
        self.image_shape = image_shape
        self.bounded = bounded
        self.contamination = contamination
        self.regularizer = regularizer
        self.alpha = alpha
        self.constraint = constraint
        self.method = method
        self.max_seconds = max_seconds
        self.max_iter = max_iter
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.callbacks = callbacks
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn codes of the rows X, (n, features) or images (n, c, h, w); y is ignored."""
        warm = check_flag("warm_start", self.warm_start) and hasattr(self, "coding_")
        attempt = self._attempt(keep=warm)
        attempt._learn(X, fresh=not warm, rescale=True, steps=_STEPS, checkpoint=self.checkpoint)
        return self._adopt(attempt)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Take some steps on the rows X, from the net and with the scaling of the earlier calls.

        The first call decides the net and the scaling; give `hidden` if its rows are few. The scale
        of the outlier scores and the cut-off are those of the latest rows.
        """
        known = hasattr(self, "coding_")
        attempt = self._attempt(keep=known)
        attempt._learn(X, fresh=not known, rescale=not known, steps=_PART_STEPS)
        return self._adopt(attempt)

    def encode(self, X: Any) -> Array:
        """The codes of the rows X, (n, n_components), also of rows never seen."""
        rows = self._read(X)
        return self.coding_.encode(rows)

    def transform(self, X: Any) -> Array:
        """The codes of the rows X, as `encode`."""
        return self.encode(X)

    def inverse_transform(self, X: Any) -> Array:
        """The rows, or images, that belong to the codes X, (n, n_components)."""
        check_is_fitted(self, "coding_")
        rows = self.coding_.decode(read_codes(X, self.n_components_))
        return rows if self.image_shape_ is None else rows.reshape(-1, *self.image_shape_)

    def reconstruct(self, X: Any) -> Array:
        """The rows X after a way through the code, in the shape of X."""
        rows = self._read(X)
        return self.coding_.reconstruct(rows).reshape(np.shape(X))

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """-||decode(encode(x)) - x||_p of each row, after scaling: higher is more normal."""
        rows = self._read(X)
        return -self.coding_.norms(rows, self.p)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`: higher is better, 0 a perfect reconstruction."""
        return float(self.score_samples(X).mean())

    def outlier_scores(self, X: Any) -> NDArray[np.float64]:
        """Robust standard deviations of each row's residual norm above the training rows' middle.

        Higher is more of an outlier, as in `outlier_scores_`.
        """
        norms = -self.score_samples(X)
        return self.outlier_scale_.scores(norms)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """`score_samples` above the cut-off: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for outliers, 1 for the others."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @property
    def _score_cutoff(self) -> float:
        return float(self.outlier_scale_.scores(np.array(-self.offset_)))

    def _learn(
        self, X: Any, *, fresh: bool, rescale: bool, steps: int, checkpoint: Checkpoint = None
    ) -> None:
        """Train on X; a fresh net, or the present one with or without a new scaling."""
        self._check_settings()
        rows = self._read_first(X) if fresh else self._read(X)
        form = RowForm(rows.shape[1], self.image_shape_)
        seed = self._seed()
        if fresh:
            self.n_components_ = form.code_width(self.n_components)
            with seeded(seed):
                net = build_net(
                    form,
                    self.n_components_,
                    n_rows=len(rows),
                    hidden=self.hidden,
                    activation=self.activation,
                    factory=self.module,
                    tied=self.tied,
                )
        else:
            net = copy.deepcopy(self.module_)  # that of the present state must outlive a failure
        self.module_ = net.to(device=self._torch_device(), dtype=torch.float32)
        scaling = self._new_scaling(rows) if rescale else self.coding_.scaling
        self.coding_ = Coding.of(self.module_, form, scaling)
        inside = rows
        if self.bounded:
            factors = self.n_components_ if self.image_shape_ is None else 0
            inside = bounded_rows(rows, factors, seed)
        data = self.coding_.training_rows(inside, float(self.noise), seed)
        at_plane = fresh and self.module is None and self.image_shape_ is None and not self.tied
        if at_plane:
            at_plane = start_at_plane(self.coding_, data[-1], self.n_components_, seed)
        problem = Problem(
            self.module_,
            data,
            self.p,
            regularizer=named_regularizer(
                self.regularizer, self.alpha, "*weight" if self.module is None else None
            ),
            constraint=joint_constraint(self.module_, self.tied, self.constraint),
        )
        deep = has_hidden_layers(self.module_)
        stopping = (EarlyStopping(patience=1, min_decrease=_PROGRESS),)
        many = deep and steps == _STEPS and self.image_shape_ is None and self._without_budget
        result = self._minimize(
            problem,
            seed=seed,
            steps=_TABLE_STEPS if many else steps,
            method=_TABLE_METHOD if many and self.method == "probed" else None,
            held_share=self.validation_fraction if deep else 0.0,
            checkpoint=checkpoint,
            stopping=stopping if at_plane and not deep else (),
        )
        norms = self.coding_.norms(rows, self.p)
        size = typical_norm(rows, scaling, self.p)
        self._record(result, norms, size=size)
        if self.contamination == "auto":
            self.offset_ = -detection_limit(norms, self.outlier_scale_, size=size)
        else:
            self.offset_ = float(np.percentile(-norms, 100 * float(self.contamination)))
        self.outliers_ = -norms < self.offset_

    def _read_first(self, X: Any) -> Array:
        """The rows to learn from as (n, features); their form is noted."""
        self.image_shape_ = read_image_shape(self.image_shape, X)
        rows = read_table(self, flat_rows(X), reset=True, min_rows=2)
        if rows.shape[1] < 2:
            raise InvalidInputError(
                "X must have at least 2 features, or the code is the row itself; got 1 feature(s)."
            )
        return rows

    def _read(self, X: Any) -> Array:
        """Rows of the form that is known, as (n, features)."""
        check_is_fitted(self, "coding_")
        if has_images(X) and tuple(np.shape(X)[1:]) != self.image_shape_:
            known = f"images of shape {self.image_shape_}" if self.image_shape_ else "flat rows"
            raise InvalidInputError(
                f"X must hold {known}, as in fit; got images of shape {tuple(np.shape(X)[1:])}."
            )
        return read_table(self, flat_rows(X), reset=False)

    def _new_scaling(self, rows: Array) -> RobustScaling:
        wanted = self.image_shape_ is None if self.scaling == "auto" else bool(self.scaling)
        return RobustScaling.fit(rows) if wanted else RobustScaling.identity(rows.shape[1])

    def _check_settings(self) -> None:
        self._check_shared()
        check_non_negative("noise", self.noise)
        if self.contamination != "auto":
            check_interval("contamination", self.contamination, 0, 0.5)
            if not self.contamination:
                raise InvalidInputError('contamination must be "auto" or in (0, 0.5]; got 0.')
        check_interval("validation_fraction", self.validation_fraction, 0, 0.5)
        self._check_checkpoint(self.checkpoint)
        check_flag("bounded", self.bounded)
        check_flag("tied", self.tied)
        check_flag("warm_start", self.warm_start)
        if not isinstance(self.scaling, str) or self.scaling != "auto":
            check_flag("scaling", self.scaling)

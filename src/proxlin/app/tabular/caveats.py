"""What a reader of a fit should doubt, in sentences that say what to try."""

from __future__ import annotations

import numpy as np

from proxlin.app.tabular.columns import NumberColumn
from proxlin.app.tabular.fitting import Fitted
from proxlin.app.tabular.model import Judgement
from proxlin.app.tabular.yardsticks import MIDDLE, MODEL, ColumnError

_MANY = 0.2  # share of outliers from which on the model may be wrong rather than the rows
_MORE = 0.1  # by which twice the share may be exceeded among test rows
_BETTER = 0.95  # of the median's error, above which nothing was learned
_FEW_TESTED = 20  # test rows, below which one row more or less changes the errors
_FEW_TRAINED = 30  # training rows, below which their middling error is itself uncertain
_FAR = 100.0  # robust deviations, beyond which a cell can pull a regression towards itself


def caveats(
    fitted: Fitted, errors: list[ColumnError], trained: Judgement, tested: Judgement
) -> list[str]:
    """Signs that the figures mean less than they seem to, causes before effects."""
    return [
        *_few_rows(fitted),
        *_far_cells(fitted),
        *_learned_nothing(fitted, errors),
        *_shares(fitted, trained, tested),
    ]


def _few_rows(fitted: Fitted) -> list[str]:
    sentences = []
    trained, tested = len(fitted.train.rows), len(fitted.test.rows)
    if fitted.test is not fitted.train and tested < _FEW_TESTED:
        sentences.append(
            f"The errors are those of {tested} test row(s): with fewer than {_FEW_TESTED} they, and"
            " r2 above all, are a matter of luck. Try other values of --seed, or get more rows."
        )
    if trained < _FEW_TRAINED:
        sentences.append(
            f"Outlier scores compare rows with {trained} training row(s): with fewer than"
            f" {_FEW_TRAINED} they are rough, and a verdict near the cut-off says little."
        )
    return sentences


def _learned_nothing(fitted: Fitted, errors: list[ColumnError]) -> list[str]:
    medians = {(error.column, error.predictor): error.median_absolute_error for error in errors}
    names = [
        name
        for name in fitted.model.target_names
        if medians[name, MODEL] > _BETTER * medians[name, MIDDLE]
    ]
    curve = ", or in a curve (--model mlp)" if fitted.settings.kind == "linear" else ""
    return [
        f"For {name!r} the model is hardly better than always answering the median: the columns say"
        f" little about it{curve}."
        for name in names
    ]


def _far_cells(fitted: Fitted) -> list[str]:
    """Only regressions that trust all features: an autoencoder is shown none that far."""
    if not fitted.model.target_names or fitted.settings.leverage:
        return []
    encoding = fitted.model.encoding
    farthest = np.abs(fitted.train.encoded).max(axis=0)
    names = {
        encoding.features[owner].name
        for owner, reach in zip(encoding.owners, farthest, strict=True)
        if reach > _FAR and isinstance(encoding.features[owner], NumberColumn)
    }
    if not names:
        return []
    shown = ", ".join(repr(name) for name in sorted(names)[:5])
    return [
        f"{shown} hold(s) cells more than {_FAR:g} robust deviations from the middle. If they are"
        " wrong they pull the model, whatever the norm: add --leverage."
    ]


def _shares(fitted: Fitted, trained: Judgement, tested: Judgement) -> list[str]:
    sentences = []
    curve = ", or a curve (--model mlp)" if fitted.settings.kind == "linear" else ""
    train, test = float(trained.flags.mean()), float(tested.flags.mean())
    if train > _MANY:
        sentences.append(
            f"{train:.0%} of the training rows count as outliers. With so many it may be the model"
            f" that is wrong: a column may be missing{curve}."
        )
    if test > 2 * train + _MORE:
        sentences.append(
            f"{test:.0%} of the test rows count as outliers, but {train:.0%} of the training rows:"
            " the model knows its own rows too well, and scores of new rows say little. Use fewer"
            " columns or a stronger --regularizer."
        )
    return sentences

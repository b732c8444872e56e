"""What a reader of a fit should doubt, in sentences that say what to try."""

from __future__ import annotations

import numpy as np
import pandas as pd

from proxlin._checks import counted
from proxlin.app.tabular.fitting import Fitted
from proxlin.app.tabular.model import Judgement
from proxlin.app.tabular.reading.columns import NumberColumn, show_number
from proxlin.app.tabular.reporting.yardsticks import BOOSTING, HUBER, MIDDLE, MODEL, ColumnError
from proxlin.estimators.families.usual_values import FREQUENT, coded_rows
from proxlin.report.figure_text import show_figure

_MANY = 0.2  # share of outliers from which on the model may be wrong rather than the rows
_MORE = 0.1  # by which twice the share may be exceeded among test rows
_BETTER = 0.95  # of the median's error, above which nothing was learned
_TOO_FEW = 10  # test rows, below which a share of them says nothing
_FEW_TESTED = 20  # test rows, below which one row more or less changes the errors
_FEW_TRAINED = 30  # training rows, below which their middling error is itself uncertain
_ENOUGH_TESTED = 50  # test rows, from which on two predictors can be told apart
_BEATEN = 0.9  # of the model's median error, below which a yardstick is clearly better
_SAME_ORDER, _FEW_VALUES = 0.999, 10  # rank correlation that gives a target away
_COMPARED, _MOST_COMPARED = 2000, 300  # rows and columns that are looked at for it
_FEW_TO_DRIFT, _ALIKE = 100, 0.2  # rows, and rank correlation of neighbours' residuals
_ALONE = 2.0  # times the second most frequent value: small counts have several frequent ones
_FAR = 100.0  # robust deviations, beyond which a cell can pull a regression towards itself


def caveats(
    fitted: Fitted, errors: list[ColumnError], trained: Judgement, tested: Judgement
) -> list[str]:
    """Signs that the figures mean less than they seem to, causes before effects."""
    return [
        *_few_rows(fitted),
        *_far_cells(fitted),
        *_frequent_values(fitted, trained),
        *_leaks(fitted, trained),
        *_learned_nothing(fitted, errors),
        *_beaten(fitted, errors),
        *_drifts(fitted, trained),
        *_shares(fitted, trained, tested),
    ]


def _few_rows(fitted: Fitted) -> list[str]:
    sentences = []
    trained, tested = len(fitted.train.rows), len(fitted.test.rows)
    if fitted.test is not fitted.train and tested < _FEW_TESTED:
        sentences.append(
            f"The errors are those of {counted(tested, 'test row')}: with fewer than {_FEW_TESTED}"
            " they, and r2 above all, are a matter of luck. Try other values of --seed, or get"
            " more rows."
        )
    if trained < _FEW_TRAINED:
        sentences.append(
            f"Outlier scores compare rows with {counted(trained, 'training row')}: with fewer than"
            f" {_FEW_TRAINED} they are rough, and a verdict near the cut-off says little."
        )
    return sentences


def _frequent_values(fitted: Fitted, trained: Judgement) -> list[str]:
    """Targets of two values, and targets of which one value is frequent."""
    sentences = []
    unflagged = (
        ""
        if trained.flags.any()
        else ", and no row counts as an outlier: the score says only which ones fit worst"
    )
    for target, values in zip(fitted.model.encoding.targets, fitted.train.targets.T, strict=True):
        different, counts = np.unique(values, return_counts=True)
        name, share = target.name, counts.max() / len(values)
        if len(different) == 2:
            sentences.append(
                f"{name!r} has two values: it is predicted as a number between them, as a rule near"
                f" the likelier one. This is no classifier and gives no probabilities{unflagged}."
            )
        elif (coded := coded_rows(values)).any():
            code = show_number(float(values[coded][0]), target.reading)
            sentences.append(
                f"{coded.mean():.0%} of the training rows have {code} for {name!r}, far from all"
                " others: it was taken for a code for an unknown value, and such rows are"
                " outliers. Empty these cells if it is one."
            )
        elif (
            share > FREQUENT
            and len(different) > _FEW_VALUES
            and counts.max() > _ALONE * np.partition(counts, -2)[-2]
        ):
            often = show_number(float(different[counts.argmax()]), target.reading)
            sentences.append(
                f"{share:.0%} of the training rows have {often} for {name!r}: one model has to say"
                " both whether it is something else and how much. Two models, one of them for the"
                " other rows alone, may say more."
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


def _leaks(fitted: Fitted, trained: Judgement) -> list[str]:
    """Columns that put the rows that fit in the order of a target."""
    sentences = []
    train, encoding = fitted.train, fitted.tested.encoding
    good = np.flatnonzero(~trained.flags)
    some = good[:: max(1, -(-len(good) // _COMPARED))]
    if len(some) < _FEW_TRAINED:
        return []
    for number, target in enumerate(encoding.targets):
        ranks = pd.Series(train.targets[some, number]).rank().to_numpy()
        for place, owner in list(enumerate(encoding.owners))[:_MOST_COMPARED]:
            column = pd.Series(train.encoded[some, place])
            if column.nunique() > _FEW_VALUES:
                agreement = float(np.corrcoef(ranks, column.rank().to_numpy())[0, 1])
                if abs(agreement) > _SAME_ORDER:
                    name = encoding.features[owner].name
                    sentences.append(
                        f"{name!r} puts the rows in the order of {target.name!r} (rank correlation"
                        f" {agreement:.4f}). If it is only known afterwards, it gives the target"
                        f" away: --drop it."
                    )
    return sentences


def _beaten(fitted: Fitted, errors: list[ColumnError]) -> list[str]:
    """Yardsticks that are clearly nearer to the test rows."""
    medians = {(error.column, error.predictor): error.median_absolute_error for error in errors}
    sentences: list[str] = []
    if len(fitted.test.rows) < _ENOUGH_TESTED:
        return sentences
    for name in fitted.tested.target_names:
        rivals = {r: medians[name, r] for r in (BOOSTING, HUBER) if (name, r) in medians}
        best = min(rivals, key=rivals.__getitem__, default=None)
        if best is not None and rivals[best] < _BEATEN * medians[name, MODEL]:
            hint = "" if fitted.settings.kind == "auto" else " Try --model auto."
            sentences.append(
                f"{best} predicts {name!r} better: its median error is"
                f" {show_figure(rivals[best])}, ours {show_figure(medians[name, MODEL])}.{hint}"
            )
    return sentences


def _drifts(fitted: Fitted, trained: Judgement) -> list[str]:
    """Residuals that go up or down through the file: rows that follow one another in time."""
    train, model = fitted.train, fitted.tested
    if not model.target_names or len(train.rows) < _FEW_TO_DRIFT:
        return []
    away = train.targets - model.training_answers(train.encoded)
    sentences = []
    for number, name in enumerate(model.target_names):
        good = pd.Series(away[~trained.flags, number])
        if len(good) > _FEW_TO_DRIFT // 2 and good.nunique() > 1:
            neighbours = float(np.corrcoef(good.rank()[:-1], good.rank()[1:])[0, 1])
            if neighbours > max(_ALIKE, 4 / np.sqrt(len(good))):
                sentences.append(
                    f"Rows that follow one another in the table miss {name!r} in the same direction"
                    f" (rank correlation {neighbours:.2f}): if they are in the order of time, test"
                    " on the last ones with --test, not on rows drawn at random."
                )
    return sentences


def _far_cells(fitted: Fitted) -> list[str]:
    """Cells so far out that they may be wrong; an autoencoder is shown none that far."""
    settings = fitted.settings
    if not fitted.model.target_names or (settings.distrusts_features and not settings.families):
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
    what = (
        "They count as the outermost usual cells; see whether they are wrong."
        if settings.families
        else "If they are wrong they pull the model, whatever the norm: add --leverage."
    )
    return [f"Cells of {shown} lie more than {_FAR:g} robust deviations from the middle. {what}"]


def _shares(fitted: Fitted, trained: Judgement, tested: Judgement) -> list[str]:
    sentences = []
    curve = ", or a curve (--model mlp)" if fitted.settings.kind == "linear" else ""
    train, test = float(trained.flags.mean()), float(tested.flags.mean())
    if train > _MANY:
        sentences.append(
            f"{train:.0%} of the training rows count as outliers. With so many it may be the model"
            f" that is wrong: a column may be missing{curve}."
        )
    if len(fitted.test.rows) >= _TOO_FEW and test > 2 * train + _MORE:
        sentences.append(
            f"{test:.0%} of the test rows count as outliers, but {train:.0%} of the training rows:"
            " the model knows its own rows too well, and scores of new rows say little. Use fewer"
            " columns or a stronger --regularizer."
        )
    return sentences

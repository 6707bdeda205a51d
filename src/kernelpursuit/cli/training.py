"""Fit a model of a table and measure what it is worth: on rows held out, beside chance and beside its peers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from kernelpursuit import RefinedKMPClassifier, RefinedKMPRegressor, __version__
from kernelpursuit.cli.contenders import ranking_values
from kernelpursuit.cli.encoding import encode, make_encoder, make_scaler, minus_medians, source_columns
from kernelpursuit.cli.model import TableModel
from kernelpursuit.cli.progress import Say
from kernelpursuit.cli.scores import (
    are_unequal,
    beats_chance,
    chance_prediction,
    class_scores,
    error_of,
    interval_of,
    log_losses,
    losses_of,
    never_named,
)
from kernelpursuit.cli.tables import MIN_ROWS_PER_CLASS, Table

ONE_THREAD_ROWS = 10_000  # rows up to which a second thread of BLAS costs more than it gives, most on a busy machine
HELD_OUT = 0.2  # share of the rows that the model is judged on
MOST_ON_CURVE = 150  # terms of models beside the one that was asked for
ROWS_FOR_SVM = 5000  # its fit takes the square of their number
ROWS_SHOWN = 400  # points of the pictures
SHUFFLES = 3  # of each column, to see what it is worth
BINS = 10  # of the calibration


def draw_rows(table: Table, most: int, seed: int) -> tuple[Table, list[str]]:
    """Rows at random when there are too many, and a note that says so.

    Classes keep their shares, but for the rarest, which keep the rows that a split needs.
    """
    rows = len(table.y)
    if rows <= most:
        return table, []
    shuffled = np.random.default_rng(seed).permutation(rows)
    kept, how = shuffled[:most], "drawn at random"
    if table.task == "classification":
        by_class = [shuffled[table.y[shuffled] == label] for label in np.unique(table.y)]
        kept = np.concatenate([m[: max(MIN_ROWS_PER_CLASS, len(m) * most // rows)] for m in by_class])
        how += f", at least {MIN_ROWS_PER_CLASS} of each class"
    return table.rows(kept), [f"Used {len(kept)} of {rows} rows, {how} (--max-rows)."]


def expected_fit_seconds(rows: int, n_atoms: int | None) -> float:
    """About what `fit_table` takes: five fits, of which the first may look for the number of terms."""
    known = 3 + 1e-3 * rows
    return 5 + 4 * known + (6 + 3e-3 * rows if n_atoms is None else known)


def fit_table(
    table: Table, n_atoms: int | None = None, seed: int = 0, say: Say = lambda _: None, resume: str | None = None
) -> TableModel:
    """Fit a refined model to a table.

    Parameters
    ----------
    table : Table
    n_atoms : int, optional
        Number of terms; found by rows held out when not given.
    seed : int
        Of the split and of all else that is random.
    say : callable
        Takes a sentence for each thing that is begun.
    resume : str, optional
        File in which what is reached is kept, see `journals`.

    Returns
    -------
    TableModel
        Fitted to all rows, with as many terms as the model that was judged.
    """
    files = (False, False) if resume is None else journals(resume)
    rows = np.arange(len(table.y))
    stratify = table.y if table.task == "classification" else None
    train, test = train_test_split(rows, test_size=HELD_OUT, random_state=seed, stratify=stratify)
    train, test = np.sort(train), np.sort(test)
    say(f"Fitting to {len(train)} rows; {len(test)} are held out to judge it")
    encoder = make_encoder(table.kinds)
    X, X_test = encode(encoder, table.frame.iloc[train], fit=True), encode(encoder, table.frame.iloc[test])
    y, y_test = table.y[train], table.y[test]
    with without_known_warnings(), threadpool_limits(limits=1 if len(rows) <= ONE_THREAD_ROWS else None):
        judged = new_estimator(table, n_atoms, seed, files[0]).fit(X, y)
        about: dict[str, Any] = {
            "version": __version__,
            "table": table.name,
            "rows": len(rows),
            "notes": list(table.notes),
            "held_out": held_out_scores(judged, X_test, y, y_test, table),
        }
        say("Measuring its peers and what each column is worth")
        about["peers"] = peer_errors(table, train, test, X, X_test, seed)
        about["curve"] = error_curve(judged, X, y, X_test, y_test, table, seed)
        about["columns"] = worth_of_columns(judged, X_test, y_test, table, source_columns(encoder), seed)
        about["shown"] = points_for_pictures(judged, X, y, X_test, y_test, table)
        errors = normalised_errors(judged, X_test, y_test) if table.task == "regression" else np.empty(0)
        say(f"Fitting to all {len(rows)} rows, with {len(judged.centers_)} terms")
        encoder = make_encoder(table.kinds)
        final = new_estimator(table, len(judged.centers_), seed, files[1])
        final.fit(encode(encoder, table.frame, fit=True), table.y).set_params(resume=False)
    return TableModel(encoder, final, table.target, table.task, table.kinds, errors, about, table.labels)


def journals(file: str) -> tuple[str, str]:
    """The two files in which a fit to a table keeps what it reaches: of the model that is judged, and of the last."""
    return file, f"{file}.final"


def new_estimator(table: Table, n_atoms: int | None, seed: int, resume: str | bool) -> Any:
    """The estimator, not yet fitted."""
    make = RefinedKMPClassifier if table.task == "classification" else RefinedKMPRegressor
    return make("auto" if n_atoms is None else n_atoms, random_state=seed, resume=resume)


class without_known_warnings(warnings.catch_warnings):
    """Suppress warnings of peers, and of fewer terms than asked for."""

    def __enter__(self) -> Any:
        found = super().__enter__()
        warnings.simplefilter("ignore", ConvergenceWarning)
        return found


def held_out_scores(
    model: Any, X_test: NDArray[Any], y: NDArray[Any], y_test: NDArray[Any], table: Table
) -> dict[str, Any]:
    """Error, its interval and the chance level."""
    predicted = model.predict(X_test)
    losses = losses_of(table.task, y_test, predicted)
    chance = losses_of(table.task, y_test, chance_prediction(table.task, y, len(y_test)))
    low, high = interval_of(table.task, losses)
    scores: dict[str, Any] = {"rows": len(y_test), "error": error_of(table.task, losses), "low": low, "high": high}
    scores |= {"chance": error_of(table.task, chance), "terms": len(model.centers_)}
    if table.task == "regression":
        explained = float(1 - losses.mean() / chance.mean())
        return scores | {"explained": explained, "learned": beats_chance([losses], [chance], {})}
    probabilities = model.predict_proba(X_test)
    of_classes = class_scores(y_test, predicted, probabilities, probabilities)
    learned = beats_chance([losses], [chance], of_classes)
    by_shares = float(log_losses_of_shares(y, y_test).mean())
    scores |= {"chance log loss": by_shares, "never": never_named(y_test, predicted)}
    return scores | of_classes | {"unequal": are_unequal(table.y), "learned": learned}


def peer_errors(
    table: Table, train: NDArray[Any], test: NDArray[Any], X: NDArray[Any], X_test: NDArray[Any], seed: int
) -> list[dict[str, Any]]:
    """Errors of other models on the same rows, with the settings that they come with."""
    from skrub import tabular_pipeline

    classes = table.task == "classification"
    y, y_test = table.y[train], table.y[test]
    boosting = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    linear = LogisticRegression(max_iter=1000) if classes else RidgeCV(np.logspace(-3, 3, 7))
    machine = SVC() if classes else SVR()
    center, unit = (0.0, 1.0) if classes else (float(y.mean()), float(y.std()) or 1.0)
    targets = y if classes else (y - center) / unit
    frame = minus_medians(table.frame)
    few = np.sort(np.random.default_rng(seed).permutation(len(y))[:ROWS_FOR_SVM])
    trees = tabular_pipeline(boosting(random_state=seed)).fit(frame.iloc[train], targets)
    fitted = {
        "HistGradientBoosting": (trees, frame.iloc[test]),
        type(machine).__name__: (make_pipeline(make_scaler(), machine).fit(X[few], targets[few]), X_test),
        "LogisticRegression" if classes else "Ridge": (make_pipeline(make_scaler(), linear).fit(X, targets), X_test),
    }
    chance = error_of(table.task, losses_of(table.task, y_test, chance_prediction(table.task, y, len(y_test))))
    found: list[dict[str, Any]] = [{"model": "chance", "error": chance, "terms": None}]
    found[0] |= {"AUC": 0.5} if classes else {}
    for name, (model, rows) in fitted.items():
        predicted = model.predict(rows) if classes else model.predict(rows) * unit + center
        terms = len(machine.support_) if model[-1] is machine else None
        found.append({"model": name, "error": error_of(table.task, losses_of(table.task, y_test, predicted))})
        found[-1] |= {"terms": terms} | (peer_scores(model, rows, y_test, predicted) if classes else {})
    return found


def peer_scores(model: Any, rows: Any, y_test: NDArray[Any], predicted: NDArray[Any]) -> dict[str, float]:
    """Area under the ROC curve, and log loss of what has probabilities."""
    probabilities = model.predict_proba(rows) if hasattr(model, "predict_proba") else None
    scores = class_scores(y_test, predicted, ranking_values(model, rows), probabilities)
    return {measure: scores[measure] for measure in ("AUC", "log loss") if measure in scores}


def error_curve(
    judged: Any, X: NDArray[Any], y: NDArray[Any], X_test: NDArray[Any], y_test: NDArray[Any], table: Table, seed: int
) -> dict[str, Any]:
    """Held-out error of chance, of the model, and of models like it with fewer terms and with more.

    They are fitted to the same rows in the same way. The knee is the smallest whose error is within one standard error
    of the lowest.
    """
    k = len(judged.centers_)
    models = {k: judged}
    for size in sorted({k // 4, k // 2, min(2 * k, MOST_ON_CURVE)}):
        if size > 0 and (size < k or size > k):
            model = new_estimator(table, size, seed, False).fit(X, y)
            models.setdefault(len(model.centers_), model)
    losses = {0: chance_losses(y, y_test, table)}
    losses |= {size: judged_losses(models[size], X_test, y_test, table) for size in sorted(models)}
    best = min(losses, key=lambda size: losses[size].mean())
    most = losses[best].mean() + losses[best].std() / np.sqrt(len(y_test))
    errors = [error_of(table.task, found) for found in losses.values()]
    knee = next(size for size, found in losses.items() if found.mean() <= most)
    return {"terms": list(losses), "errors": errors, "knee": knee}


def judged_losses(model: Any, X: NDArray[Any], y: NDArray[Any], table: Table) -> NDArray[np.float64]:
    """Loss of each row by what a model is judged by: the log loss where classes are unequal, else its errors."""
    if table.task == "classification" and are_unequal(table.y):
        return log_losses(y, model.predict_proba(X))
    return losses_of(table.task, y, model.predict(X))


def chance_losses(y: NDArray[Any], y_test: NDArray[Any], table: Table) -> NDArray[np.float64]:
    """Losses, as `judged_losses` has them, of predictions that ignore the inputs; `y` are the training targets."""
    if table.task == "classification" and are_unequal(table.y):
        return log_losses_of_shares(y, y_test)
    return losses_of(table.task, y_test, chance_prediction(table.task, y, len(y_test)))


def log_losses_of_shares(y: NDArray[Any], y_test: NDArray[Any]) -> NDArray[np.float64]:
    """Log loss of each row where the shares of the classes among the training rows are the probabilities."""
    shares = np.unique(y, return_counts=True)[1] / len(y)
    return log_losses(y_test, np.tile(shares, (len(y_test), 1)))


def worth_of_columns(
    model: Any, X_test: NDArray[Any], y_test: NDArray[Any], table: Table, origin: list[str], seed: int
) -> list[dict[str, Any]]:
    """For each column its weight in the kernel, and how much the held-out error rises when its values are shuffled."""
    rng = np.random.default_rng(seed)
    base = error_of(table.task, judged_losses(model, X_test, y_test, table))
    spread = X_test.std(axis=0)
    found = []
    for name in table.kinds:
        mine = [i for i, column in enumerate(origin) if column == name]
        rises = []
        for _ in range(SHUFFLES if mine else 0):
            shuffled = X_test.copy()
            shuffled[:, mine] = X_test[rng.permutation(len(X_test))][:, mine]
            rises.append(error_of(table.task, judged_losses(model, shuffled, y_test, table)) - base)
        weight = float(np.sqrt(np.sum((model.input_weights_[mine] * spread[mine]) ** 2)))
        found.append({"column": name, "weight": weight, "rise": float(np.mean(rises)) if rises else 0.0})
    return sorted(found, key=lambda one: -one["rise"])


def points_for_pictures(
    model: Any,
    X: NDArray[Any],
    y: NDArray[Any],
    X_test: NDArray[Any],
    y_test: NDArray[Any],
    table: Table,
) -> dict[str, Any]:
    """Points of the pictures: predictions beside what happened, and the centres among the training rows."""
    some = np.linspace(0, len(y_test) - 1, min(ROWS_SHOWN, len(y_test))).astype(int)
    picture: dict[str, Any] = {"centres": centres_in_plane(model, X, y)}
    if table.task == "regression":
        predicted = model.predict(X_test[some])
        return picture | {"predicted": predicted.tolist(), "true": y_test[some].tolist()}
    return picture | {"calibration": calibration_bins(model, X_test, y_test)}


def calibration_bins(model: Any, X_test: NDArray[Any], y_test: NDArray[Any]) -> list[list[float]]:
    """Predicted probability, share that happened and number of rows, in bins: of the last of two classes, or of all."""
    probabilities = model.predict_proba(X_test)
    happened = y_test[:, None] == model.classes_
    if len(model.classes_) == 2:
        probabilities, happened = probabilities[:, 1:], happened[:, 1:]
    p, h = probabilities.ravel(), happened.ravel()
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    return [
        [float(p[bins == b].mean()), float(h[bins == b].mean()), int((bins == b).sum())]
        for b in range(BINS)
        if np.any(bins == b)
    ]


def centres_in_plane(model: Any, X: NDArray[Any], y: NDArray[Any]) -> dict[str, Any]:
    """Centres among training rows along the two directions of the weighed inputs in which these vary most."""
    rows = np.random.default_rng(0).permutation(len(y))[:ROWS_SHOWN]
    Z, C = (part * model.input_weights_ for part in (X[rows], model.centers_))
    middle = Z.mean(axis=0)
    directions = np.linalg.svd(Z - middle, full_matrices=False)[2][:2]
    axes = np.pad(directions, ((0, 2 - len(directions)), (0, 0)))  # of one input there is but one
    size = np.abs(model.dual_coef_).reshape(len(C), -1).max(axis=1)
    return {
        "rows": ((Z - middle) @ axes.T).tolist(),
        "targets": y[rows].tolist(),
        "centres": ((C - middle) @ axes.T).tolist(),
        "sizes": (size / (size.max() or 1.0)).tolist(),
    }


def normalised_errors(model: Any, X_test: NDArray[Any], y_test: NDArray[Any]) -> NDArray[np.float64]:
    """Sorted errors of rows held out in units of what was predicted for them."""
    predicted, std = model.predict(X_test, return_std=True)
    return np.sort(np.abs(y_test - predicted) / np.maximum(std, np.finfo(float).tiny))

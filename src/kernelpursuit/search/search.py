"""Cross-validation of every number of atoms and every kernel width, at one path for each fold and width."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import check_consistent_length
from sklearn.utils.parallel import Parallel, delayed

from kernelpursuit._warning import warn
from kernelpursuit.arrays import on_host
from kernelpursuit.estimators.widths import FeatureWidths
from kernelpursuit.fitting.callbacks import SearchTask, inside, lines_wanted, place_in
from kernelpursuit.fitting.parameters import SEARCH_CONSTRAINTS
from kernelpursuit.fitting.pipeline import say
from kernelpursuit.fitting.placement import follow, is_precomputed, take_rows
from kernelpursuit.fitting.rules import warn_of_choice
from kernelpursuit.fitting.training import host_weights
from kernelpursuit.kernels.kernels import scale_gamma, uses_gamma
from kernelpursuit.pursuit.loop import count
from kernelpursuit.search.input_weights import (
    WIDTHS,
    kinds_to_try,
    learn,
    learned_in_folds,
    of_inputs_as_they_are,
    unfitted,
    weighed,
)
from kernelpursuit.search.path_scores import (
    Ended,
    Interrupted,
    quiet_path_scores,
    scored_by_metric,
    weight_option,
)
from kernelpursuit.search.score_table import (
    Setting,
    best_pair,
    check_classes,
    cv_results,
    mean_scores,
    without_undefined_folds,
)


class Found(NamedTuple):
    """Result of a search."""

    model: Any  # fitted to all rows with the choices
    table: np.ndarray  # scores, (settings, folds, numbers of atoms)
    settings: list[Setting]
    chosen: int  # which of them
    n_atoms: int
    input_weights: np.ndarray


class SearchModel:
    """Attributes of a search, and of the model that came out of it."""

    gamma_: Any

    def __sklearn_tags__(self: Any) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse &= getattr(self, "input_weights", "equal") == "equal"
        return tags

    def _adopt(self: Any, found: Found) -> None:
        self._one_target = found.model._one_target
        self._set(found.model._taken)
        self.cv_results_ = cv_results(found.table, found.settings)
        self.best_n_atoms_ = found.n_atoms
        self.best_score_ = float(mean_scores(found.table)[found.chosen, found.n_atoms - 1])
        self.gamma_ = found.settings[found.chosen].gamma
        if hasattr(self, "input_weights"):
            self.input_weights_ = follow(found.input_weights, self.support_vectors_)


def search(
    estimator: Any,
    make: Callable,
    metric: Callable,
    X: Any,
    y: Any,
    sample_weight: Any,
    groups: Any = None,
) -> Found:
    """Cross-validate all widths, ridges, kinds of input weights and numbers of atoms; fit the best on all rows.

    Parameters
    ----------
    estimator : estimator
        Has the parameters of `SEARCH_CONSTRAINTS`, and those of `make`.
    make : callable
        ``make(n_atoms=, gamma=, ...)`` gives the estimator to choose for.
    metric : callable
        ``metric(y, prediction, sample_weight=)``, larger is better; used when no scorer is given.
    X, y, sample_weight
        Checked data.
    groups : array-like of shape (n_samples,), optional
        For a splitter that keeps the rows of a group together.
    """
    own = {*SEARCH_CONSTRAINTS, "alphas", "input_weights"}
    params = {name: value for name, value in estimator.get_params(deep=False).items() if name not in own}
    weights = None if sample_weight is None else host_weights(sample_weight, X)
    if weights is not None and not np.any(weights > 0):
        raise ValueError("sample_weight must have at least one positive entry: all weights are zero")
    settings = [
        Setting(gamma, alpha, learned)
        for learned in kinds_to_try(estimator, X)
        for gamma in width_grid(estimator.gammas, estimator.kernel, X, weights, learned)
        for alpha in ridge_grid(getattr(estimator, "alphas", None))
    ]
    widths = unfitted(estimator, on_host(y)) if any(setting.learned for setting in settings) else None

    def model(n_atoms: int, setting: Setting, verbose: int) -> Any:
        given = {"gamma": "scale" if setting.gamma is None else setting.gamma, "n_atoms": n_atoms, "verbose": verbose}
        return make(**params | given | ({} if setting.alpha is None else {"alpha": setting.alpha}))

    y_host = on_host(y)
    check_consistent_length(X, y_host, groups)
    folds = list(check_cv(estimator.cv, y_host, classifier=is_classifier(estimator)).split(X, y_host, groups))
    if is_classifier(estimator) and y_host.ndim == 1:
        check_classes(estimator, y_host, weights, folds)
    scored = cross_validate(estimator, model, metric, X, y_host, weights, settings, widths, folds)
    whole = not scored.interrupted and scored.done >= len(folds)
    table = without_undefined_folds(scored.table) if whole else scored.table
    n_paths, settings, verbose = len(settings) * len(folds), settings[: len(table)], lines_wanted(estimator)
    chosen, k = best_known(scored, estimator.one_standard_error)
    if verbose:
        say(f"chosen: {settings[chosen]}, {count(k, 'atom')}, mean score {mean_scores(table)[chosen, k - 1]:.4g}")
    final = model(k, settings[chosen], verbose)
    input_weights = fit_on_all_rows(estimator, final, widths if settings[chosen].learned else None, X, y, weights)
    path = final.path_
    if scored.interrupted and path.reason != "interrupted":
        path.reason = "interrupted"
        path.sentence = f"interrupted after {scored.done} of {count(n_paths, 'path')} of the search"
    elif scored.stopped and path.reason != "interrupted":
        path.reason = "callback"
        path.sentence = f"a callback ended the search after {scored.done} of {count(n_paths, 'path')}"
        warn_of_choice(path, f"{settings[chosen]} and {count(k, 'atom')} are the best that was known by then")
    if k == estimator.max_atoms and path.reason != "interrupted":
        warn(
            f"the best number of atoms is max_atoms={k}, the largest that was tried: more may be better. Raise "
            "max_atoms, or take one_standard_error=True for the fewest atoms that are nearly as good",
            ConvergenceWarning,
        )
    return Found(final, table, settings, chosen, k, input_weights)


def fit_on_all_rows(
    estimator: Any, model: Any, widths: FeatureWidths | None, X: Any, y: Any, weights: np.ndarray | None
) -> np.ndarray:
    """Fit the model of a search, with `widths` to weighted inputs. Returns the weights of the inputs.

    An interrupt that leaves a model is kept in its path. Callbacks do not end it: all has been chosen.
    """
    options, inputs, interrupted = weight_option(weights), X, ""
    if widths is not None:
        try:
            learn(widths.set_params(verbose=model.verbose), estimator, X, on_host(y), weights)
        except KeyboardInterrupt:
            if not hasattr(widths, "weights_"):
                raise
            interrupted = "input weights were learned"
        inputs = weighed(X, widths)
    try:
        with inside(place_in(estimator, "fit on all rows"), model, inputs, y, settled=True):
            model.fit(inputs, y, **options)
    except KeyboardInterrupt:
        if not hasattr(model, "path_"):
            raise
    if interrupted and model.path_.reason != "interrupted":
        model.path_.reason, model.path_.sentence = "interrupted", f"interrupted while {interrupted}"
    if widths is None:
        return np.ones(X.shape[1])
    of_inputs_as_they_are(model, X, widths.weights_)
    return on_host(widths.weights_)


class Scored(NamedTuple):
    """Scores of a search, as far as it came."""

    table: np.ndarray  # (settings, folds, numbers of atoms), nan where there is none
    done: int  # number of paths that have theirs, in the order of the table
    interrupted: bool = False
    stopped: bool = False  # by a callback, which is not raised again as an interrupt is
    steps: int = 0  # of the path that was ended by either


def cross_validate(
    estimator: Any,
    model: Callable,
    metric: Callable,
    X: Any,
    y: np.ndarray,
    weights: Any,
    settings: list[Setting],
    widths: FeatureWidths | None,
    folds: list[tuple[np.ndarray, np.ndarray]],
) -> Scored:
    """Score the path of every setting and fold. An interrupt ends it; one before the first step is raised at once."""
    most, verbose, prototype = estimator.max_atoms, lines_wanted(estimator), model(1, settings[0], 0)
    scorer = None if scored_by_metric(estimator, X, weights) else check_scoring(prototype, scoring=estimator.scoring)
    told = SearchTask(estimator, [str(setting) for setting in settings], len(folds))
    learned = [] if widths is None else learned_in_folds(widths, estimator, X, y, weights, folds, verbose)

    def jobs() -> Iterator[Any]:
        for place, setting in enumerate(settings):
            for fold, (train, test) in enumerate(folds):
                if told.stopped:
                    return
                label = f"fold {fold + 1} of {len(folds)}, {setting}" if verbose else ""
                one = model(most, setting, max(0, verbose - 1))
                rows = weighed(X, learned[fold]) if setting.learned else X
                heard = told.fold(place, fold)
                yield delayed(quiet_path_scores)(one, rows, y, weights, train, test, scorer, metric, label, heard)

    results = Parallel(n_jobs=estimator.n_jobs, return_as="generator")(jobs())

    table, done = np.full((len(settings), len(folds), most), np.nan), 0
    try:
        for scores in until_stopped(results, told):
            table[divmod(done, len(folds))] = scores
            done += 1
            if done % len(folds) == 0:
                say_how_far(table[: done // len(folds)], settings, told, verbose)
    except KeyboardInterrupt as interrupt:
        steps = interrupt.steps if isinstance(interrupt, Interrupted) else 0
        if not (done or steps):
            raise
        return Scored(table, done, interrupted=True, steps=steps)
    known, stopped = table[: max(1, done // len(folds))], done < len(settings) * len(folds)
    return Scored(known, done, stopped=stopped, steps=told.steps)


def until_stopped(results: Iterable[Any], told: SearchTask) -> Iterator[np.ndarray]:
    """Scores of the paths that are complete, until a callback asks to stop."""
    for scores in results:
        if told.stopped:  # other processes may have begun one or two more
            continue
        if isinstance(scores, Ended):
            told.stopped, told.steps = True, scores.steps
            scores = scores.scores
        if scores is not None:
            yield scores


def say_how_far(table: np.ndarray, settings: list[Setting], told: SearchTask, verbose: int) -> None:
    """All folds of a setting are done: a line says what is best so far, and callbacks may stop the search."""
    if verbose:
        say(best_so_far(table, settings))
    told.stopped |= told.ended(len(table) - 1)


def best_so_far(table: np.ndarray, settings: list[Setting]) -> str:
    """A line about the last of some settings, and about the best of them."""
    mean = np.nan_to_num(mean_scores(table), nan=-np.inf)
    last, best = len(mean) - 1, int(np.argmax(mean.max(axis=1)))
    said = [
        f"{settings[place]}: mean score {mean[place].max():.4g} with {count(int(mean[place].argmax()) + 1, 'atom')}"
        for place in (last, best)
    ]
    return said[0] + ("; the best so far" if best == last else f"; best so far {said[1]}")


def best_known(scored: Scored, one_standard_error: bool) -> tuple[int, int]:
    """Index of the setting and number of atoms: the best, or what is known to be when a search was ended.

    Then the settings of which all folds are done are compared. If there is none, the folds of the first one decide. If
    not one path has scores, it is the first setting with as many steps as its path had.
    """
    table = scored.table
    settings, folds = divmod(scored.done, table.shape[1])
    if settings:
        return best_pair(table[:settings], one_standard_error)
    first = table[:1, :folds]
    return (0, max(1, scored.steps)) if np.all(np.isnan(first)) else best_pair(first, one_standard_error)


def width_grid(
    gammas: Any, kernel: Any, X: Any, weights: np.ndarray | None, learned: bool = False
) -> list[float | None]:
    """Widths to try; [None] for kernels that have none."""
    if is_precomputed(kernel) or not uses_gamma(kernel):
        if gammas is not None:
            raise ValueError(f"gammas is given but kernel={kernel!r} has no gamma; set gammas=None")
        return [None]
    if gammas is None:
        if learned:
            return list(WIDTHS)
        counted = X if weights is None else take_rows(X, np.flatnonzero(weights > 0))
        positive = None if weights is None else weights[weights > 0]
        return [scale_gamma(counted, positive) * 4.0**power for power in range(-3, 2)]
    return non_negative("gammas", gammas)


def ridge_grid(alphas: Any) -> list[float | None]:
    """Ridges to try; [None] where there is nothing to choose."""
    return [None] if alphas is None else non_negative("alphas", alphas)


def non_negative(name: str, values: Any) -> list[float | None]:
    """Checked values of a parameter that is a list of non-negative numbers."""
    grid = np.asarray(values)
    grid = grid.astype(np.float64) if grid.dtype.kind in "iuf" else np.empty(0)
    if grid.ndim != 1 or len(grid) == 0 or not np.all(np.isfinite(grid) & (grid >= 0)):
        raise ValueError(f"{name} must be a list of non-negative numbers with at least one entry, got {values!r}")
    return [float(value) for value in grid]

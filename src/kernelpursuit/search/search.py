"""The search: kernel width, ridge, weights of the inputs and number of atoms, chosen by cross-validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from kernelpursuit._sklearn import EstimatorSupport, HasMethods, Interval, StrOptions, fit_context, get_config
from kernelpursuit._warning import warn
from kernelpursuit.arrays import on_host
from kernelpursuit.estimators.classification import KMPClassifier
from kernelpursuit.estimators.discriminant import SparseKernelFDA
from kernelpursuit.estimators.faces import PolytopeFacesRegressor
from kernelpursuit.estimators.ranker import KMPRanker
from kernelpursuit.estimators.regression import KMPRegressor
from kernelpursuit.estimators.widths import FeatureWidths
from kernelpursuit.fitting.callbacks import SearchTask, inside, lines_wanted, place_in, told
from kernelpursuit.fitting.classes import check_training_classes
from kernelpursuit.fitting.model import with_input_weights
from kernelpursuit.fitting.pipeline import say
from kernelpursuit.fitting.placement import check_place, to_namespace_of
from kernelpursuit.fitting.rows import is_collection, refuse_collections
from kernelpursuit.fitting.training import check_training, host_weights, warn_if_one_column_rules
from kernelpursuit.pursuit.loop import count
from kernelpursuit.search.fold_scores import SearchRows, score_fold
from kernelpursuit.search.input_weights import (
    check_input_weights,
    feature_widths_for,
    learn_weights,
    learned_in_folds,
    weighted_inputs,
)
from kernelpursuit.search.metrics import Metric, is_metric_of, metric_for
from kernelpursuit.search.score_table import (
    best_pair,
    check_folds,
    cv_results,
    mean_scores,
    refuse_folds_of_one_class,
)
from kernelpursuit.search.settings import INPUT_WEIGHTS, Setting, settings_to_try

SEARCHED = (KMPRegressor, KMPClassifier, SparseKernelFDA, KMPRanker, PolytopeFacesRegressor)
Folds = list[tuple[np.ndarray, np.ndarray]]


class Scored(NamedTuple):
    """Scores of a search, as far as it came."""

    table: np.ndarray  # (settings, folds, numbers of atoms), nan where there is none
    n_folds_done: int  # folds that have scores, in the order of the table
    ended: str = ""  # "interrupted" or "callback", where it was ended early
    n_steps: int = 0  # of the path that was ended

    def best(self, one_standard_error: bool) -> tuple[int, int]:
        """Index of the setting and number of atoms: the best, or what is known to be best after an early end.

        Then the settings whose folds are all done are compared. If there is none, the folds of the first one decide. If
        not one fold has scores, the number of atoms is that of the path that was ended.
        """
        n_settings, n_folds = divmod(self.n_folds_done, self.table.shape[1])
        if n_settings:
            return best_pair(self.table[:n_settings], one_standard_error)
        first = self.table[:1, :n_folds]
        return (0, max(1, self.n_steps)) if np.all(np.isnan(first)) else best_pair(first, one_standard_error)


def estimator_has(name: str) -> Callable[[Any], bool]:
    """Whether the estimator of a search has a method or attribute; the AttributeError of one that has not."""

    def check(search: Any) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return check


def best_so_far(table: np.ndarray, settings: list[Setting]) -> str:
    """A line about the last setting of the table, and about the best one."""
    mean = np.nan_to_num(mean_scores(table), nan=-np.inf)
    last, best = len(mean) - 1, int(np.argmax(mean.max(axis=1)))
    lines = [
        f"{settings[i]}: mean score {mean[i].max():.4g} with {count(int(mean[i].argmax()) + 1, 'atom')}"
        for i in (last, best)
    ]
    return lines[0] + ("; the best so far" if best == last else f"; best so far {lines[1]}")


def warn_of_callback(progress: str, chosen: Setting, k: int) -> None:
    """Warn that a callback has ended a search after this `progress`."""
    warn(
        f"a callback ended the search after {progress}: {chosen} and {count(k, 'atom')} are the best that was known by "
        "then, and the model may be worse than one of a search that was finished. Let the callback wait longer, or ask "
        "for less: fewer atoms, widths or folds",
        ConvergenceWarning,
    )


def warn_of_longest(k: int) -> None:
    """Warn that the largest number of atoms was best."""
    warn(
        f"the best number of atoms is max_atoms={k}, the largest that was tried: more may be better. Raise max_atoms, "
        "or take one_standard_error=True for the fewest atoms that are nearly as good",
        ConvergenceWarning,
    )


class PursuitSearchCV(MetaEstimatorMixin, EstimatorSupport, BaseEstimator):
    """Cross-validation of the number of atoms, the kernel width and the ridge.

    The path of a pursuit with `max_atoms` steps holds the models of all smaller numbers. So each fold and width costs
    one fit, and every number of atoms is cross-validated. What `GridSearchCV` would find with ``n_atoms`` in its grid
    comes out, after a hundredth of the fits.

    Parameters
    ----------
    estimator : KMPRegressor, KMPClassifier, SparseKernelFDA, KMPRanker or PolytopeFacesRegressor
        What to choose for. Its own `n_atoms` and `gamma` are not used.
    gammas : array-like, optional
        Values of the kernel's gamma to try. By default there are five, a factor 4 apart, from 1/64 to 4 times
        ``gamma="scale"``. A kernel without gamma has one path for each fold.
    alphas : array-like, optional
        Values of the ridge `alpha` to try with every width. By default that of the estimator alone. Under
        ``alpha="auto"`` all numbers of atoms of a fold are scored with the ridge of its longest path; the model that is
        fitted to all rows has that of its own atoms.
    max_atoms : int, default=100
        Number of atoms of the longest path. A warning says when the best number is this one.
    input_weights : {"equal", "learned", "both"}, default="equal"
        What the inputs are multiplied by. "equal" takes them as they are. "learned" gives each a weight by
        `FeatureWidths`, in a fold by its training rows alone, so that the units of X do not matter and inputs that say
        nothing about y drop out. It needs a Gaussian kernel and dense X. The weights suit ``gamma=1``, and by default
        1/4, 1, 4 and 16 are tried. "both" tries both and keeps the better.
    cv : int, splitter or iterable, default=None
        Folds, as in scikit-learn. None is five of them. A splitter that needs groups gets those given to `fit`. Of a
        ranker with groups a number is one of `GroupKFold`.
    scoring : str, callable or None, default=None
        None is minus the mean of the loss that a regressor fits (for the squared loss the negative mean squared error),
        the accuracy of a classifier, and NDCG of a ranker. These are computed for all numbers of atoms at once; other
        scorers of scikit-learn are called for each number. Scores of probabilities are near those of
        `cross_val_score`, but not equal: the probabilities along a path are calibrated for about two numbers of atoms
        in each doubling, and in between by interpolation.
    one_standard_error : bool, default=False
        Whether to take the fewest atoms whose mean score is within one standard error of the best.
    n_jobs : int, optional
        Number of processes that fit folds at the same time, as in scikit-learn.
    verbose : int, default=0
        1 prints a line for each fold and setting, after each setting what is best so far, then what was chosen and how
        the last fit goes. 2 also prints how the fits of the folds go.

    Attributes
    ----------
    best_estimator_ : estimator
        The estimator with the choices, fitted to all rows.
    best_params_ : dict
        The choices: "n_atoms" and, where they were searched for, "gamma", "alpha" and "input_weights".
    best_score_ : float
        Mean score of these over the folds.
    best_index_ : int
        Their place in `cv_results_`.
    cv_results_ : dict of ndarrays
        Scores of every setting and number of atoms, in the layout of scikit-learn's searches: ``param_n_atoms``,
        ``param_gamma``, ..., ``params``, ``mean_test_score``, ``std_test_score``, ``rank_test_score``,
        ``split0_test_score``, ...
    input_weights_ : array of shape (n_features,)
        What each input is multiplied by, 1 where the weights are equal. `best_estimator_` applies them itself: an atom
        is ``exp(-gamma_ * sum(input_weights_**2 * (x - z)**2))``. A clone of it does not know them.
    n_splits_ : int
        Number of folds.
    refit_time_ : float
        Seconds that the fit to all rows took.
    scorer_ : callable
        The scorer behind `scoring`, used by `score`.
    classes_ : ndarray of shape (n_classes,)
        The classes of a classifier, sorted.
    n_features_in_ : int
        Number of columns of X in `fit`.
    feature_names_in_ : ndarray of str
        Names of the columns of X, where it has them.

    Notes
    -----
    Ctrl-C, or a callback that asks to stop, ends the search. The best that is known by then is fitted to all rows, and
    the interrupt goes on its way. ``best_estimator_.path_`` says how the last fit ended.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import KMPRegressor, PursuitSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, size=(100, 1))
    >>> y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=100)
    >>> search = PursuitSearchCV(KMPRegressor(), max_atoms=20, cv=3).fit(X, y)
    >>> search.cv_results_["mean_test_score"].shape, sorted(search.best_params_)
    ((100,), ['gamma', 'n_atoms'])
    >>> len(search.best_estimator_.support_) == search.best_params_["n_atoms"]
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "estimator": [HasMethods(["fit"])],
        "gammas": ["array-like", None],
        "alphas": ["array-like", None],
        "max_atoms": [Interval(Integral, 1, None, closed="left")],
        "input_weights": [StrOptions(set(INPUT_WEIGHTS))],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "one_standard_error": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator,
        *,
        gammas=None,
        alphas=None,
        max_atoms=100,
        input_weights="equal",
        cv=None,
        scoring=None,
        one_standard_error=False,
        n_jobs=None,
        verbose=0,
    ):
        self.estimator = estimator
        self.gammas = gammas
        self.alphas = alphas
        self.max_atoms = max_atoms
        self.input_weights = input_weights
        self.cv = cv
        self.scoring = scoring
        self.one_standard_error = one_standard_error
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    @told
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> PursuitSearchCV:
        """Choose by cross-validation, then fit to all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Whatever the estimator accepts.
        y : array-like of shape (n_samples,), (n_samples, n_targets) or (n_samples, n_labels)
        sample_weight : array-like of shape (n_samples,), optional
            Used in the fits and in the scores; the `class_weight` of a classifier is used in the fits alone.
        groups : array-like of shape (n_samples,), optional
            Group of each row, for a `cv` that keeps the rows of a group together, such as ``GroupKFold()``. A ranker
            orders the rows of a group, which must be consecutive.

        Returns
        -------
        self
        """
        refuse_collections(self, "fit", X, y, sample_weight, groups)
        self._check_estimator()
        rows, names = self._checked_rows(X, y, sample_weight, groups)
        if self.input_weights == "equal":
            self._warn_if_one_column_rules(rows, names)
        settings = settings_to_try(self, rows.X, rows.weights)
        folds = self._folds(rows, groups)
        self.n_splits_ = len(folds)
        widths = None
        if self.input_weights != "equal":
            check_input_weights(self.estimator, rows.X, self.input_weights)
            widths = feature_widths_for(self.estimator, rows.y)
        judge = self._judge(rows)
        scored = self._score_folds(settings, folds, rows, judge, widths)
        if not scored.ended:
            check_folds(scored.table)
        place, k = scored.best(self.one_standard_error)
        unit = judge.unit if isinstance(judge, Metric) else 1.0
        self._keep_scores(scored.table, settings[: len(scored.table)], place, k, unit)
        chosen = settings[place]
        if self.input_weights == "both" and chosen.input_weights == "equal":
            self._warn_if_one_column_rules(rows, names)
        learned = widths if chosen.input_weights == "learned" else None
        interrupted = self._fit_best(self._model(chosen, k, lines_wanted(self)), X, y, rows, learned)
        progress = f"{scored.n_folds_done} of {count(len(settings) * len(folds), 'path')}"
        if scored.ended == "interrupted" and not interrupted:
            interrupted = f"interrupted after {progress} of the search"
        if interrupted:
            self._interrupt = KeyboardInterrupt(f"{interrupted}; what was finished by then is the model")
            return self
        if scored.ended == "callback":
            warn_of_callback(progress, chosen, k)
        if k == self.max_atoms:
            warn_of_longest(k)
        return self

    def _check_estimator(self) -> None:
        """Refuse an estimator that has no path of models, or chooses its number of atoms itself."""
        name = type(self.estimator).__name__
        if not isinstance(self.estimator, SEARCHED):
            *others, last = (one.__name__ for one in SEARCHED)
            raise ValueError(
                f"estimator must be one whose paths can be cut short and scored, {', '.join(others)} or {last}, got "
                f"{name}. The search may be the last step of a pipeline, not the other way round"
            )
        if getattr(self.estimator, "stop", None) is not None:
            raise ValueError(
                f"estimator has stop={self.estimator.stop!r}, which chooses a number of atoms, as the search does: "
                f"give {name}(stop=None)"
            )
        if getattr(self.estimator, "resume", False):
            raise ValueError(
                f"estimator has resume={self.estimator.resume!r}, which is for a single fit, and the search has "
                "many: fit an estimator with best_params_ to have one"
            )

    def _checked_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> tuple[SearchRows, Any]:
        """The data as arrays, of which the folds take rows, and the names of the columns, if they have any."""
        model = clone(self.estimator).set_params(gamma=1.0)  # of units the search warns itself, see below
        if is_classifier(model):
            X, y, _ = check_training_classes(model, X, y, sample_weight)
        else:
            X, y = check_training(model, X, y, multi_output=isinstance(model, KMPRegressor), y_numeric=True)
        weights = None if sample_weight is None else host_weights(sample_weight, X)
        if weights is not None and not np.any(weights > 0):
            raise ValueError("sample_weight must have at least one positive entry: all weights are zero")
        y = on_host(y)
        check_consistent_length(X, y, groups)
        is_ranker = isinstance(model, KMPRanker) and groups is not None
        rows = SearchRows(X, y, weights, np.asarray(groups) if is_ranker else None)
        return rows, getattr(model, "feature_names_in_", None)

    def _warn_if_one_column_rules(self, rows: SearchRows, names: Any) -> None:
        """Warn where the widths that are tried by default are those of one column in other units."""
        warn_if_one_column_rules(rows.X, self.estimator.kernel, self.gammas, rows.weights, columns=names)

    def _folds(self, rows: SearchRows, groups: Any) -> Folds:
        """Indices of the training rows and of the held-out rows of each fold."""
        cv = self.cv
        if rows.groups is not None and (cv is None or isinstance(cv, Integral)):
            cv = GroupKFold(5 if cv is None else cv)
        splitter = check_cv(cv, rows.y, classifier=is_classifier(self.estimator))
        folds = list(splitter.split(rows.X, rows.y, groups))
        if is_classifier(self.estimator) and rows.y.ndim == 1:
            refuse_folds_of_one_class(self, rows.y, rows.weights, folds)
        return folds

    def _model(self, setting: Setting, n_atoms: int, verbose: int) -> Any:
        """An unfitted estimator."""
        return clone(self.estimator).set_params(n_atoms=n_atoms, verbose=max(0, verbose), **setting.parameters)

    def _score_folds(
        self,
        settings: list[Setting],
        folds: Folds,
        rows: SearchRows,
        judge: Any,
        widths: FeatureWidths | None,
    ) -> Scored:
        """Score the path of every setting and fold.

        An interrupt or a callback ends it; an interrupt is raised at once where nothing is known yet.
        """
        verbose = lines_wanted(self)
        task = SearchTask(self, [str(setting) for setting in settings], len(folds))
        if widths is not None:
            quiet, trains = clone(widths).set_params(verbose=max(0, verbose - 1)), [train for train, _ in folds]
            learned = learned_in_folds(quiet, self.estimator, rows.X, rows.y, rows.weights, trains)
        table = np.full((len(settings), len(folds), self.max_atoms), np.nan)
        done, n_steps, ended = 0, 0, ""

        def jobs() -> Iterator[Any]:
            for i, setting in enumerate(settings):
                for j, (train, test) in enumerate(folds):
                    if ended:
                        return
                    given = rows
                    if setting.input_weights == "learned":
                        given = rows._replace(X=weighted_inputs(rows.X, learned[j]))
                    label = f"fold {j + 1} of {len(folds)}, {setting}" if verbose else ""
                    model = self._model(setting, self.max_atoms, verbose - 1)
                    yield delayed(score_fold)(model, given, train, test, judge, label, task.fold(i, j))

        try:
            for fold in Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs()):
                if ended:  # other processes may have begun one or two more
                    continue
                n_steps, ended = fold.n_steps, fold.ended
                if fold.scores is None:
                    continue
                table[divmod(done, len(folds))] = fold.scores
                done += 1
                if done % len(folds) == 0:
                    i = done // len(folds)
                    if verbose:
                        say(best_so_far(table[:i], settings))
                    ended = "callback" if task.ended(i - 1) else ended
        except KeyboardInterrupt:
            if done == 0:
                raise
            ended = "interrupted"
        if ended == "callback" and done == len(settings) * len(folds):  # there was nothing left to end
            ended = ""
        return Scored(table[: max(1, done // len(folds))], done, ended, n_steps)

    def _judge(self, rows: SearchRows) -> Any:
        """The metric where `scoring` asks for it, else the scorer; with weights of rows the two may differ."""
        if self.scoring is None or (rows.weights is None and is_metric_of(self.estimator, self.scoring)):
            return metric_for(self.estimator, rows.X, rows.y, rows.weights)
        return self.scorer_

    def _keep_scores(self, table: np.ndarray, settings: list[Setting], setting: int, k: int, unit: float) -> None:
        """Set the attributes about scores; `table` has them in this unit."""
        self.cv_results_ = cv_results(table, settings, unit)
        self.best_index_ = setting * self.max_atoms + k - 1
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        in_units = mean_scores(table)[setting, k - 1]
        if np.isfinite(in_units) and in_units != 0 and not 0 < abs(self.best_score_) < np.inf:
            warn(
                f"best_score_ and cv_results_ are {self.best_score_:g}: squares of y are no numbers of float64. The "
                "choice was made for y divided by its size, as rank_test_score shows. Scale y to see scores"
            )
        if lines_wanted(self):
            say(f"chosen: {settings[setting]}, {count(k, 'atom')}, mean score {self.best_score_:.4g}")

    def _fit_best(self, model: Any, X: Any, y: Any, rows: SearchRows, widths: FeatureWidths | None) -> str:
        """Fit the chosen model to all rows, with learned weights if there are `widths`.

        Returns how it was interrupted, if it was, and left a model.
        """
        began, interrupted, input_weights, inputs = time.perf_counter(), "", np.ones(rows.X.shape[1]), X
        if widths is not None:
            interrupted = self._learn_weights(widths.set_params(verbose=model.verbose), X, rows)
            input_weights, inputs = on_host(widths.weights_), weighted_inputs(rows.X, widths)
        try:
            with inside(place_in(self, "fit on all rows"), model, inputs, y, settled=True):
                model.fit(inputs, y, **rows.options(np.arange(len(rows.y))))
        except KeyboardInterrupt:
            if not hasattr(model, "path_"):
                raise
            interrupted = model.path_.sentence
        if widths is not None:
            names = getattr(widths, "feature_names_in_", None)
            model = with_input_weights(model, rows.X, input_weights, names)
        self.best_estimator_ = model
        self.input_weights_ = to_namespace_of(input_weights, model.support_vectors_)
        self.refit_time_ = time.perf_counter() - began
        return interrupted

    def _learn_weights(self, widths: FeatureWidths, X: Any, rows: SearchRows) -> str:
        """Learn the weights of the inputs from all rows. Returns how it was interrupted, if it was and left weights."""
        try:
            learn_weights(widths, self.estimator, X, rows.y, rows.weights, all_y=rows.y)
        except KeyboardInterrupt:
            if not hasattr(widths, "weights_"):
                raise
            return "interrupted while input weights were learned"
        return ""

    @property
    def scorer_(self) -> Callable[..., float]:
        """The scorer behind `scoring`; the `score` of the estimator where that is None."""
        return check_scoring(self.estimator, scoring=self.scoring)

    @property
    def classes_(self) -> Any:
        """Classes of a classifier."""
        estimator_has("classes_")(self)
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X in `fit`."""
        estimator_has("n_features_in_")(self)
        return self.best_estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns of X, where it had them in `fit`."""
        estimator_has("feature_names_in_")(self)
        return self.best_estimator_.feature_names_in_

    def _best_for(self, X: Any, method: str) -> Any:
        """The best estimator, after a check in the name of the search that X is where the fitted data were."""
        check_is_fitted(self)
        if get_config()["array_api_dispatch"] and not is_collection(X):
            check_place(self, X, self.best_estimator_.support_vectors_, method)
        return self.best_estimator_

    def score(self, X: Any, y: Any, sample_weight: Any = None, **options: Any) -> float:
        """Score of the best estimator on other rows: by `scoring`, or by its own method `score` where that is None.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
        **options : dict
            What else the estimator's own method takes: the `group` of a ranker.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        if sample_weight is not None:
            options["sample_weight"] = sample_weight
        return self.scorer_(self.best_estimator_, X, y, **options)

    @available_if(estimator_has("predict"))
    def predict(self, X: Any) -> Any:
        """`predict` of the best estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), (n_samples, n_targets) or (n_samples, n_labels)
        """
        return self._best_for(X, "predict").predict(X)

    @available_if(estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """`predict_proba` of the best estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._best_for(X, "predict_proba").predict_proba(X)

    @available_if(estimator_has("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> Any:
        """`predict_log_proba` of the best estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._best_for(X, "predict_log_proba").predict_log_proba(X)

    @available_if(estimator_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """`decision_function` of the best estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._best_for(X, "decision_function").decision_function(X)

    @available_if(estimator_has("transform"))
    def transform(self, X: Any) -> Any:
        """`transform` of the best estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes - 1)
        """
        return self._best_for(X, "transform").transform(X)

    @available_if(estimator_has("staged_predict"))
    def staged_predict(self, X: Any) -> Iterator[Any]:
        """`staged_predict` of the best estimator: predictions of its models with 1, 2, ... steps.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,), (n_samples, n_targets) or (n_samples, n_labels)
        """
        return self._best_for(X, "staged_predict").staged_predict(X)

    @available_if(estimator_has("staged_decision_function"))
    def staged_decision_function(self, X: Any) -> Iterator[Any]:
        """`staged_decision_function` of the best estimator: values of its models with 1, 2, ... steps.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._best_for(X, "staged_decision_function").staged_decision_function(X)

    def truncate(self, k: int) -> Any:
        """The best estimator cut to the first `k` steps of its path.

        Parameters
        ----------
        k : int
            From 0 (the constant) to the number of steps taken.

        Returns
        -------
        estimator
            A fitted copy of `best_estimator_`, which stays as it is.
        """
        check_is_fitted(self)
        return self.best_estimator_.truncate(k)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        for name in ("estimator_type", "array_api_support"):
            setattr(tags, name, getattr(inner, name))
        for name in ("classifier_tags", "regressor_tags", "transformer_tags", "target_tags", "input_tags"):
            setattr(tags, name, deepcopy(getattr(inner, name)))
        tags.input_tags.sparse &= self.input_weights == "equal"
        return tags

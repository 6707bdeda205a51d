"""The search: kernel width, ridge, weights of the inputs and number of atoms, chosen by cross-validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from kernelpursuit._sklearn import EstimatorSupport, HasMethods, StrOptions, fit_context, get_config
from kernelpursuit._warning import warn
from kernelpursuit.arrays import on_host
from kernelpursuit.estimators.classification import KMPClassifier
from kernelpursuit.estimators.discriminant import SparseKernelFDA
from kernelpursuit.estimators.faces import PolytopeFacesRegressor
from kernelpursuit.estimators.ranker import KMPRanker
from kernelpursuit.estimators.regression import KMPRegressor
from kernelpursuit.estimators.widths import FeatureWidths
from kernelpursuit.fitting.callbacks import SearchTask, as_subtask, subtask_of, verbosity, with_callbacks
from kernelpursuit.fitting.classes import check_training_classes
from kernelpursuit.fitting.constraints import AT_LEAST_ONE
from kernelpursuit.fitting.model import with_input_weights
from kernelpursuit.fitting.pipeline import say
from kernelpursuit.fitting.placement import check_place, host_weights, to_namespace_of
from kernelpursuit.fitting.rows import is_collection, refuse_collections
from kernelpursuit.fitting.training import check_training
from kernelpursuit.pursuit.loop import count
from kernelpursuit.search.folds import (
    Judge,
    SearchRows,
    judge_models,
    judge_predictions,
    own_metric,
    score_fold,
    scorer_of_metric,
)
from kernelpursuit.search.input_weights import (
    check_input_weights,
    feature_widths_for,
    learn_weights,
    learned_in_folds,
    weighted_inputs,
)
from kernelpursuit.search.score_table import Scores, best_so_far, check_folds, cv_results, refuse_folds_of_one_class
from kernelpursuit.search.settings import INPUT_WEIGHTS, Setting, settings_to_try

SEARCHED = (KMPRegressor, KMPClassifier, SparseKernelFDA, KMPRanker, PolytopeFacesRegressor)


def estimator_has(name: str) -> Callable[[Any], bool]:
    """Whether the estimator of a search has a method; the AttributeError of one that has not."""

    def check(search: Any) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return check


def of_best_estimator(name: str, shape: str, *, staged: bool = False) -> Any:
    """A method of a search that is the method `name` of its best estimator; `shape` is that of the result."""

    def method(self: PursuitSearchCV, X: Any) -> Any:
        return getattr(self._best_for(X, name), name)(X)

    method.__name__, method.__qualname__ = name, f"PursuitSearchCV.{name}"
    method.__doc__ = f"""`{name}` of the best estimator{", for its models with 1, 2, ... steps" if staged else ""}.

        Parameters
        ----------
        X : {{array-like, sparse matrix}} of shape (n_samples, n_features)

        {"Yields" if staged else "Returns"}
        {"------" if staged else "-------"}
        ndarray of shape {shape}
        """
    return available_if(estimator_has(name))(method)


PREDICTIONS = "(n_samples,), (n_samples, n_targets) or (n_samples, n_labels)"
PROBABILITIES = "(n_samples, n_classes)"
DECISIONS = "(n_samples,) or (n_samples, n_classes)"


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
        "max_atoms": [AT_LEAST_ONE],
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
    @with_callbacks
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
        rows = self._check_rows(X, y, sample_weight, groups)
        settings, folds = settings_to_try(self, rows.X, rows.weights), self._folds(rows, groups)
        self.n_splits_ = len(folds)
        widths = None
        if self.input_weights != "equal":
            check_input_weights(self.estimator, rows.X, self.input_weights)
            widths = feature_widths_for(self.estimator, rows.y)
        scores = self._score(settings, folds, rows, widths)
        if not scores.ended:
            check_folds(scores.table)
        best, k = scores.best(self.one_standard_error)
        self._keep_scores(scores.known, settings, best, k)
        interrupted = self._refit(settings[best], k, X, y, rows, widths)
        progress = f"{scores.n_done} of {count(len(settings) * len(folds), 'path')}"
        if scores.ended == "interrupted" and not interrupted:
            interrupted = f"interrupted after {progress} of the search"
        if interrupted:
            self._interrupt = KeyboardInterrupt(f"{interrupted}; what was finished by then is the model")
        elif scores.ended == "callback":
            warn(
                f"a callback ended the search after {progress}: {settings[best]} and {count(k, 'atom')} are the best "
                "that was known by then, and the model may be worse than one of a search that was finished. Let the "
                "callback wait longer, or ask for less: fewer atoms, widths or folds",
                ConvergenceWarning,
            )
        if k == self.max_atoms and not interrupted:
            warn(
                f"the best number of atoms is max_atoms={k}, the largest that was tried: more may be better. Raise "
                "max_atoms, or take one_standard_error=True for the fewest atoms that are nearly as good",
                ConvergenceWarning,
            )
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

    def _check_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> SearchRows:
        """The data as arrays, of which the folds take rows. A warning says where one column rules the widths tried."""
        widths_by_units = self.gammas is None and self.input_weights == "equal"
        model = clone(self.estimator).set_params(gamma="scale" if widths_by_units else 1.0)
        if is_classifier(model):
            X, y, _ = check_training_classes(model, X, y, sample_weight)
        else:
            several = isinstance(model, KMPRegressor)
            X, y = check_training(model, X, y, sample_weight=sample_weight, multi_output=several, y_numeric=True)
        weights = None if sample_weight is None else host_weights(sample_weight, X)
        if weights is not None and not np.any(weights > 0):
            raise ValueError("sample_weight must have at least one positive entry: all weights are zero")
        y = on_host(y)
        check_consistent_length(X, y, groups)
        is_ranker = isinstance(model, KMPRanker) and groups is not None
        return SearchRows(X, y, weights, np.asarray(groups) if is_ranker else None)

    def _folds(self, rows: SearchRows, groups: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        """Indices of the training rows and of the test rows of each fold."""
        cv = self.cv
        if rows.groups is not None and (cv is None or isinstance(cv, Integral)):
            cv = GroupKFold(5 if cv is None else cv)
        splitter = check_cv(cv, rows.y, classifier=is_classifier(self.estimator))
        folds = list(splitter.split(rows.X, rows.y, groups))
        if is_classifier(self.estimator) and rows.y.ndim == 1:
            refuse_folds_of_one_class(rows.y, rows.weights, folds)
        return folds

    def _model(self, setting: Setting, n_atoms: int, verbose: int) -> Any:
        """An unfitted estimator."""
        return clone(self.estimator).set_params(n_atoms=n_atoms, verbose=max(0, verbose), **setting.parameters)

    def _score(
        self, settings: list[Setting], folds: list[Any], rows: SearchRows, widths: FeatureWidths | None
    ) -> Scores:
        """Fit and score the path of every setting and fold.

        An interrupt or a callback ends it; an interrupt is raised at once where nothing is known yet.
        """
        verbose, judge = verbosity(self), self._judge(rows)
        task = SearchTask(self, [str(setting) for setting in settings], len(folds))
        learned = []
        if widths is not None:
            quiet = clone(widths).set_params(verbose=max(0, verbose - 1))
            learned = learned_in_folds(quiet, self.estimator, rows, folds)
        scores = Scores(np.full((len(settings), len(folds), self.max_atoms), np.nan))

        def jobs() -> Iterator[Any]:
            for i, setting in enumerate(settings):
                for j, (train, test) in enumerate(folds):
                    if scores.ended:
                        return
                    weighted = setting.input_weights == "learned"
                    inputs = weighted_inputs(rows.X, learned[j]) if weighted else rows.X
                    model = self._model(setting, self.max_atoms, verbose - 1)
                    label = f"fold {j + 1} of {len(folds)}, {setting}" if verbose else ""
                    yield delayed(score_fold)(
                        model, rows._replace(X=inputs), train, test, judge, label, task.fold(i, j)
                    )

        try:
            for fold in Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs()):
                if scores.ended:  # other processes may have begun one or two more
                    continue
                scores.n_steps, scores.ended = fold.n_steps, fold.ended
                if fold.scores is None:
                    continue
                scores.table[divmod(scores.n_done, len(folds))] = fold.scores
                scores.n_done += 1
                if scores.n_done % len(folds) == 0:
                    if verbose:
                        say(best_so_far(scores.known, settings))
                    scores.ended = "callback" if task.ended(len(scores.known) - 1) else scores.ended
        except KeyboardInterrupt:
            if scores.n_done == 0:
                raise
            scores.ended = "interrupted"
        if scores.ended == "callback" and scores.n_done == len(settings) * len(folds):  # nothing was left to end
            scores.ended = ""
        return scores

    def _judge(self, rows: SearchRows) -> Judge:
        """By predictions where `scoring` asks for the own metric of the estimator, else by the scorer."""
        if self.scoring is None or self.scoring == scorer_of_metric(self.estimator):
            return partial(judge_predictions, own_metric(self.estimator, rows))
        return partial(judge_models, self.scorer_)

    def _keep_scores(self, table: np.ndarray, settings: list[Setting], best: int, k: int) -> None:
        """Set the attributes about scores, from the table of the settings that are known."""
        self.cv_results_ = cv_results(table, settings[: len(table)])
        self.best_index_ = best * self.max_atoms + k - 1
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        if verbosity(self):
            say(f"chosen: {settings[best]}, {count(k, 'atom')}, mean score {self.best_score_:.4g}")

    def _refit(self, setting: Setting, k: int, X: Any, y: Any, rows: SearchRows, widths: FeatureWidths | None) -> str:
        """Fit the chosen model to all rows. Returns how that was interrupted, if it was and left a model."""
        began, interrupted, inputs = time.perf_counter(), "", X
        model = self._model(setting, k, verbosity(self))
        self.input_weights_ = np.ones(rows.X.shape[1])
        if setting.input_weights != "learned":
            widths = None
        if widths is not None:
            try:
                learn_weights(widths.set_params(verbose=model.verbose), self.estimator, X, rows)
            except KeyboardInterrupt:
                if not hasattr(widths, "weights_"):
                    raise
                interrupted = "interrupted while input weights were learned"
            self.input_weights_, inputs = on_host(widths.weights_), weighted_inputs(rows.X, widths)
        try:
            with as_subtask(subtask_of(self, "fit on all rows"), model, inputs, y, n_atoms_is_fixed=True):
                model.fit(inputs, y, **rows.options(slice(None)))
        except KeyboardInterrupt:
            if not hasattr(model, "path_"):
                raise
            interrupted = model.path_.sentence
        if widths is not None:
            names = getattr(widths, "feature_names_in_", None)
            model = with_input_weights(model, rows.X, self.input_weights_, names)
        self.best_estimator_ = model
        self.input_weights_ = to_namespace_of(self.input_weights_, model.support_vectors_)
        self.refit_time_ = time.perf_counter() - began
        return interrupted

    @property
    def scorer_(self) -> Callable[..., float]:
        """The scorer behind `scoring`; the `score` of the estimator where that is None."""
        return check_scoring(self.estimator, scoring=self.scoring)

    @property
    def classes_(self) -> Any:
        """Classes of a classifier."""
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X in `fit`."""
        return self.best_estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns of X, where it had them in `fit`."""
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

    predict = of_best_estimator("predict", PREDICTIONS)
    predict_proba = of_best_estimator("predict_proba", PROBABILITIES)
    predict_log_proba = of_best_estimator("predict_log_proba", PROBABILITIES)
    decision_function = of_best_estimator("decision_function", DECISIONS)
    transform = of_best_estimator("transform", "(n_samples, n_classes - 1)")
    staged_predict = of_best_estimator("staged_predict", PREDICTIONS, staged=True)
    staged_decision_function = of_best_estimator("staged_decision_function", DECISIONS, staged=True)

    def truncate(self, k: int) -> Any:
        """The best estimator cut to the first `k` steps of its path.

        Parameters
        ----------
        k : int
            From 0 (the constant) to the number of steps taken.

        Returns
        -------
        estimator
            A fitted copy of `best_estimator_`, which does not change.
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

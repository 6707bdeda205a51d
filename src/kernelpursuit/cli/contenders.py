"""The models of the comparison: how each is set up, fitted and timed on one split."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from kernelpursuit import KMPClassifier, KMPRegressor, RefinedKMPClassifier, RefinedKMPRegressor
from kernelpursuit.cli.encoding import encode, make_encoder, make_scaler, minus_medians
from kernelpursuit.cli.scores import class_scores, error_of, log_losses, losses_of, never_named, ranking_losses
from kernelpursuit.cli.tables import Table, Task

TEST_SHARE = 0.3
ROWS_FOR_SETTINGS = 1000  # of the training rows: widths and penalties are compared on so many
WIDTHS = (1 / 16, 1 / 4, 1.0)  # times gamma="scale"
PENALTIES_SVM = [0.1, 1.0, 10.0, 100.0]
PENALTIES_RIDGE = [1e-6, 1e-4, 1e-2, 1e-1, 1.0, 10.0]
PENALTIES_KMP = ["auto", 1e-2, 1e-1, 1.0]  # "auto" suits any number of terms


class Inputs(NamedTuple):
    """Rows to train on and to test on as a kind of model takes them, and how long the way there from the table is."""

    train: Any
    test: Any
    fit_seconds: float
    predict_us: float  # per row


@dataclass
class Split:
    """Rows to train on and to test on."""

    task: Task
    seed: int
    inputs: dict[str, Inputs]  # by the kind of model
    y_train: NDArray[Any]  # classes as texts; a quantity standardised
    y_test: NDArray[Any]
    unit: float  # one standard deviation of the target, in the units it came in; 1 for classes
    found: dict[str, Any] = field(default_factory=dict)  # settings and numbers of terms that other models use too

    @property
    def X_train(self) -> NDArray[np.float64]:
        """Standardised numbers to train on, those of kernel models."""
        return self.inputs["kernels"].train


@dataclass
class SplitResult:
    """Errors, size and times of a model on one split."""

    error: float
    losses: NDArray[np.float64]  # of each test row: 0 or 1, or the squared error in the units of the target
    scores: dict[str, float]  # those of `class_scores`, of classes
    class_losses: dict[str, NDArray[np.float64]]  # of each test row by measures that see rare classes, if there are any
    never_named: list[str]  # classes
    terms: int | None
    fit_seconds: float  # from the table on, as a user has them
    predict_us: float  # per row
    encoded_fit_seconds: float  # on inputs that are there
    encoded_predict_us: float


@dataclass
class Contender:
    """A model: how to make it for a split, and how to count the terms of the fitted model."""

    name: str
    family: str
    make: Callable[[Split], Any]
    count_terms: Callable[[Any], int] | None = None
    inputs: str = "kernels"
    votes: bool = False  # a regressor of class codes


def make_split(table: Table, seed: int) -> Split:
    """Split the rows 70/30; encode and standardise them by the training rows."""
    classes = table.task == "classification"
    train, test = train_test_split(
        np.arange(len(table.y)), test_size=TEST_SHARE, random_state=seed, stratify=table.y if classes else None
    )
    frame = minus_medians(table.frame)
    inputs = make_inputs(table, frame.iloc[train], frame.iloc[test])
    y_train, y_test = table.y[train], table.y[test]
    unit = 1.0
    if not classes:
        center, unit = float(y_train.mean()), float(y_train.std()) or 1.0
        y_train, y_test = (y_train - center) / unit, (y_test - center) / unit
    return Split(table.task, seed, inputs, y_train, y_test, unit)


def make_inputs(table: Table, train: Any, test: Any) -> dict[str, Inputs]:
    """What models of each kind take: standardised numbers, what skrub makes of a table for trees, or nothing at all."""
    from skrub import tabular_pipeline

    encoder, scaler = make_encoder(table.kinds), make_scaler()
    trees = tabular_pipeline(HistGradientBoostingRegressor())[:-1]
    with without_tuning_warnings(), threadpool_limits(limits=1):
        return {
            "none": Inputs(np.zeros((len(train), 1)), np.zeros((len(test), 1)), 0.0, 0.0),
            "kernels": timed_inputs(
                lambda: scaler.fit_transform(encode(encoder, train, fit=True)),
                lambda: scaler.transform(encode(encoder, test)),
            ),
            "trees": timed_inputs(lambda: trees.fit_transform(train), lambda: trees.transform(test)),
        }


def timed_inputs(fit: Callable[[], Any], encode_test: Callable[[], Any]) -> Inputs:
    """Inputs as two functions make them, which are timed."""
    start = perf_counter()
    train = fit()
    fit_seconds = perf_counter() - start
    test = encode_test()
    return Inputs(train, test, fit_seconds, 1e6 * shortest_seconds(encode_test) / len(test))


def contenders(task: Task) -> Iterator[Contender]:
    """The models, in the order of the table; what a later one needs of an earlier one is in `Split.found`."""
    classes = task == "classification"
    dummy = DummyClassifier(strategy="prior") if classes else DummyRegressor()
    yield Contender("chance (no inputs)", "chance", lambda split: dummy, inputs="none")
    refined = RefinedKMPClassifier if classes else RefinedKMPRegressor

    def remember_terms(model: Any) -> int:
        return len(model.centers_)

    yield Contender("Refined KMP, 10", "refined", lambda split: refined(10, random_state=split.seed), remember_terms)
    yield Contender("Refined KMP, auto", "refined auto", lambda split: refined(random_state=split.seed), remember_terms)
    pursuit = KMPClassifier if classes else KMPRegressor
    for atoms in (10, 30, 100):
        yield Contender(f"KMP, {atoms}", "KMP", _pursuit(pursuit, atoms), _count_support)
    yield Contender("KMP, auto", "KMP auto", _pursuit(pursuit, None), _count_support)
    for size in (None, 100):
        name = "Nystroem, as many" if size is None else f"Nystroem, {size}"
        yield Contender(name, "Nystroem", _nystroem(classes, size), lambda model: len(model[0].component_indices_))
    machine = SVC if classes else SVR
    yield Contender(machine.__name__, "exact", _tuned(machine(), "C", PENALTIES_SVM), _count_support)
    ridge = _tuned(KernelRidge(kernel="rbf"), "alpha", PENALTIES_RIDGE, votes=classes)
    yield Contender("KernelRidge", "exact", ridge, lambda model: len(model.X_fit_), votes=classes)
    boosting = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    yield Contender("HistGradientBoosting", "boosting", lambda split: boosting(random_state=split.seed), inputs="trees")


def _count_support(model: Any) -> int:
    return len(model.support_)


def _pursuit(kind: Any, size: int | None) -> Callable[[Split], Any]:
    """Kernel matching pursuit; width and penalty are those that serve "auto" best."""

    def make(split: Split) -> Any:
        if "KMP" not in split.found:
            grid: dict[str, list[Any]] = {"gamma": gammas_to_try(split), "alpha": PENALTIES_KMP}
            split.found["KMP"] = best_settings(kind(), grid, split)
        return kind(**({} if size is None else {"n_atoms": min(size, len(split.y_train))}), **split.found["KMP"])

    return make


def _tuned(model: Any, penalty: str, values: list[float], votes: bool = False) -> Callable[[Split], Any]:
    def make(split: Split) -> Any:
        return model.set_params(**best_settings(model, {"gamma": gammas_to_try(split), penalty: values}, split, votes))

    return make


def _nystroem(classes: bool, size: int | None) -> Callable[[Split], Any]:
    """Landmarks at random, as many as the refined model has terms or a given number, and a linear model of them."""
    linear = RidgeClassifier if classes else Ridge

    def make(split: Split) -> Any:
        count = min(split.found.get("Refined KMP, auto", 10) if size is None else size, len(split.y_train))
        sketch = make_pipeline(Nystroem(n_components=count, random_state=split.seed), linear())
        grid = {"nystroem__gamma": gammas_to_try(split), f"{linear.__name__.lower()}__alpha": PENALTIES_RIDGE}
        return sketch.set_params(**best_settings(sketch, grid, split))

    return make


def gammas_to_try(split: Split) -> list[float]:
    """Values of gamma to try, around gamma="scale"."""
    scale = 1.0 / (split.X_train.shape[1] * (float(split.X_train.var()) or 1.0))
    return [width * scale for width in WIDTHS]


def best_settings(model: Any, grid: dict[str, list[Any]], split: Split, votes: bool = False) -> dict[str, Any]:
    """Settings with the lowest error in 3-fold cross-validation on training rows."""
    classes = split.task == "classification"
    rows = np.arange(len(split.y_train))
    if len(rows) > ROWS_FOR_SETTINGS:
        stratify = split.y_train if classes else None
        rows = train_test_split(rows, train_size=ROWS_FOR_SETTINGS, random_state=split.seed, stratify=stratify)[0]
    X, y = split.X_train[rows], split.y_train[rows]
    folding = StratifiedKFold if classes else KFold
    # Made from the classes, not from their codes, so that all models are tried on the same folds.
    folds = list(folding(3, shuffle=True, random_state=split.seed).split(X, y))
    scoring: Any = _vote_accuracy if votes else "accuracy" if classes else "neg_mean_squared_error"
    search = GridSearchCV(model, grid, scoring=scoring, cv=folds, refit=False)
    return dict(search.fit(X, one_column_per_class(y) if votes else y).best_params_)


def one_column_per_class(y: NDArray[Any]) -> NDArray[np.float64]:
    """A column of 0 and 1 for each class, in the order of the sorted classes."""
    return (y[:, None] == np.unique(y)).astype(np.float64)


def _vote_accuracy(model: Any, X: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
    return float(np.mean(model.predict(X).argmax(axis=1) == targets.argmax(axis=1)))


def measure_contender(contender: Contender, split: Split) -> SplitResult:
    """Choose the settings of a model on training rows, fit it and test it; timed on one thread."""
    inputs = split.inputs[contender.inputs]
    train, test = inputs.train, inputs.test
    targets = one_column_per_class(split.y_train) if contender.votes else split.y_train
    classes = np.unique(split.y_train) if contender.votes else None
    with without_tuning_warnings(), threadpool_limits(limits=1):
        model = contender.make(split)
        start = perf_counter()
        model.fit(train, targets)
        fit_seconds = perf_counter() - start

        def predict() -> NDArray[Any]:
            values = np.asarray(model.predict(test))
            return values if classes is None else classes[values.argmax(axis=1)]

        predicted = predict()
        predict_us = 1e6 * shortest_seconds(predict) / len(split.y_test)
        scores: dict[str, float] = {}
        class_losses: dict[str, NDArray[np.float64]] = {}
        if split.task == "classification":
            values = ranking_values(model, test)
            probabilities = model.predict_proba(test) if hasattr(model, "predict_proba") else None
            scores = class_scores(split.y_test, predicted, values, probabilities)
            class_losses["AUC"] = ranking_losses(split.y_test, values)
            if probabilities is not None:
                class_losses["log loss"] = log_losses(split.y_test, probabilities)
    never = never_named(split.y_test, predicted) if class_losses else []
    losses = losses_of(split.task, split.y_test, predicted) * split.unit**2
    terms = None if contender.count_terms is None else contender.count_terms(model)
    split.found[contender.name] = terms
    whole = inputs.fit_seconds + fit_seconds, inputs.predict_us + predict_us
    error = error_of(split.task, losses)
    return SplitResult(error, losses, scores, class_losses, never, terms, *whole, fit_seconds, predict_us)


def ranking_values(model: Any, X: Any) -> NDArray[Any]:
    """A value for each class that ranks the rows."""
    if hasattr(model, "decision_function"):
        values = np.asarray(model.decision_function(X))
    else:
        values = np.asarray(model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X))
    return np.stack([-values, values], axis=1) if values.ndim == 1 else values


@contextmanager
def without_tuning_warnings() -> Iterator[None]:
    """Suppress warnings of settings that are only tried.

    Fewer atoms than asked for show in the table. Systems may be nearly singular, and a fold may have fewer rows than
    Nystroem has components.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", LinAlgWarning)
        warnings.filterwarnings("ignore", message="n_components > n_samples")
        warnings.filterwarnings("ignore", message="Found unknown categories")
        yield


def shortest_seconds(action: Callable[[], Any], repetitions: int = 5, budget: float = 0.2) -> float:
    """Time an action once, then again while that is cheap: the shortest time is the least disturbed one."""
    times: list[float] = []
    while not times or (len(times) < repetitions and sum(times) < budget):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return min(times)

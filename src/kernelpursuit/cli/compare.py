"""Kernel matching pursuit beside its peers on one split of the data: error, number of terms and time."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning
from sklearn.datasets import load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from kernelpursuit import KMPClassifier, KMPRegressor
from kernelpursuit.cli.reporting import FOOTNOTE, Record, conclusion, heading, row
from kernelpursuit.cli.tables import MIN_ROWS_PER_CLASS, Task, printable, read_table

SIZES = (10, 30, 100)
WIDTHS = (1 / 16, 1 / 4, 1.0)  # times gamma="scale"
PENALTIES_SVM = [0.1, 1.0, 10.0, 100.0]
PENALTIES_RIDGE = [1e-6, 1e-4, 1e-2, 1e-1, 1.0, 10.0]
PENALTIES_KMP = [0.0, 1e-2, 1e-1, 1.0]


class Problem(NamedTuple):
    """A data set and what to predict from it."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[Any]
    task: Task
    notes: Sequence[str] = ()


class Split(NamedTuple):
    """A problem made ready: inputs standardised, classes numbered, a quantity standardised."""

    X_train: NDArray[np.float64]
    X_test: NDArray[np.float64]
    y_train: NDArray[Any]
    y_test: NDArray[Any]
    unit: float  # one standard deviation of the target, in the units it came in; 1 for classes
    task: Task
    seed: int


class Contender(NamedTuple):
    """A model, the settings to try, and how to count the terms of the fitted model."""

    name: str
    family: str
    estimator: Any
    grid: dict[str, list[float]]
    count_terms: Callable[[Any], int]
    one_hot: bool = False  # a regressor that votes for classes


def reports(
    table: str | os.PathLike[str] | None = None,
    *,
    target: str | None = None,
    task: Task | None = None,
    drop: Sequence[str] = (),
    seed: int = 0,
    max_rows: int = 5000,
) -> Iterator[str]:
    """Run the comparison and say what came out.

    Parameters
    ----------
    table : str or path-like, optional
        A CSV or Parquet file; without it, two data sets that come with scikit-learn are used.
    target, task, drop
        See `kernelpursuit.cli.tables.read_table`.
    seed : int
        Of the split, and of all else that is random.
    max_rows : int
        Use at most so many rows, drawn at random.

    Yields
    ------
    str
        Lines, each as soon as it is known: for each data set a title, a row for each model and a conclusion; then the
        footnote.

    Raises
    ------
    kernelpursuit.cli.tables.TableError
        When the file cannot be used.
    """
    if table is None:
        problems = shipped_problems()
    else:
        read = read_table(table, target, task, drop)
        problems = [Problem(printable(f"{os.fspath(table)}, {target}"), read.X, read.y, read.task, read.notes)]
    for problem in problems:
        problem = draw_rows(problem, max_rows, seed)
        split = make_split(problem, seed)
        yield f"{problem.name}: {split.task}, {len(split.y_train)} rows to train and {len(split.y_test)} to test, " + (
            f"{problem.X.shape[1]} features"
        )
        yield from problem.notes
        yield heading(split.task)
        records = []
        for record in measure_all(split):
            yield row(record, split.task)
            records.append(record)
        yield conclusion(records, split.task)
        yield ""
    yield FOOTNOTE


def shipped_problems() -> list[Problem]:
    """Return a regression and a classification that come with scikit-learn.

    Returns
    -------
    list of Problem
    """
    diabetes, digits = load_diabetes(), load_digits()
    return [
        Problem("diabetes", diabetes.data, diabetes.target, "regression"),
        Problem("digits", digits.data, digits.target, "classification"),
    ]


def draw_rows(problem: Problem, max_rows: int, seed: int) -> Problem:
    """Draw rows at random when there are too many.

    Parameters
    ----------
    problem : Problem
    max_rows : int
    seed : int

    Returns
    -------
    Problem
        The same one when it is small enough. Else its classes keep their shares, but for the rarest, which keep the
        rows a split needs; a note says so.
    """
    rows = len(problem.y)
    if rows <= max_rows:
        return problem
    shuffled = np.random.default_rng(seed).permutation(rows)
    if problem.task == "regression":
        kept = shuffled[:max_rows]
        how = "drawn at random"
    else:
        by_class = [shuffled[problem.y[shuffled] == label] for label in np.unique(problem.y)]
        kept = np.concatenate([m[: max(MIN_ROWS_PER_CLASS, len(m) * max_rows // rows)] for m in by_class])
        how = f"drawn at random, at least {MIN_ROWS_PER_CLASS} of each class"
    note = f"Used {len(kept)} of {rows} rows, {how} (--max-rows)."
    return problem._replace(X=problem.X[kept], y=problem.y[kept], notes=[*problem.notes, note])


def make_split(problem: Problem, seed: int) -> Split:
    """Split 70/30 and standardise by the training rows.

    Parameters
    ----------
    problem : Problem
    seed : int

    Returns
    -------
    Split
    """
    classes = problem.task == "classification"
    y = np.unique(problem.y, return_inverse=True)[1] if classes else problem.y
    X_train, X_test, y_train, y_test = train_test_split(
        problem.X, y, test_size=0.3, random_state=seed, stratify=y if classes else None
    )
    scaler = StandardScaler().fit(X_train)
    unit = 1.0
    if not classes:
        center, unit = float(y_train.mean()), float(y_train.std()) or 1.0
        y_train, y_test = (y_train - center) / unit, (y_test - center) / unit
    return Split(scaler.transform(X_train), scaler.transform(X_test), y_train, y_test, unit, problem.task, seed)


def measure_all(split: Split) -> Iterator[Record]:
    """Compare the models on a split.

    Parameters
    ----------
    split : Split

    Yields
    ------
    Record
        Nystroem is there with as many terms as kernel matching pursuit, the number it chose by itself included.
    """
    sizes = {min(size, len(split.y_train)) for size in SIZES}
    for contender in _pursuits(split, sizes):
        record = measure(contender, split)
        yield record
    for contender in _peers(split, sizes | {max(record.terms, 1)}):
        yield measure(contender, split)


def _count_support(model: Any) -> int:
    return len(model.support_)


def _pursuits(split: Split, sizes: Collection[int]) -> list[Contender]:
    """List kernel matching pursuit with each number of atoms, and last with a number it chooses."""
    model = KMPClassifier if split.task == "classification" else KMPRegressor
    grid = {"gamma": _widths(split), "alpha": PENALTIES_KMP}
    auto = Contender("KMP, auto", "KMP auto", model(), grid, _count_support)
    with quiet():
        best = _best_settings(auto, split, split.y_train)
    fixed = [Contender(f"KMP, {n} atoms", "KMP", model(n_atoms=n, **best), {}, _count_support) for n in sorted(sizes)]
    return [*fixed, auto._replace(estimator=model(**best), grid={})]


def _widths(split: Split) -> list[float]:
    """Values of gamma to try, around gamma="scale"."""
    scale = 1.0 / (split.X_train.shape[1] * (float(split.X_train.var()) or 1.0))
    return [width * scale for width in WIDTHS]


def _peers(split: Split, sizes: Collection[int]) -> list[Contender]:
    """List the exact models, then Nystroem with each number of components."""
    classes = split.task == "classification"
    machine, linear = (SVC, RidgeClassifier) if classes else (SVR, Ridge)
    widths = _widths(split)
    settings = {"gamma": widths, "C": PENALTIES_SVM}
    listed = [Contender(machine.__name__, "exact", machine(), settings, _count_support)]
    settings = {"gamma": widths, "alpha": PENALTIES_RIDGE}
    listed.append(
        Contender("KernelRidge", "exact", KernelRidge(kernel="rbf"), settings, lambda model: len(model.X_fit_), classes)
    )
    for size in sorted(sizes):
        sketch = make_pipeline(Nystroem(n_components=size, random_state=split.seed), linear())
        grid = {"nystroem__gamma": widths, f"{linear.__name__.lower()}__alpha": PENALTIES_RIDGE}
        name = f"Nystroem {size} + {linear.__name__}"
        listed.append(Contender(name, "Nystroem", sketch, grid, lambda model: len(model[0].component_indices_)))
    return listed


def measure(contender: Contender, split: Split) -> Record:
    """Choose the settings of a model on the training rows, fit it and test it.

    Parameters
    ----------
    contender : Contender
    split : Split

    Returns
    -------
    Record
    """
    targets = np.eye(split.y_train.max() + 1)[split.y_train] if contender.one_hot else split.y_train
    with quiet(), threadpool_limits(limits=1):
        model = contender.estimator.set_params(**_best_settings(contender, split, targets))
        fit_seconds = _best_seconds(lambda: model.fit(split.X_train, targets))
        predict_seconds = _best_seconds(lambda: _predict(contender, model, split.X_test))
        losses = _losses(split, _predict(contender, model, split.X_test))
    error = losses.mean() if split.task == "classification" else np.sqrt(losses.mean())
    return Record(
        model=contender.name,
        family=contender.family,
        error=float(error),
        terms=contender.count_terms(model),
        fit_seconds=fit_seconds,
        predict_us=1e6 * predict_seconds / len(split.y_test),
        losses=losses,
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings that settings give which are only tried.

    Fewer atoms than asked for show in the table. Systems may be nearly singular, and a fold may have fewer rows than
    Nystroem has components.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", LinAlgWarning)
        warnings.filterwarnings("ignore", message="n_components > n_samples")
        yield


def _best_settings(contender: Contender, split: Split, targets: NDArray[Any]) -> dict[str, Any]:
    if not contender.grid:
        return {}
    folding = StratifiedKFold if split.task == "classification" else KFold
    # Made from the classes, not from ``targets``, so that all models are tried on the same folds.
    folds = list(folding(3, shuffle=True, random_state=split.seed).split(split.X_train, split.y_train))
    scoring: Any = "accuracy" if split.task == "classification" else "neg_mean_squared_error"
    if contender.one_hot:
        scoring = _vote_accuracy
    search = GridSearchCV(contender.estimator, contender.grid, scoring=scoring, cv=folds, refit=False)
    return dict(search.fit(split.X_train, targets).best_params_)


def _vote_accuracy(model: Any, X: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
    return float(np.mean(model.predict(X).argmax(axis=1) == targets.argmax(axis=1)))


def _predict(contender: Contender, model: Any, X: NDArray[np.float64]) -> NDArray[Any]:
    predicted = model.predict(X)
    return np.argmax(predicted, axis=1) if contender.one_hot else np.asarray(predicted)


def _losses(split: Split, predicted: NDArray[Any]) -> NDArray[np.float64]:
    if split.task == "classification":
        return (predicted != split.y_test).astype(np.float64)
    return np.asarray(split.unit * (predicted - split.y_test)) ** 2


def _best_seconds(action: Callable[[], Any], repetitions: int = 7, budget: float = 0.5) -> float:
    """Time an action twice, then again while that is cheap: the shortest time is the least disturbed one."""
    times: list[float] = []
    while len(times) < 2 or (len(times) < repetitions and sum(times) < budget):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return min(times)

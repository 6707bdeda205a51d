"""Data, paths and stop rules behind ``auto_n_atoms.py``.

A rule is a function of a `Trace`, what one greedy path tells, and says how many atoms to keep.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from kernelpursuit import KernelDictionary, Squares, pursue
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import first_of, loss_below, n_atoms

REGRESSION = "abalone bodyfat cal_housing cpusmall housing mg mpg pyrim space_ga triazines".split()
IDA = "banana breast_cancer diabetis flare_solar german heart image ringnorm splice thyroid titanic twonorm waveform"
TWO_CLASSES = [f"ida_{name}" for name in IDA.split()] + "breast_wisconsin ionosphere mushrooms pima sonar".split()
MOVED = {"bodyfat": [2, 5, 8], "cpusmall": [3, 7], "housing": [4, 7, 12], "mpg": [2, 4]}  # inputs made targets
SEVERAL_CLASSES = "usps usps_358 mfeat_fou mfeat_mor mfeat_zer covtype".split()
SEVERAL = SEVERAL_CLASSES + [f"{name}_several" for name in MOVED] + ["mfeat_several"]
GROUPS = {"Regression": REGRESSION, "Two classes": TWO_CLASSES, "Several targets": SEVERAL}
QUICK = {"housing", "mpg", "ida_heart", "ida_banana", "usps_358", "mpg_several"}
AS_THEY_ARE = {"mushrooms", "usps", "usps_358"}  # not standardised: indicators, and pixels on one scale
WIDTHS = (0.125, 1.0, 8.0)  # times gamma="scale"
ALPHAS = (1e-3, 1e-2, 1e-1)
N_TRAIN, N_TEST, N_ATOMS = 600, 3000, 250


# Data


class Split(NamedTuple):
    """Training and test part."""

    X: np.ndarray
    targets: np.ndarray
    X_test: np.ndarray
    targets_test: np.ndarray


def code(y: np.ndarray) -> np.ndarray:
    """Classes as -1 and +1, one column for two classes, else one for each."""
    classes = np.unique(y)
    return np.where(y[:, None] == (classes if len(classes) > 2 else classes[1:]), 1.0, -1.0)


def read(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Inputs, targets, and the training rows of fixed splits where there are some."""
    stem = name.split("_")[0] if name in SEVERAL else name
    with np.load(folder / f"{stem}.npz", allow_pickle=False) as data:
        if name == "mfeat_several":
            return data["kar"].astype(np.float64), data["zer"].astype(np.float64), None
        X, y = data[name.split("_")[1] if stem == "mfeat" else "X"], data["y"]
        fixed = np.concatenate([data["train_idx"], data["made_train_idx"]]) if "train_idx" in data else None
    if stem == "covtype":
        rows = np.random.default_rng(0).permutation(len(X))[:4000]
        X, y = X[rows], y[rows]
    if name == "usps_358":
        rows = np.isin(y, (3, 5, 8))
        X, y = X[rows], y[rows]
    X = X.astype(np.float64)
    if name == "mushrooms":
        X = np.concatenate([X[:, [j]] == np.unique(X[:, j]) for j in range(X.shape[1])], axis=1).astype(np.float64)
    if name.endswith("_several"):
        return np.delete(X, MOVED[stem], axis=1), np.column_stack([y, X[:, MOVED[stem]]]), None
    return X, y.astype(np.float64)[:, None] if name in REGRESSION else code(y), fixed


def splits(folder: Path, name: str, n_splits: int) -> Iterator[Split]:
    """Splits into training and test part: published ones first, random ones where there are none."""
    X, targets, fixed = read(folder, name)
    if not has_classes(name):
        targets = targets / np.std(targets, axis=0)
    rng = np.random.default_rng([17, zlib.crc32(name.encode())])
    for s in range(n_splits):
        train = rng.permutation(len(X))[: int(0.7 * len(X))] if fixed is None else fixed[s]
        test = rng.permutation(np.setdiff1d(np.arange(len(X)), train))[:N_TEST]
        train = rng.permutation(train)[:N_TRAIN]
        mean, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if name not in AS_THEY_ARE:
            mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
            scale[scale == 0] = 1
        yield Split((X[train] - mean) / scale, targets[train], (X[test] - mean) / scale, targets[test])


def has_classes(name: str) -> bool:
    """Whether the targets of a set are classes."""
    return name in TWO_CLASSES or name in SEVERAL_CLASSES


# Paths


class Trace(NamedTuple):
    """What rules may look at and the test error, for 0, 1, 2, ... atoms (first axis)."""

    n: int
    targets: np.ndarray
    candidates: float  # effective number of candidates
    loss: np.ndarray
    left_out: np.ndarray  # squared leave-one-out residuals, (atoms, rows)
    left_out_wrong: np.ndarray | None  # leave-one-out class errors, (atoms, rows)
    outside: np.ndarray  # rows that are no atom, (atoms, rows)
    missed: np.ndarray  # rows of the wrong class, or fitted worse than half the spread of y, (atoms, rows)
    test: np.ndarray
    held_out: dict[str, np.ndarray]  # errors on a validation split, "squared" and "wrong"
    folds: dict[str, np.ndarray]  # the same by cross-validation

    @property
    def k(self) -> np.ndarray:
        """Numbers of atoms."""
        return np.arange(len(self.loss))


def squared(targets: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Squared residuals, summed over targets."""
    return np.sum((targets - values) ** 2, axis=-1)


def wrong(targets: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Whether the class is wrong."""
    if targets.shape[-1] == 1:
        return (values[..., 0] > 0) != (targets[..., 0] > 0)
    return np.argmax(values, axis=-1) != np.argmax(targets, axis=-1)


def follow(X: np.ndarray, targets: np.ndarray, gamma: float, alpha: float, places: list[np.ndarray]):
    """Path on (X, targets), leave-one-out residuals along it, and predictions at `places` for each number of atoms."""
    kernel = make_kernel("rbf", X, gamma=gamma)
    criterion = Squares(KernelDictionary(X, X, kernel), targets, alpha=alpha)
    left_out = [criterion.left_out()]
    stop = first_of(n_atoms(min(len(X) - 1, N_ATOMS)), loss_below(1e-10))
    path = pursue(criterion, stop, callback=lambda path: left_out.append(criterion.left_out()))
    coef = np.array([*criterion.weight_path(len(path))])
    centers = kernel.prepare(X[path.atoms])
    columns = [kernel(kernel.prepare(place), centers) for place in places]
    values = [coef[:, :1] + np.einsum("nj,kjt->knt", column, coef[:, 1:], optimize=True) for column in columns]
    return path, np.array(left_out), values


def trace(split: Split, gamma: float, alpha: float, classes: bool, aside: bool) -> Trace:
    """Everything about one training set; `aside`: with validation and cross-validation."""
    X, targets = split.X, split.targets
    path, left_out, (fitted, tested) = follow(X, targets, gamma, alpha, [X, split.X_test])
    outside = np.ones((len(path) + 1, len(X)), dtype=bool)
    for k, atom in enumerate(path.atoms, start=1):
        outside[k:, atom] = False
    spread = np.sum(np.var(targets, axis=0))
    held_out, folds = errors_aside(split, gamma, alpha, classes) if aside else ({}, {})
    return Trace(
        n=len(X),
        targets=targets,
        candidates=effective_candidates(X, gamma),
        loss=path.values("loss"),
        left_out=squared(0, left_out),
        left_out_wrong=wrong(targets, targets - left_out) if classes else None,
        outside=outside,
        missed=wrong(targets, fitted) if classes else squared(targets, fitted) > 0.25 * spread,
        test=(wrong if classes else squared)(split.targets_test, tested).mean(axis=1),
        held_out=held_out,
        folds=folds,
    )


def errors_aside(split: Split, gamma: float, alpha: float, classes: bool) -> tuple[dict, dict]:
    """Errors on a fifth of the rows of the path on the others: of the first fold, and the mean of all five."""
    order = np.random.default_rng(len(split.X)).permutation(len(split.X))
    parts = []
    for rows in (order[f::5] for f in range(5)):
        rest = np.setdiff1d(order, rows)
        _, _, (values,) = follow(split.X[rest], split.targets[rest], gamma, alpha, [split.X[rows]])
        part = {"squared": squared(split.targets[rows], values).mean(axis=1)}
        if classes:  # the squared error decides between equal counts
            part["wrong"] = wrong(split.targets[rows], values).mean(axis=1) + 1e-6 * part["squared"]
        parts.append(part)
    length = min(len(part["squared"]) for part in parts)
    return parts[0], {key: np.mean([part[key][:length] for part in parts], axis=0) for key in parts[0]}


def effective_candidates(X: np.ndarray, gamma: float) -> float:
    """Number of orthogonal atoms that would be as spread out as these: m² / sum of squared correlations."""
    kernel = make_kernel("rbf", X, gamma=gamma)
    K = kernel(kernel.prepare(X), kernel.prepare(X))
    K = K - K.mean(axis=0)
    K = K / np.maximum(np.linalg.norm(K, axis=0), 1e-300)
    return len(X) ** 2 / float(np.sum((K.T @ K) ** 2))


def effective_targets(targets: np.ndarray) -> float:
    """Number of uncorrelated targets of equal variance that would be as spread out as these; 1 for one target."""
    S = np.atleast_2d(np.cov(targets.T))
    return float(np.trace(S) ** 2 / np.sum(S**2))


# Rules: functions of a trace that say how many atoms to keep and how many steps they had to see


class Choice(NamedTuple):
    """Verdict of a rule."""

    keep: int
    steps: int


def lowest(curve: np.ndarray, patience: int | None = None) -> Choice:
    """Minimum of a curve, seen until `patience` steps brought nothing lower (None: to its end)."""
    curve = np.where(np.isfinite(curve), curve, np.inf)
    best = 0
    for k, value in enumerate(curve):
        if value < curve[best]:
            best = k
        if patience is not None and k - best >= patience:
            return Choice(best, k)
    return Choice(best, len(curve) - 1)


def loo(t: Trace, patience: int | None = None, margin: float = 0.0) -> Choice:
    """Leave-one-out squared error; fewest atoms within a share `margin` of the minimum."""
    curve = t.left_out.mean(axis=1)
    best, steps = lowest(curve, patience)
    return Choice(int(np.argmax(curve[: best + 1] <= curve[best] * (1 + margin))), steps)


def loo_outside(t: Trace) -> Choice:
    """Leave-one-out squared error over the rows that are no atom."""
    return lowest(np.sum(t.left_out * t.outside, axis=1) / np.sum(t.outside, axis=1), 10)


def loo_charged(t: Trace, charge: float) -> Choice:
    """Leave-one-out squared error times what generalised cross-validation charges for the search."""
    left = 1 - (1 + charge * t.k) / t.n
    share = (1 - (1 + t.k) / t.n) / np.where(left > 0, left, np.nan)
    return lowest(t.left_out.mean(axis=1) * share**2, 10)


def loo_classes(t: Trace, patience: int | None = None) -> Choice:
    """Leave-one-out class errors, the squared error deciding between equal counts."""
    return lowest(t.left_out_wrong.mean(axis=1) + 1e-6 * t.left_out.mean(axis=1), patience)


def one_standard_error(t: Trace, classes: bool = False, paired: bool = False) -> Choice:
    """Fewest atoms with a leave-one-out error within a standard error of the minimum (`paired`: of the difference)."""
    rows = t.left_out_wrong.astype(np.float64) if classes else t.left_out
    best, steps = loo_classes(t, 10) if classes else loo(t, 10)
    excess = rows[: best + 1] - rows[best]
    error = np.std(excess, axis=1) if paired else np.std(rows[best])
    return Choice(int(np.argmax(excess.mean(axis=1) <= error / np.sqrt(t.n))), steps)


def gcv(t: Trace, charge: float | Callable[[Trace], float], patience: int | None = 10) -> Choice:
    """Generalised cross-validation with `charge` degrees of freedom for each atom."""
    left = 1 - (1 + (charge(t) if callable(charge) else charge) * t.k) / t.n
    return lowest(t.loss / np.where(left > 0, left, np.nan) ** 2, patience)


def information(t: Trace, price: Callable[[float], float]) -> Choice:
    """Information criterion: n ln(loss) + price(n) for each weight."""
    return lowest(np.log(np.maximum(t.loss, 1e-300)) + price(t.n) * (t.k + 1) / t.n, 10)


def corrected_aic(t: Trace, charge: float) -> Choice:
    """AIC corrected for small samples, with `charge` degrees of freedom for each atom."""
    freedom = 1 + charge * t.k
    rest = np.where(t.n - freedom > 2, t.n - freedom - 2, np.nan)
    return lowest(np.log(np.maximum(t.loss, 1e-300)) + (t.n + freedom) / rest, 10)


def vc_bound(t: Trace, patience: int) -> Choice:
    """VC and compression bound on missing by more than the threshold."""
    missed, k, m = np.sum(t.missed & t.outside, axis=1), t.k, t.n
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = m - k - missed
        bound = (k + 1) * np.log2(4 * np.e * rest / (k + 1)) + np.log2(2 * m**2 / 0.05)
        bound += np.where(k > 0, k * np.log2(np.e * m / np.maximum(k, 1)), 0)
        bound += np.where(missed > 0, missed * np.log2(np.e * (m - k) / np.maximum(missed, 1)), 0)
        bound = np.where(rest > 0, 2 * bound / rest, np.inf)
    return lowest(bound, patience)


def mdl_bound(t: Trace, patience: int) -> Choice:
    """Minimum description length bound for a finite class, weights of 10 bits."""
    missed, k, m = np.sum(t.missed, axis=1), t.k, t.n
    size = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1) + 10 * k * np.log(2) - np.log(0.05)
    return lowest(missed + size * (1 + np.sqrt(1 + 2 * missed / size)), patience)


def held_out(t: Trace, key: str) -> Choice:
    """Validation split of a fifth; the final model has as many atoms, on all rows."""
    return lowest(t.held_out[key], 10)


def folds(t: Trace, key: str) -> Choice:
    """Five-fold cross-validation of the path."""
    return lowest(t.folds[key])


DEFAULT = "GCV, charge 2"
SHARED = "GCV, charge 1 + 1/effective targets"
RULES: dict[str, Callable[[Trace], Choice]] = {
    "LOO, first minimum": partial(loo, patience=1),
    "LOO, patience 5": partial(loo, patience=5),
    "LOO": partial(loo, patience=10),
    "LOO, patience 20": partial(loo, patience=20),
    "LOO, whole path": loo,
    "LOO, within 2 %": partial(loo, patience=10, margin=0.02),
    "LOO, 1 SE": one_standard_error,
    "LOO, 1 SE of the difference": partial(one_standard_error, paired=True),
    "LOO, rows that are no atom": loo_outside,
    "LOO × search charge 2": partial(loo_charged, charge=2),
    "GCV, charge 1": partial(gcv, charge=1),
    "GCV, charge 1.5": partial(gcv, charge=1.5),
    "GCV, charge 2": partial(gcv, charge=2),
    "GCV, charge 2.5": partial(gcv, charge=2.5),
    "GCV, charge 3": partial(gcv, charge=3),
    "GCV, charge 4": partial(gcv, charge=4),
    "GCV, charge 2, first minimum": partial(gcv, charge=2, patience=1),
    "GCV, charge 2, patience 5": partial(gcv, charge=2, patience=5),
    "GCV, charge 2, patience 20": partial(gcv, charge=2, patience=20),
    "GCV, charge 2, whole path": partial(gcv, charge=2, patience=None),
    "GCV, charge ln(n)/2": partial(gcv, charge=lambda t: np.log(t.n) / 2),
    "GCV, charge ln(n)": partial(gcv, charge=lambda t: np.log(t.n)),
    "GCV, charge 1 + ln(effective candidates)": partial(gcv, charge=lambda t: 1 + np.log(t.candidates)),
    "AIC": partial(information, price=lambda n: 2),
    "AICc, charge 2": partial(corrected_aic, charge=2),
    "BIC": partial(information, price=np.log),
    "RIC": partial(information, price=lambda n: 2 * np.log(n)),
    "VC bound, first minimum": partial(vc_bound, patience=1),
    "VC bound": partial(vc_bound, patience=10),
    "MDL bound, first minimum": partial(mdl_bound, patience=1),
    "MDL bound": partial(mdl_bound, patience=10),
    "validation split": partial(held_out, key="squared"),
    "5-fold CV": partial(folds, key="squared"),
}
CLASS_RULES: dict[str, Callable[[Trace], Choice]] = {
    "LOO classes, first minimum": partial(loo_classes, patience=1),
    "LOO classes": partial(loo_classes, patience=10),
    "LOO classes, whole path": loo_classes,
    "LOO classes, 1 SE": partial(one_standard_error, classes=True),
    "validation split, classes": partial(held_out, key="wrong"),
    "5-fold CV, classes": partial(folds, key="wrong"),
}
SEVERAL_RULES: dict[str, Callable[[Trace], Choice]] = {
    "GCV, charge 1 + 1/targets": partial(gcv, charge=lambda t: 1 + 1 / t.targets.shape[1]),
    SHARED: partial(gcv, charge=lambda t: 1 + 1 / effective_targets(t.targets)),
}
RIDGE_RULES = ("LOO", "GCV, charge 1", DEFAULT)

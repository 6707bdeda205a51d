"""Bounds on the error rate of kernel matching pursuit, of all kinds, on given training rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import ndtr
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import KMPClassifier
from kernelpursuit.bounds import (
    binomial_bound,
    cross_bound,
    drawn_bound,
    fisher_bound,
    gibbs_error,
    holdout_bound,
    mdl_bound,
    pac_bayes_bound,
    path_weights,
    pseudo_dimension_bound,
    stability_bound,
    vc_bound,
)
from papers.peers import fitted, median_gamma

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Entry = dict[str, float]  # a bound, the test error of the model it speaks of, its number of atoms

DELTA = 0.05
WIDTHS = (1 / 16, 1 / 4, 1.0, 4.0)  # gamma in units of 1 / median squared distance
FOLDS, HELD_OUT, PATIENCE, DRAWN_BEFORE = 4, 0.2, 10, 100
BITS = (1, 2, 3, 4, 6, 8)
SCALES = (0.25, 0.5, 1.0, 2.0)  # of the posterior, in units of what is expected to cost one nat
SHIFTS = (0.5, 1.0, 1.5, 2.0)


class Pursuit:
    """A path on some rows, with the width and the number of atoms that generalised cross-validation prefers there."""

    def __init__(self, X: Array, y: Array, atoms: int, **options: Any) -> None:
        self.X, self.y, n = X, y, len(y)
        rule, paths = median_gamma(X), []
        for width in WIDTHS:
            model = fitted(KMPClassifier(min(atoms, n // 4), gamma=width * rule, alpha=0.0, **options), X, y)
            loss = model.path_.values("loss")
            score = loss / (1 - (1 + 2 * np.arange(len(loss))) / n) ** 2  # as n_atoms="auto" does
            paths.append((float(score.min()), int(score.argmin()), model))
        _, self.k, self.model = min(paths, key=lambda path: path[0])
        self.k = max(self.k, 1)

    def values(self, X: Array) -> Array:
        """Decision function with 0, 1, ... atoms, a row for each."""
        return np.array([self.model.truncate(0).decision_function(X), *self.model.staged_decision_function(X)])

    def wrong(self, X: Array, y: Array) -> NDArray[np.bool_]:
        """Which rows are wrong with 0, 1, ... atoms, a row for each number."""
        return np.where(self.values(X) > 0, 1, -1) != y

    def errors(self, X: Array, y: Array) -> Array:
        """Error rate with 0, 1, ... atoms."""
        return np.mean(self.wrong(X, y), axis=1)

    def features(self, X: Array, k: int) -> Array:
        """Kernel values of the first k atoms."""
        return rbf_kernel(X, self.model.support_vectors_[:k], gamma=self.model.gamma)


def whole_path(path: Pursuit, errors: Array) -> dict[str, Entry]:
    """Bounds that hold for all numbers of atoms at once, of a model on all rows: where they are lowest.

    The width was chosen with the same rows: each has its share of delta, but for the printed forms.
    """
    n, y, values = len(path.y), path.y, path.values(path.X)
    forms = {"as printed": "paper", "corrected": "corrected", "tight": "tight"}
    found: dict[str, list[Entry]] = {}
    for k in range(1, len(values)):
        outside = np.delete(np.arange(n), path.model.support_[:k])
        f, labels, error = values[k, outside], y[outside], float(errors[k])
        wrong = int(np.sum(np.where(f > 0, 1, -1) != labels))
        space: dict[str, Any] = {"dimension": k + 1, "n_comparisons": 1}
        squared = float(np.mean((np.clip(f, -1, 1) - labels) ** 2))
        for name, form in forms.items():
            printed, bounds = form == "paper", {}
            delta = DELTA if printed else DELTA / len(WIDTHS)
            if k + wrong < n:
                bounds["VC"] = vc_bound(k, n, wrong, delta, form=form, **({} if printed else space))
            if form != "tight":
                bounds["pseudo-dimension"] = pseudo_dimension_bound(squared, k, n, delta, form=form)
                bounds["Fisher"] = fisher(path, k, f, labels, delta, form)
            for kind, bound in bounds.items():
                found.setdefault(f"{kind}, {name}", []).append(entry(bound, error, k))
    entries = {name: lowest(values) for name, values in found.items()}
    left_out = left_out_error(path, path.k)
    entries["leave-one-out, stability 0"] = entry(
        stability_bound(left_out, n, 0.0, DELTA), float(errors[path.k]), path.k
    )
    return entries


def fisher(path: Pursuit, k: int, f: Array, labels: Array, delta: float, form: str) -> float:
    """Bound of Fisher discriminants on the model with k atoms; any linear function in the feature space has one."""
    part = path.model.truncate(k)
    gram = rbf_kernel(part.support_vectors_, gamma=path.model.gamma)
    length = float(np.sqrt(part.dual_coef_ @ gram @ part.dual_coef_))
    groups = [(f[labels == label] - part.intercept_) / length for label in (1, -1)]
    moments = [group.mean() for group in groups], [group.var() for group in groups]
    sizes = [len(group) for group in groups]
    return fisher_bound(*moments, sizes, part.intercept_ / length, k, len(path.y), delta, form=form)


def left_out_error(path: Pursuit, k: int) -> float:
    """Exact leave-one-out error rate of the weights in the span of the first k atoms."""
    Q, _ = np.linalg.qr(np.column_stack([np.ones(len(path.y)), path.features(path.X, k)]))
    residual = path.y - Q @ (Q.T @ path.y)
    left = path.y - residual / np.maximum(1 - np.sum(Q**2, axis=1), 1e-9)
    return float(np.mean(np.where(left > 0, 1, -1) != path.y))


def rounded(path: Pursuit, new: Array, t: Array, choices: int) -> dict[str, list[Entry]]:
    """Bounds of models with weights of a few bits, in coordinates that the support alone determines."""
    n = len(path.y)
    found: dict[str, list[Entry]] = {"MDL, as printed": [], "MDL, corrected": [], "binomial": []}
    delta = DELTA / len(WIDTHS) / len(BITS)
    for k in sorted({1, 2, 3, 5, 8, 12, 20, 30, 50, path.k} & set(range(1, len(path.model.path_) + 1))):
        part = path.model.truncate(k)
        gram = rbf_kernel(part.support_vectors_, gamma=path.model.gamma)
        factor = np.linalg.cholesky(gram + 1e-10 * np.eye(k))
        weights = np.concatenate([[part.intercept_], factor.T @ part.dual_coef_])
        inner, outer = (
            np.column_stack([np.ones(len(Z)), solve_triangular(factor, path.features(Z, k).T, lower=True).T])
            for Z in (path.X, new)
        )
        for bits in BITS:
            steps = 2.0 ** (bits - 1)
            codes = np.clip(np.floor(weights / np.abs(weights).max() * steps), -steps, steps - 1) + 0.5
            wrong = np.where(inner @ codes > 0, 1, -1) != path.y
            error = float(np.mean(np.where(outer @ codes > 0, 1, -1) != t))
            e, share = int(np.delete(wrong, part.support_).sum()), bits * (k + 1) / k  # the intercept has bits as well
            printed = mdl_bound(k, n, int(wrong.sum()), bits, DELTA, form="paper")
            found["MDL, as printed"].append(entry(printed, error, k))
            found["MDL, corrected"].append(entry(mdl_bound(k, n, e, share, delta), error, k))
            found["binomial"].append(entry(binomial_bound(k, n, e, delta, bits=share, choices=choices), error, k))
    return found


def held_out(
    X: Array, y: Array, new: Array, t: Array, order: Rows, atoms: int, **options: Any
) -> tuple[dict[str, Entry], Entry]:
    """Fit to 80 % of the rows; the others test one number of atoms, or all of the path at once."""
    cut = round((1 - HELD_OUT) * len(y))
    train, aside = order[:cut], order[cut:]
    path = Pursuit(X[train], y[train], atoms, **options)
    wrong = np.sum(path.wrong(X[aside], y[aside]), axis=1)
    tested = path.wrong(new, t)
    error = np.mean(tested, axis=1)
    one = holdout_bound(wrong[path.k], len(aside), DELTA)
    steps = min(len(error) - 1, path.k + PATIENCE)
    weights = path_weights(steps, path.k)
    every = holdout_bound(wrong[: steps + 1], len(aside), DELTA, weight=weights)
    k = int(np.argmin(every))
    entries = {
        "20 % held out, one k": entry(one, float(error[path.k]), path.k),
        "20 % held out, every k": entry(every[k], float(error[k]), k),
    }
    judged = {"judged": judged_by_others(tested, k), "preferred": judged_by_others(tested, path.k)}
    return entries, {"error": float(error[k]), "best": float(error.min()), "best_k": int(error.argmin())} | judged


def judged_by_others(wrong: NDArray[np.bool_], k: int) -> float:
    """Error with k atoms over that of the best number, where half of the test rows name it and the others judge both.

    The least of many error rates of the same rows is below the true one: this hindsight is not.
    """
    half = np.random.default_rng(0).permutation(wrong.shape[1]) < wrong.shape[1] // 2
    errors = [np.mean(wrong[:, rows], axis=1) for rows in (half, ~half)]
    best = sum(other[one.argmin()] for one, other in (errors, errors[::-1]))
    return float((errors[0][k] + errors[1][k]) / best) if best > 0 else 1.0


def pac_bayes(
    X: Array, y: Array, new: Array, t: Array, order: Rows, atoms: int, rng: np.random.Generator
) -> tuple[dict[str, Entry], dict[str, float]]:
    """Prior: atoms and weights from half of the rows. Posterior: the same atoms, weights from all rows."""
    n, half, rest = len(y), order[: len(y) // 2], order[len(y) // 2 :]
    path = Pursuit(X[half], y[half], atoms)
    k, m = path.k, len(rest)
    columns = [np.column_stack([np.ones(len(Z)), path.features(Z, k)]) for Z in (X, new)]
    _, R = np.linalg.qr(columns[0][half] / np.sqrt(len(half)))
    F, G = (solve_triangular(R, C.T, trans="T").T for C in columns)  # of unit second moment on the first half
    prior, posterior = (np.linalg.lstsq(F[rows], y[rows], rcond=None)[0] for rows in (half, order))
    noise = float(np.sum((y[half] - F[half] @ prior) ** 2)) / max(len(half) - 2 * k - 1, 1)
    unit = np.sqrt((k + 1) * noise * (1 / len(half) - 1 / n) / 2)  # for which the change is expected to cost a nat
    moved = float(np.sum((posterior - prior) ** 2))
    margins = y[rest] * (F[rest] @ posterior) / np.linalg.norm(F[rest], axis=1)
    unseen = t * (G @ posterior) / np.linalg.norm(G, axis=1)
    middle = float(np.mean(unseen <= 0))
    gibbs, shifted = [], []
    for scale in unit * np.array(SCALES):
        cost, inner = moved / (2 * scale**2), gibbs_error(margins, scale)
        bound = pac_bayes_bound(inner, cost, m, DELTA / len(SCALES))
        gibbs.append(entry(bound, gibbs_error(unseen, scale), k) | {"nats": cost, "inner": inner})
        for shift in SHIFTS:
            bound = pac_bayes_bound(gibbs_error(margins, scale, shift), cost, m, DELTA / len(SCALES) / len(SHIFTS))
            shifted.append(entry(bound / ndtr(shift), middle, k))
    best = lowest(gibbs)
    drawn = posterior + unit * rng.normal(size=k + 1)
    ratio = (np.sum((drawn - prior) ** 2) - np.sum((drawn - posterior) ** 2)) / (2 * unit**2)
    wrong = int(np.sum(y[rest] * (F[rest] @ drawn) <= 0))
    entries = {
        "PAC-Bayes, Gibbs": best,
        "PAC-Bayes, twice Gibbs": entry(2 * best["bound"], middle, k),
        "PAC-Bayes, by margins": lowest(shifted),
        "PAC-Bayes, drawn once": entry(drawn_bound(wrong, ratio, m, DELTA), float(np.mean(t * (G @ drawn) <= 0)), k),
    }
    plain = float(np.mean(margins <= 0))
    terms = {
        "middle": middle,
        "exact": holdout_bound(round(plain * m), m, DELTA) - plain,
        "constant": pac_bayes_bound(plain, 0.0, m, DELTA / len(SCALES)) - plain,
        "noise": best["inner"] - plain,
        "bound": best["bound"] - plain,
        "nats": best["nats"],
        "prior": float(np.mean(t * (G @ prior) <= 0)),
    }
    return entries, {name: float(f"{value:.4g}") for name, value in terms.items()}


def crossed(X: Array, y: Array, new: Array, t: Array, order: Rows, atoms: int) -> Entry:
    """Models of four folds, one of them drawn for each new row."""
    wrong, sizes, errors, ks = [], [], [], []
    for fold in np.array_split(order, FOLDS):
        rest = np.setdiff1d(order, fold)
        path = Pursuit(X[rest], y[rest], atoms)
        wrong.append(round(path.errors(X[fold], y[fold])[path.k] * len(fold)))
        sizes.append(len(fold))
        errors.append(path.errors(new, t)[path.k])
        ks.append(path.k)
    return entry(cross_bound(wrong, sizes, DELTA), float(np.mean(errors)), float(np.mean(ks)))


def entry(bound: Any, error: float, k: float) -> Entry:
    """A bound, the test error of the model it speaks of, and its number of atoms."""
    return {"bound": float(bound), "error": error, "k": k}


def lowest(entries: Sequence[Entry]) -> Entry:
    """The entry with the lowest bound."""
    return min(entries, key=lambda one: one["bound"])

"""How often polytope faces pursuit reaches the optimum of the linear program that it imitates.

The peer is ``scipy.optimize.linprog`` on basis pursuit, min ‖α‖₁ subject to Kα = y, on the same problems. The optimum
counts as reached when y is fitted and ‖α‖₁ is within 1e-6 of it. Prints the table of ``docs/polytope.md``.

Run: ``python benchmarks/faces_rates.py [--out FILE]``
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from sklearn.metrics.pairwise import rbf_kernel

from _common import parser, write
from kernelpursuit import DenseDictionary, Faces, pursue
from kernelpursuit.estimators.faces import walk_rule

SETTINGS = {"release": (True, False), "release, guard": (True, True), "no release": (False, False)}


def sparse(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Six atoms of a 20 x 40 Gaussian dictionary."""
    rng = np.random.default_rng([seed, 7])
    K = rng.normal(size=(20, 40))
    K /= np.linalg.norm(K, axis=0)
    alpha = np.zeros(40)
    alpha[rng.choice(40, 6, replace=False)] = rng.choice([-1, 1], 6) * rng.uniform(0.5, 2, 6)
    return K, K @ alpha, np.flatnonzero(alpha)


def dense(seed: int) -> tuple[np.ndarray, np.ndarray, None]:
    """A target without structure, 15 x 40."""
    rng = np.random.default_rng([seed, 5])
    return rng.normal(size=(15, 40)) / np.sqrt(15), rng.normal(size=15), None


def smooth(seed: int) -> tuple[np.ndarray, np.ndarray, None]:
    """An RBF kernel of twelve points."""
    rng = np.random.default_rng([seed, 6])
    X = rng.normal(size=(12, 3))
    return rbf_kernel(X, gamma=0.5), np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=12), None


def basis_pursuit(K: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Optimal weights and ‖α‖₁."""
    m = K.shape[1]
    result = linprog(np.ones(2 * m), A_eq=np.hstack([K, -K]), b_eq=y, bounds=(0, None), method="highs")
    return result.x[:m] - result.x[m:], result.fun


def count(make, problems: int) -> list[dict]:
    """Problems on which each setting reaches the optimum, and the true atoms where basis pursuit finds them."""
    reached, same, solved = dict.fromkeys(SETTINGS, 0), dict.fromkeys(SETTINGS, 0), 0
    for seed in range(problems):
        K, y, truth = make(seed)
        alpha, optimum = basis_pursuit(K, y)
        found = truth is not None and set(np.flatnonzero(np.abs(alpha) > 1e-7)) == set(truth)
        solved += found
        for name, (release, guard) in SETTINGS.items():
            run = Faces(DenseDictionary(K), y, intercept=False, release=release, guard=guard)
            pursue(run, walk_rule(run, K.shape[0], 1e-9))
            atoms, coef = list(run.stages[-1].atoms), run.stages[-1].coef[1:]
            fits = np.linalg.norm(y - K[:, atoms] @ coef) < 1e-6 * np.linalg.norm(y)
            reached[name] += bool(fits and np.abs(coef).sum() <= optimum * (1 + 1e-6))
            same[name] += bool(found and set(run.active) == set(truth))
    records = [{"problems": f"{make.__name__}: optimum reached", "of": problems, **reached}]
    return records + ([{"problems": f"{make.__name__}: true support", "of": solved, **same}] if solved else [])


def main() -> None:
    """Print the counts and write the record."""
    options = parser(__doc__, "faces_rates")
    arguments = options.parse_args()
    records = [*count(sparse, 200), *count(dense, 100), *count(smooth, 60)]
    for record in records:
        print(", ".join(f"{name}={value}" for name, value in record.items()))
    write(records, arguments.out)


if __name__ == "__main__":
    main()

"""A ridge without held-out rows: three rules on the chosen atoms, beside kernel ridge regression tuned by folds.

`KMPRegressor` chooses its atoms without a ridge. In the span of these the ridge is chosen by the left-out error, by
generalised cross-validation that charges two degrees of freedom for each, or by the evidence (marginal likelihood), all
in closed form; then the pursuit is run again with it. "auto" is ``alpha="auto"``: the ridge of the evidence for the
atoms as they are, without a second pursuit. "auto, auto" leaves the number of atoms to the estimator as well. The
peer is KernelRidge with the same width and its penalty by five folds. Errors are mean squared ones on as many rows as
were trained on, as shares of the peer's; "hindsight" is the ridge with the least test error.

Run: ``python benchmarks/ridge_rules.py [--data DIR] [--atoms 100] [--rows 400] [--splits 3] [--out FILE]``
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV

from _common import load, parser, show, write
from kernelpursuit import KMPRegressor

SETS = "diabetes housing mpg mg space_ga bodyfat triazines pyrim abalone cpusmall cal_housing".split()
RULES = ("left_out", "gcv", "evidence")
RIDGES = 10.0 ** np.arange(-6, 2.5, 0.5)


def best_ridges(K: np.ndarray, G: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Ridge that each rule takes for ``|y - K c|² + ridge cᵀ G c``, with a constant.

    With G = L Lᵀ and K L⁻ᵀ = U S Vᵀ the fit is U f Uᵀ y, f = S² / (S² + ridge).
    """
    n, k = K.shape
    L = cholesky(G + 1e-10 * np.eye(k), lower=True)
    U, S, _ = np.linalg.svd(solve_triangular(L, (K - K.mean(axis=0)).T, lower=True).T, full_matrices=False)
    y = y - y.mean()
    u, values = U.T @ y, []
    for ridge in RIDGES:
        f = S**2 / (S**2 + ridge)
        residual, leverage = y - U @ (f * u), np.minimum((U * U) @ f + 1 / n, 1 - 1e-9)
        left_out = np.mean((residual / (1 - leverage)) ** 2)
        gcv = np.mean(residual**2) / max(1 - (1 + 2 * f.sum()) / n, 1e-9) ** 2
        minus_evidence = (n - 1) * np.log(y @ y - f @ u**2) + np.sum(np.log1p(S**2 / ridge))
        values.append((left_out, gcv, minus_evidence))
    return dict(zip(RULES, RIDGES[np.argmin(values, axis=0)].tolist(), strict=True))


def errors(X: np.ndarray, y: np.ndarray, rows: int, atoms: int, seed: int) -> dict[str, float]:
    """Test errors of the peer and of each rule on one split."""
    order = np.random.default_rng(seed).permutation(len(X))[: 2 * rows]
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
    y = (y - y[train].mean()) / y[train].std()
    gamma = 1 / (2 * X.shape[1])

    def error(model: Any) -> float:
        return float(np.mean((model.fit(X[train], y[train]).predict(X[test]) - y[test]) ** 2))

    def pursuit(alpha: float | str) -> KMPRegressor:
        return KMPRegressor(atoms, gamma=gamma, alpha=alpha)

    chosen = pursuit(0.0).fit(X[train], y[train]).support_vectors_
    ridges = best_ridges(rbf_kernel(X[train], chosen, gamma=gamma), rbf_kernel(chosen, gamma=gamma), y[train])
    peer = GridSearchCV(KernelRidge(kernel="rbf", gamma=gamma), {"alpha": 10.0 ** np.arange(-6, 2)}, cv=5)
    found = {"kernel_ridge": error(peer), "no_ridge": error(pursuit(0.0))}
    found |= {rule: error(pursuit(ridge)) for rule, ridge in ridges.items()}
    found |= {"auto": error(pursuit("auto")), "auto, auto": error(KMPRegressor(gamma=gamma))}
    return found | {"hindsight": min(error(pursuit(ridge)) for ridge in RIDGES[2::2])}


def main() -> None:
    """Write the record."""
    made = parser(__doc__, "ridge_rules")
    made.add_argument("--atoms", type=int, default=100)
    made.add_argument("--rows", type=int, default=400)
    made.add_argument("--splits", type=int, default=3)
    args = made.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # fewer than 100 independent atoms
    records: list[dict[str, Any]] = []
    for name in SETS:
        data = load_diabetes() if name == "diabetes" else load(name, args.data)
        y = data.target.astype(np.float64)
        splits = [errors(data.data, y, args.rows, args.atoms, seed) for seed in range(args.splits)]
        mean = {key: float(np.mean([split[key] for split in splits])) for key in splits[0]}
        records.append({"set": name, "kernel_ridge_error": mean["kernel_ridge"]})
        records[-1] |= {key: value / mean["kernel_ridge"] for key, value in mean.items() if key != "kernel_ridge"}
        show(records[-1])
    keys = [key for key in records[0] if key not in ("set", "kernel_ridge_error")]
    overall = {key: float(np.exp(np.mean([np.log(record[key]) for record in records]))) for key in keys}
    show({"set": "geometric mean", **overall})
    write([*records, {"set": "geometric mean", **overall}], args.out)


if __name__ == "__main__":
    main()

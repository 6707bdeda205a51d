"""A search gives the scores of `GridSearchCV` over plain estimators, and makes its choice.

50 random settings in the suite; others by hand: ``SETTINGS=500 pytest tests/search/test_against_grid_search.py``.
"""

import os

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

from kernelpursuit import KMPClassifier, KMPRegressor, PolytopeFacesRegressor, PursuitSearchCV, SparseKernelFDA

KERNELS = ["rbf", "rbf", "laplacian", ("poly", {"degree": 3}), ("poly", {"degree": 2}), "sigmoid", ["rbf", "laplacian"]]


def setting(seed):
    """A random estimator, rows for it, folds, and the parameters of its search."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(24, 90)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3)
    if rng.random() < 0.2 and X.std() > 1:
        X = np.round(X)
    signal = np.sin(2 * X[:, 0] / X[:, 0].std()) + 0.3 * rng.normal(size=n)
    kind = rng.choice(["values", "values", "classes", "discriminant", "faces"])
    gammas = (10.0 ** rng.uniform(-2, 2, size=int(rng.integers(1, 4))) / d / X.var()).tolist()
    kernel = KERNELS[rng.integers(len(KERNELS))]
    if kind == "values":
        variant, alpha = str(rng.choice(["prefit", "backfit", "basic"])), float(rng.choice([0.0, 1e-6, 0.1]))
        model = KMPRegressor(kernel=kernel, variant=variant, alpha=alpha, fit_intercept=bool(rng.random() < 0.8))
    elif kind == "faces":
        model = PolytopeFacesRegressor()
    else:
        model = SparseKernelFDA() if kind == "discriminant" else KMPClassifier(kernel=kernel, alpha=0.01)
    y = np.digitize(signal, np.quantile(signal, [0.5] if rng.random() < 0.5 else [0.3, 0.6]))
    numbers = kind in ("values", "faces")
    folds = (KFold if numbers else StratifiedKFold)(int(rng.integers(2, 5)), shuffle=True, random_state=seed)
    return model, X, signal if numbers else y, {"gammas": gammas, "max_atoms": int(rng.integers(2, 9))}, folds


@pytest.mark.filterwarnings("ignore")  # of few rows a path may end before its atoms
@pytest.mark.parametrize("seed", range(int(os.environ.get("SETTINGS", "50"))))
def test_scores_and_choice_are_those_of_plain_fits(seed):
    model, X, y, parameters, folds = setting(seed)
    scoring = "accuracy" if isinstance(model, KMPClassifier | SparseKernelFDA) else "neg_mean_squared_error"
    search = PursuitSearchCV(model, cv=folds, scoring=scoring, **parameters).fit(X, y)
    grid = {"gamma": parameters["gammas"], "n_atoms": list(range(1, parameters["max_atoms"] + 1))}
    plain = GridSearchCV(model, grid, cv=folds, scoring=scoring, refit=False).fit(X, y)
    for name in ["mean_test_score", *(f"split{fold}_test_score" for fold in range(folds.n_splits))]:
        np.testing.assert_allclose(search.cv_results_[name], plain.cv_results_[name], rtol=1e-8, atol=1e-10)
    best = plain.cv_results_["mean_test_score"].max()
    assert plain.cv_results_["mean_test_score"][search.best_index_] >= best - 1e-8 * abs(best)

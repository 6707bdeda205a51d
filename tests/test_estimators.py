"""scikit-learn's own checks on every estimator, also those that its generator never reaches."""

import numpy as np
import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelpursuit import KMPClassifier, KMPClassifierCV, KMPRegressor, KMPRegressorCV

ESTIMATORS = [
    KMPRegressor(),
    KMPRegressor(n_atoms=5, variant="backfit", alpha=0.01),
    KMPRegressor(n_atoms=10, variant="basic"),
    KMPRegressor(n_atoms=5, loss="huber"),
    KMPClassifier(),
    KMPClassifier(n_atoms=5, loss="logistic", alpha=0.01),
    KMPRegressor(n_atoms=3, kernel="precomputed", alpha=0.1),
    KMPClassifier(n_atoms=3, kernel="precomputed"),
    KMPRegressorCV(max_atoms=10, cv=3),
    KMPClassifierCV(max_atoms=10, cv=3),
]


# Some checks have fewer distinct rows than n_atoms: that warning is asserted elsewhere.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Checks of scikit-learn that `parametrize_with_checks` does not run; those for transformers and outlier detectors do
# not apply to regressors and classifiers.
UNREACHED = [
    "check_dataframe_column_names_consistency",
    "check_estimators_data_not_an_array",
    "check_inplace_ensure_writeable",
    "check_param_validation",
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", UNREACHED)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_checks_that_the_generator_never_reaches(estimator, name):
    check = getattr(estimator_checks, name)
    if name == "check_estimators_data_not_an_array":
        if estimator.get_params()["kernel"] == "precomputed":
            X = np.eye(20)
            check(type(estimator).__name__, estimator, X, np.arange(20) % 2, "NotAnArray")
            return
        X = np.random.default_rng(0).normal(size=(20, 2))
        check(type(estimator).__name__, estimator, X, (X[:, 0] > 0).astype(int), "NotAnArray")
    else:
        check(type(estimator).__name__, estimator)


def test_classifier_predictions():
    for readonly in (False, True):
        estimator_checks.check_classifiers_train("KMPClassifier", KMPClassifier(), readonly_memmap=readonly)
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    estimator_checks.check_classifiers_predictions(X, y, "KMPClassifier", KMPClassifier(n_atoms=5))

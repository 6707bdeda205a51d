"""The refined estimators: scikit-learn's checks, promises, bad input."""

import numpy as np
import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelpursuit import RefinedKMPClassifier, RefinedKMPRegressor


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([RefinedKMPRegressor(), RefinedKMPClassifier()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)

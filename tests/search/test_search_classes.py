"""Searches of rare classes: folds that cannot be fitted are named, with what to do."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from kernelpursuit import KMPClassifier, PursuitSearchCV, SparseKernelFDA

X = np.random.default_rng(0).normal(size=(60, 2))
ESTIMATORS = [KMPClassifier(), SparseKernelFDA()]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_a_class_of_one_row(estimator):
    y = np.where(np.arange(60) == 7, "rare", "usual")
    name = type(estimator).__name__
    with pytest.raises(ValueError, match=rf"^cv=5: .* of class usual\. Class rare of y has 1 row, .* {name}, which"):
        PursuitSearchCV(estimator, max_atoms=5, cv=5).fit(X, y)
    with pytest.raises(ValueError, match=r"^cv=3: .* Class rare of y has 1 row"):
        PursuitSearchCV(estimator, max_atoms=5, cv=3).fit(
            X, np.where(np.arange(60) < 9, "rare", "usual"), sample_weight=(np.arange(60) > 7) * 2.0
        )
    with pytest.raises(ValueError, match="y must have two classes or more"):
        PursuitSearchCV(estimator, max_atoms=5).fit(X, np.zeros(60))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_folds_that_keep_a_class_together(estimator):
    y = (np.arange(60) < 10).astype(int)
    with pytest.raises(ValueError, match=r"fold 1 of 3 are all of class 0\. Class 1 of y has 10 rows.*StratifiedKFold"):
        PursuitSearchCV(estimator, max_atoms=5, cv=KFold(3)).fit(X, y)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_a_rare_class_among_three_is_no_reason_to_stop(estimator):
    y = np.r_[2, np.arange(59) % 2]
    assert PursuitSearchCV(estimator, max_atoms=5, gammas=[1.0]).fit(X, y).classes_.tolist() == [0, 1, 2]

"""scikit-learn's own checks on every estimator, also those that its generator never reaches."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_outlier_detector
from sklearn.metrics.pairwise import linear_kernel
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from tests.registry import DEFAULTS, FEW_ATOMS, SETTINGS, is_precomputed, label, smaller

pytestmark = pytest.mark.filterwarnings(
    # Warnings that are asserted elsewhere. Some checks have fewer distinct rows than n_atoms,
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.*are duplicates of others:UserWarning",
    "ignore:.*calibration rows are too few:UserWarning",
    "ignore:.*atoms, left out:UserWarning",
    # fewer rows of a class than folds,
    "ignore:The least populated class:UserWarning",
    # or fit on frames and transform arrays.
    "ignore:X .* feature names:UserWarning",
)

# Checks that are repeated for other settings than the default. How data are taken in is written once for all
# estimators, but for kernel matrices. Arrays of other libraries are compared atom for atom in test_array_api.py.
REPEATED = (
    "check_class", "check_decision", "check_estimator_sparse_array", "check_estimators_dtypes",
    "check_estimators_pickle", "check_fit2d", "check_fit_idempotent", "check_methods", "check_outlier",
    "check_regressors", "check_requires", "check_sample_weight_equivalence", "check_transformer_general",
    "check_transformer_preserve",
)  # fmt: skip


def applies(name, estimator):
    """Whether a check asks for something that the setting means to give."""
    if name.startswith("check_sample_weight_equivalence"):
        # Repeated rows change what is drawn, and the order of rows decides between equal diagonals.
        drawn = getattr(estimator, "candidates", None) is not None
        return not (drawn or getattr(estimator, "selection", None) in ("random", "diagonal") or holds_out(estimator))
    if name.startswith("check_outlier") and name != "check_outlier_contamination":
        return not holds_out(estimator)  # the promise is about new rows then, not about those of the fit
    if name == "check_decision_proba_consistency":
        return not is_precomputed(estimator)  # it gives rows, not a kernel matrix; see test_probabilities.py
    return True


def holds_out(estimator):
    """Whether a novelty detector sets its threshold on rows of their own."""
    return is_outlier_detector(estimator) and estimator.validation_fraction is not None


def cases():
    """Estimators as their constructors make them, those that fit long in a smaller setting; then other settings."""
    for estimator in [*map(smaller, DEFAULTS), *SETTINGS]:
        for instance, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            wanted = estimator not in SETTINGS or name.startswith(REPEATED) or is_precomputed(estimator)
            if wanted and applies(name, estimator):
                options = "".join(f"-{value}" for value in check.keywords.values())
                yield pytest.param(instance, check, id=f"{name.removeprefix('check_')}{options}-{label(estimator)}")


@pytest.mark.parametrize(("estimator", "check"), list(cases()))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Checks that the generator does not yield; each estimator gets those that apply to it.
UNREACHED = [
    "check_dataframe_column_names_consistency",
    "check_inplace_ensure_writeable",
    "check_param_validation",
]
OF_PREDICTORS = ["check_estimators_data_not_an_array"]
OF_TRANSFORMERS = [
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
]


def more_cases():
    for estimator in FEW_ATOMS:
        names = [*UNREACHED, *(OF_PREDICTORS if hasattr(estimator, "predict") else [])]
        for name in names + (OF_TRANSFORMERS if hasattr(estimator, "transform") else []):
            if applies(name, estimator):
                yield pytest.param(estimator, name, id=f"{name.removeprefix('check_')}-{label(estimator)}")


@pytest.mark.parametrize(("estimator", "name"), list(more_cases()))
def test_checks_that_the_generator_never_reaches(estimator, name):
    arguments = ()
    if name == "check_estimators_data_not_an_array":
        X = np.random.default_rng(0).normal(size=(20, 2))
        y = (X[:, 0] > 0).astype(int)
        arguments = (linear_kernel(X) if is_precomputed(estimator) else X, y, "NotAnArray")
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator), *arguments)


@pytest.mark.parametrize("classifier", [found for found in DEFAULTS if is_classifier(found)], ids=label)
def test_classifier_predictions(classifier):
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    estimator_checks.check_classifiers_predictions(X, y, type(classifier).__name__, clone(classifier))

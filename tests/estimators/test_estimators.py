"""scikit-learn's own checks on every estimator, also those that its generator never reaches."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_outlier_detector
from sklearn.metrics.pairwise import linear_kernel
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from kernelpursuit import KMPClassifier, PursuitNystroem, PursuitSearchCV, SparseKernelFDA
from tests.registry import DEFAULTS, FEW_ATOMS, SETTINGS, SMALLER, few_atoms, is_precomputed, label, smaller

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


# Checks that look at the class, or end before a setting matters: the default of each class is enough. The checks of
# arrays of other libraries are repeated for more settings, and compared atom for atom, in test_array_api.py.
ONCE_FOR_A_CLASS = {
    "check_array_api_input",
    "check_array_api_mixed_inputs",
    "check_array_api_same_namespace",
    "check_complex_data",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_empty_data_messages",
    "check_estimators_unfitted",
    "check_fit1d",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_pipeline_consistency",  # a pipeline calls the same methods; that a fit repeats itself is checked for all
    "check_set_params",
    "check_transformers_unfitted",
    "check_valid_tag_types",
    # of those below
    "check_dataframe_column_names_consistency",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_param_validation",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_transformer_get_feature_names_out_pandas",
}


# Checks of how data are taken in, which is written once for all estimators: beside each class only kernel matrices
# differ, see `takes_matrices`. So are those of sparse rows, of arrays of other libraries, and whatever is checked again
# with read-only data.
OF_DATA_TAKEN_IN = {
    "check_all_zero_sample_weights_error",
    "check_classifier_data_not_an_array",
    "check_dict_unchanged",
    "check_dont_overwrite_attributes",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_data_not_an_array",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_f_contiguous_array_estimator",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_score_takes_y",
    "check_inplace_ensure_writeable",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_regressor_data_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_supervised_y_2d",
    "check_transformer_data_not_an_array",
}


# Checks that fit often or on many rows: where a default is slow they are given a smaller setting of the same kind.
LONG = {name for name in ONCE_FOR_A_CLASS if name.startswith("check_array_api")} | {
    "check_class_weight_classifiers",
    "check_classifier_data_not_an_array",
    "check_classifiers_classes",
    "check_classifiers_multilabel_output_format_decision_function",
    "check_classifiers_multilabel_output_format_predict",
    "check_classifiers_multilabel_output_format_predict_proba",
    "check_classifiers_multilabel_representation_invariance",
    "check_classifiers_train",
    "check_decision_proba_consistency",
    "check_dict_unchanged",
    "check_dont_overwrite_attributes",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_n_features_in",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_regressor_data_not_an_array",
    "check_regressors_int",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_readonly_memmap_input",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_pandas_series",
    "check_supervised_y_2d",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
    "check_transformer_preserve_dtypes",
}


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


def checks_of(estimator, wanted):
    """Parameters of the tests below: pairs of an estimator and a check."""
    for instance, check in estimator_checks_generator(estimator):
        name = check.func.__name__
        if wanted(name, check.keywords) and applies(name, estimator):
            options = "".join(f"-{value}" for value in check.keywords.values())
            yield pytest.param(instance, check, id=f"{name.removeprefix('check_')}{options}-{label(estimator)}")


def of_data(name, options):
    """Whether a check is of how data are taken in."""
    begins = name.startswith(("check_array_api", "check_estimator_sparse"))
    return begins or name in OF_DATA_TAKEN_IN or "readonly_memmap" in options


def repeated_for(setting):
    """Whether a check, by its name and its options, is repeated for a setting."""

    def wanted(name, options):
        if name in ONCE_FOR_A_CLASS:
            return False
        if name == "check_estimator_sparse_array":  # and the same again for sparse matrices
            return reads_rows_otherwise(setting)
        return takes_matrices(setting) or not of_data(name, options)

    return wanted


def takes_matrices(setting):
    """Whether a setting stands for one way to take kernel matrices in: these classes do it by the code of others."""
    repeats = KMPClassifier, PursuitNystroem, SparseKernelFDA
    inner = setting.estimator if isinstance(setting, PursuitSearchCV) else setting
    return is_precomputed(setting) and not isinstance(inner, repeats)


def reads_rows_otherwise(setting):
    """Whether a setting has another kernel than the default, which may treat sparse rows otherwise, or picks rows."""
    inner = setting.estimator if isinstance(setting, PursuitSearchCV) else setting
    default, chosen = type(inner)().get_params(), inner.get_params()
    return any(chosen[name] != default.get(name) for name in chosen if "kernel" in name or name == "candidates")


def cases():
    for default in DEFAULTS:  # as its constructor makes it: what users have first
        yield from checks_of(default, lambda name, _: name not in LONG)
        yield from checks_of(smaller(default), lambda name, _: name in LONG and not of_data(name, ()))
        smallest = few_atoms(default) if type(default) in SMALLER else default
        yield from checks_of(smallest, lambda name, _: name in LONG and of_data(name, ()))
    for estimator in SETTINGS:
        yield from checks_of(estimator, repeated_for(estimator))


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
    seen = []
    for estimators, wanted in ((FEW_ATOMS, lambda _: lambda *_: True), (SETTINGS, repeated_for)):
        for estimator in estimators:
            names = [*UNREACHED]
            names += OF_PREDICTORS if hasattr(estimator, "predict") else []
            if hasattr(estimator, "transform") and (type(estimator).transform not in seen or estimator in SETTINGS):
                seen.append(type(estimator).transform)  # a class that inherits it gives out the same
                names += OF_TRANSFORMERS
            for name in names:
                if wanted(estimator)(name, ()) and applies(name, estimator):
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

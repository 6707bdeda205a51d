"""What of a model goes to skl2onnx: searches opened, and stand-ins where a converter of its own would be wrong."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, RidgeClassifierCV, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.svm import SVC, LinearSVC

from kernelpursuit.estimators.classification import has_labels
from kernelpursuit.estimators.conformal import ConformalRegressor
from kernelpursuit.estimators.discriminant import SparseKernelFDA
from kernelpursuit.search.discriminant_cv import SparseKernelFDACV

# skl2onnx's graphs of these give what the models give: the tests compare them.
TRUSTED = (
    BaggingClassifier,
    BaggingRegressor,
    MultiOutputRegressor,
    OneVsRestClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
THRESHOLDS = (FixedThresholdClassifier, TunedThresholdClassifierCV)  # skl2onnx forgets the threshold
DECISION_VALUES = (LogisticRegression, SVC)  # those of skl2onnx are right, by its option raw_scores
SIGMOID = (LogisticRegression, QuadraticDiscriminantAnalysis)  # probabilities are in the order of decision values
LINEAR = (LinearDiscriminantAnalysis, LinearSVC, Perceptron, RidgeClassifier, RidgeClassifierCV, SGDClassifier)


class StandIn(TransformerMixin, BaseEstimator):
    """A fitted model that is converted in another way than its type says."""

    def __init__(self, model: Any = None):
        self.model = model


class Discriminants(StandIn):
    """A discriminant analysis as a step before others: its coordinates, not its classes."""


class DecisionValues(StandIn):
    """A classifier whose decision values are asked for, not its classes."""


class Linear(StandIn):
    """A linear classifier: skl2onnx has most in single precision alone, and other probabilities for discriminants."""


class OneVsRest(StandIn):
    """A classifier of ours for each class: skl2onnx would name the largest probability, not the largest value."""


class Calibrated(StandIn):
    """A calibrated classifier: skl2onnx would give probabilities to what was fitted on decision values."""


class Filled(StandIn):
    """An imputer: onnxruntime has the operator that skl2onnx takes in single precision alone."""


def as_steps(model: Any) -> Any:
    """The model as it is to be converted; raises where the graph would be wrong."""
    if is_ours(model):
        return model
    if hasattr(model, "best_estimator_"):
        return as_steps(model.best_estimator_)
    if isinstance(model, FrozenEstimator):
        return as_steps(model.estimator)
    if isinstance(model, SimpleImputer):
        return Filled(model) if fills_numbers(model) else model
    if isinstance(model, Pipeline):
        *before, (name, last) = model.steps
        steps = [(name, transformer_of(step)) for name, step in before]
        return changed(model, steps=[*steps, (name, as_steps(last))])
    if isinstance(model, FeatureUnion):
        parts = [(name, transformer_of(part)) for name, part in model.transformer_list]
        return changed(model, transformer_list=parts)
    if isinstance(model, ColumnTransformer):
        pieces = [(name, transformer_of(part), columns) for name, part, columns in model.transformers_]
        return changed(model, transformers_=pieces)
    if isinstance(model, CalibratedClassifierCV):
        return Calibrated(model)
    if isinstance(model, LINEAR):
        return linear(model)
    if isinstance(model, OneVsRestClassifier):
        parts = [last_step(as_steps(part)) for part in model.estimators_]
        return OneVsRest(model) if all(is_our_classifier(part) for part in parts) else trusted(model)
    around = (*THRESHOLDS, *TRUSTED)
    is_free = isinstance(model, SelectorMixin) or not holds_ours(model)  # a selector's columns, whoever chose them
    return model if is_free and not isinstance(model, around) else trusted(model)


def is_ours(model: Any) -> bool:
    """Whether an object is of this package."""
    return type(model).__module__.startswith("kernelpursuit.")


def is_our_classifier(model: Any) -> bool:
    """Whether it is a classifier of this package; not a stand-in."""
    return is_ours(model) and is_classifier(model)


def holds_ours(value: Any) -> bool:
    """Whether an estimator of this package is somewhere inside."""
    if is_ours(value):
        return True
    if isinstance(value, BaseEstimator):
        return holds_ours(vars(value))
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(holds_ours(part) for part in parts)


def changed(model: Any, **attributes: Any) -> Any:
    """A copy with other attributes."""
    model = copy.copy(model)
    vars(model).update(attributes)
    return model


def transformer_of(step: Any) -> Any:
    """A step of a pipeline as one that transforms."""
    step = as_steps(step)
    last = last_step(step)
    if isinstance(last, Linear):
        raise ValueError(f"to_onnx knows no right graph of {type(last.model).__name__} as a step before others")
    return with_last(step, Discriminants(last)) if isinstance(last, (SparseKernelFDA, SparseKernelFDACV)) else step


def linear(model: Any) -> Any:
    """A linear classifier; skl2onnx is right where there are probabilities, but for discriminant analysis."""
    if isinstance(model, SGDClassifier) and model.loss == "modified_huber" and len(model.classes_) > 2:
        raise ValueError(
            "to_onnx knows no right graph of SGDClassifier(loss='modified_huber') of several classes; "
            "loss='log_loss' has one"
        )
    is_right = hasattr(model, "predict_proba") and not isinstance(model, LinearDiscriminantAnalysis)
    return model if is_right else Linear(model)


def fills_numbers(imputer: SimpleImputer) -> bool:
    """Whether missing numbers are filled by a number of their column."""
    if imputer.add_indicator:
        raise ValueError("to_onnx knows no right graph of SimpleImputer(add_indicator=True)")
    is_nan = isinstance(imputer.missing_values, float) and np.isnan(imputer.missing_values)
    return bool(is_nan and all(isinstance(value, (int, float, np.number)) for value in imputer.statistics_))


def trusted(model: Any) -> Any:
    """A model around others of which skl2onnx makes a right graph."""
    kind = type(model).__name__
    if not isinstance(model, TRUSTED):
        known = ", ".join(sorted(known.__name__ for known in (CalibratedClassifierCV, *TRUSTED)))
        raise ValueError(
            f"to_onnx knows no right graph of {kind} around another model; it knows pipelines, refitted searches, "
            f"{known}. Give the fitted models inside (estimator_, estimators_) one by one"
        )
    if isinstance(model, StackingClassifier) and {*model.stack_method_} != {"predict_proba"}:
        methods = ", ".join(sorted({*model.stack_method_}))
        raise ValueError(f"to_onnx knows a right graph of stack_method='predict_proba' alone, here it is {methods}")
    changes: dict[str, Any] = {"estimators_": [as_steps(part) for part in model.estimators_]}
    if isinstance(model, VotingClassifier):
        changes["flatten_transform"] = False  # of its `transform` alone; skl2onnx refuses the default
    if getattr(model, "weights", None) is not None:
        changes["weights"] = np.asarray(model.weights)
    final = []
    if hasattr(model, "final_estimator_"):
        final = [as_steps(model.final_estimator_)]
        changes["final_estimator_"] = final[0]
    for part in (*changes["estimators_"], *final):
        last = last_step(part)
        if not is_right_inside(model, last):
            name = type(last.model if isinstance(last, StandIn) else last).__name__
            raise ValueError(f"to_onnx knows no right graph of {kind} around {name}: give the fitted models one by one")
    return changed(model, **changes)


def is_right_inside(model: Any, part: Any) -> bool:
    """Whether skl2onnx makes of a part what a trusted model around it needs."""
    if isinstance(part, (StandIn, ConformalRegressor, *TRUSTED)) or has_labels(part):
        return False
    if is_classifier(part) and not hasattr(part, "predict_proba"):
        return False  # skl2onnx takes decision values for probabilities
    if isinstance(model, OneVsRestClassifier):
        return is_classifier(part) and (isinstance(part, SIGMOID) or not hasattr(part, "decision_function"))
    return True


def last_step(model: Any) -> Any:
    """A model, or the last step of a pipeline."""
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model


def calibrated_scores(model: Any, method: str) -> Any:
    """A calibrated classifier's inner one as what its calibration was fitted on."""
    model = as_steps(model)
    last = last_step(model)
    if isinstance(last, Linear) or is_our_classifier(last):
        return decision_step(model)
    probabilities_are_right = method != "temperature" and not hasattr(last, "decision_function")
    if isinstance(last, DECISION_VALUES) or (probabilities_are_right and not isinstance(last, (StandIn, *TRUSTED))):
        return model
    name = type(last.model if isinstance(last, StandIn) else last).__name__
    raise ValueError(
        f"to_onnx knows no right graph of CalibratedClassifierCV(method={method!r}) around {name}, but around the "
        "classifiers of this package, linear ones and SVC, also at the end of a pipeline"
    )


def decision_step(model: Any) -> Any:
    """A classifier of ours or a linear one, also at the end of a pipeline, as its decision values."""
    last = last_step(model)
    return with_last(model, DecisionValues(last.model if isinstance(last, Linear) else last))


def with_last(model: Any, last: Any) -> Any:
    """A pipeline with another last step."""
    if not isinstance(model, Pipeline):
        return last
    *before, (name, step) = model.steps
    return changed(model, steps=[*before, (name, with_last(step, last))])


def options_of(steps: Any) -> dict[int, Any]:
    """Options of skl2onnx: probabilities of scikit-learn's classifiers shall be arrays, not dictionaries."""
    last = last_step(steps)
    scores = {}
    if isinstance(last, Calibrated):
        inner = [last_step(as_steps(fold.estimator)) for fold in last.model.calibrated_classifiers_]
        scores = {"raw_scores": True} if isinstance(inner[0], DECISION_VALUES) else {}
    else:
        inner = [last]
    if is_ours(inner[0]) or not (is_classifier(inner[0]) or hasattr(inner[0], "predict_proba")):
        return {}
    return {id(part): {"zipmap": False, **scores} for part in inner}

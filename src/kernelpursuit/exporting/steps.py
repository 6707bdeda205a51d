"""Models as skl2onnx converts them rightly: with stand-ins for what it gets wrong, or an error where none helps."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import FeatureUnion, Pipeline

from kernelpursuit.estimators.discriminant import SparseKernelFDA
from kernelpursuit.search.search import PursuitSearchCV

FITTED_INSIDE = ("best_estimator_", "calibrated_classifiers_", "estimators_", "estimator_", "regressor_")


class StandIn(TransformerMixin, BaseEstimator):
    """A fitted model that is converted in another way than its type says."""

    def __init__(self, model: Any = None):
        self.model = model


class DiscriminantCoordinates(StandIn):
    """A discriminant analysis as a step before others: its coordinates, not its classes."""


class NumberImputer(StandIn):
    """An imputer of numbers: skl2onnx takes an operator that onnxruntime has in single precision alone."""


def convertible(model: Any) -> Any:
    """Copy of a model in which stand-ins take the place of what skl2onnx gets wrong; ValueError where there is none."""
    if isinstance(model, PursuitSearchCV):
        return convertible(model.best_estimator_)
    if isinstance(model, Pipeline):
        *before, (name, last) = model.steps
        steps = [(name, convertible_transformer(step)) for name, step in before]
        return copy_with(model, steps=[*steps, (name, convertible(last))])
    if isinstance(model, FeatureUnion):
        parts = [(name, convertible_transformer(part)) for name, part in model.transformer_list]
        return copy_with(model, transformer_list=parts)
    if isinstance(model, ColumnTransformer):
        refuse_names(model)
        of_columns = [(name, convertible_transformer(part), columns) for name, part, columns in model.transformers_]
        return copy_with(model, transformers_=of_columns)
    if isinstance(model, SimpleImputer):
        return NumberImputer(model) if imputes_numbers(model) else model
    if isinstance(model, BaseEstimator) and not is_ours(model):
        refuse_wrong_graphs(model)
    return model


def convertible_transformer(step: Any) -> Any:
    """A step before others: a discriminant analysis there gives its coordinates."""
    step = convertible(step)
    last = last_step(step)
    if isinstance(last, SparseKernelFDA):
        return with_last_step(step, DiscriminantCoordinates(last))
    return step


def refuse_names(model: ColumnTransformer) -> None:
    """ValueError where columns are taken by name: the input of a graph is an array, whose columns have none."""
    for name, _, columns in model.transformers_:
        ends = [columns.start, columns.stop] if isinstance(columns, slice) else columns
        listed = [] if name == "remainder" else np.ravel(np.asarray(ends, dtype=object)).tolist()
        if names := [column for column in listed if isinstance(column, str)]:
            shown = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
            raise ValueError(
                f"to_onnx cannot write a ColumnTransformer that takes columns by name ({shown}), as the input of the "
                "graph is one array: fit the pipeline on an array, the columns given by their numbers"
            )


def refuse_wrong_graphs(model: Any) -> None:
    """ValueError for estimators of scikit-learn of which skl2onnx makes a wrong graph, or none that is known right."""
    name = type(model).__name__
    known_wrong = f"to_onnx knows no right graph of {name}"
    if is_around_others(model):
        inside = [attribute for attribute in FITTED_INSIDE if hasattr(model, attribute)]
        hint = f" ({inside[0]})" if inside else ""
        raise ValueError(f"{known_wrong} around other estimators: give the fitted models inside it{hint}, one by one")
    if is_classifier(model) and not hasattr(model, "predict_proba"):
        raise ValueError(
            f"{known_wrong}, which has no predict_proba (skl2onnx calls its decision values probabilities): "
            "take a classifier that has it, such as LogisticRegression or KMPClassifier"
        )
    if isinstance(model, LinearDiscriminantAnalysis):
        raise ValueError(f"{known_wrong}: take SparseKernelFDA or LogisticRegression")
    if isinstance(model, SGDClassifier) and model.loss == "modified_huber" and len(model.classes_) > 2:
        raise ValueError(f"{known_wrong}(loss='modified_huber') of several classes: loss='log_loss' has one")


def is_around_others(model: Any) -> bool:
    """Whether an estimator fits others; selectors of columns do not count, as their graph is the columns alone."""
    if isinstance(model, SelectorMixin):
        return False
    return isinstance(model, MetaEstimatorMixin) or any(hasattr(value, "fit") for value in model.get_params().values())


def imputes_numbers(imputer: SimpleImputer) -> bool:
    """Whether missing numbers are replaced by a number of their column."""
    if imputer.add_indicator:
        raise ValueError("to_onnx knows no right graph of SimpleImputer(add_indicator=True)")
    is_nan = isinstance(imputer.missing_values, float) and np.isnan(imputer.missing_values)
    return bool(is_nan and all(isinstance(value, (int, float, np.number)) for value in imputer.statistics_))


def is_ours(model: Any) -> bool:
    """Whether an object is of this package."""
    return type(model).__module__.startswith("kernelpursuit.")


def copy_with(model: Any, **attributes: Any) -> Any:
    """A shallow copy with other attributes."""
    model = copy.copy(model)
    vars(model).update(attributes)
    return model


def last_step(model: Any) -> Any:
    """The last step of a pipeline, or the model itself."""
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model


def with_last_step(model: Any, last: Any) -> Any:
    """Copy of a pipeline with another last step; `last` itself for a model that is no pipeline."""
    if not isinstance(model, Pipeline):
        return last
    *before, (name, step) = model.steps
    return copy_with(model, steps=[*before, (name, with_last_step(step, last))])

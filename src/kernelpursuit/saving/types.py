"""The types of this package that model files may hold: a fixed list, so that a file cannot name another."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any

from sklearn.base import BaseEstimator

# Name in the file -> module. A name stays when a class moves.
HOMES = {
    "ConformalRegressor": "estimators.conformal",
    "FeatureWidths": "estimators.widths",
    "KMPClassifier": "estimators.classification",
    "KMPRanker": "estimators.ranker",
    "KMPRegressor": "estimators.regression",
    "PolytopeFacesRegressor": "estimators.faces",
    "PursuitNystroem": "estimators.landmarks",
    "PursuitSearchCV": "search.search",
    "RefinedKMPClassifier": "refined.estimators",
    "RefinedKMPRegressor": "refined.estimators",
    "SparseKernelCCA": "estimators.cca",
    "SparseKernelFDA": "estimators.discriminant",
    "SparseKernelNovelty": "estimators.novelty",
    "SparseKernelPCA": "estimators.pca",
    "Atoms": "refined.moving_atoms",
    "Calibration": "math.calibration",
    "Discriminants": "math.discriminants",
    "Evidence": "refined.evidence",
    "Expansion": "fitting.expansion",
    "Fit": "refined.refining",
    "Fitted": "fitting.model",
    "Frame": "refined.refining",
    "Kernel": "kernels.kernels",
    "KeptWeights": "math.weights",
    "LeftOut": "fitting.jackknife",
    "Path": "pursuit.loop",
    "Span": "fitting.span",
    "Stage": "criteria.faces",
    "Step": "pursuit.loop",
    "WeightPath": "math.weights",
    "basic": "parameters",
    "bound": "parameters",
    "certificate": "parameters",
    "columns": "parameters",
    "gcv": "parameters",
    "huber": "losses",
    "leave_one_group_out": "parameters",
    "leave_one_out": "parameters",
    "poisson": "losses",
    "quantile": "losses",
    "tolerance": "parameters",
    "validation": "parameters",
}


@cache
def type_of(name: str) -> type:
    """The class behind a name of the list."""
    return getattr(import_module(f"kernelpursuit.{HOMES[name]}"), name)


def name_of(kind: type) -> str | None:
    """Name of a class, if it is one of the list."""
    name = kind.__name__
    return name if name in HOMES and kind.__module__ == type_of(name).__module__ else None


def full_names() -> list[str]:
    """The classes of the list as Python names them."""
    return [f"{type_of(name).__module__}.{name}" for name in HOMES]


def state_of(value: Any) -> dict[str, Any]:
    """State of an object of the list: its constructor arguments and, for an estimator, the attributes of a fit."""
    if isinstance(value, BaseEstimator):
        return {"params": value.get_params(deep=False), "fitted": fitted_state(value)}
    return {name: getattr(value, name) for name in field_names(type(value))}


def fitted_state(estimator: BaseEstimator) -> dict[str, Any]:
    """Attributes of an estimator that are no parameters; callbacks belong to the session, not to the model."""
    others = {*estimator.get_params(deep=False), "_skl_callbacks", "_fit_task"}
    return {name: value for name, value in vars(estimator).items() if name not in others}


def field_names(kind: type) -> list[str]:
    """Fields of a named tuple or a dataclass."""
    if is_dataclass(kind):
        return [field.name for field in fields(kind) if field.init]
    return list(kind._fields)  # type: ignore[attr-defined]


def restore(kind: type, state: dict[str, Any]) -> Any:
    """The object with a state of `state_of`; ValueError where they do not belong together."""
    if not issubclass(kind, BaseEstimator):
        if unknown := set(state) - set(field_names(kind)):
            raise ValueError(f"{kind.__name__} has no field {sorted(unknown)}")
        return kind(**state)
    params, fitted = state["params"], state["fitted"]
    if unknown := set(params) - set(signature(kind).parameters):
        raise ValueError(f"{kind.__name__} has no parameter {sorted(unknown)}")
    estimator = kind(**params)
    for name, value in fitted.items():
        if name.startswith("__") or not name.isidentifier() or name in params or hasattr(kind, name):
            raise ValueError(f"{kind.__name__} cannot have an attribute {name!r}")
        setattr(estimator, name, value)
    return estimator

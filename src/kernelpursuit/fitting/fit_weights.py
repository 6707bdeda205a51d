"""`sample_weight` among the parameters of `fit` of an estimator that wraps another one."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from kernelpursuit._sklearn import check_sample_weight, get_config
from kernelpursuit.fitting.placement import labels_on_host


def row_weights(fit_params: dict[str, Any], estimator: Any, n: int) -> tuple[str, np.ndarray | None]:
    """The weights among what `fit` was given besides the data, checked, and their name; nothing else is known there.

    They are no named parameter of `fit`, because that would promise that a row of weight 2 is the same as two rows. A
    row is set aside or fitted to as a whole; of two rows one may be set aside.
    """
    given = {name: value for name, value in fit_params.items() if value is not None}
    name = next((name for name in given if name.split("__")[-1] == "sample_weight"), "sample_weight")
    weights = given.pop(name, None)
    if given:
        raise TypeError(f"fit takes X, y and sample_weight, got {', '.join(sorted(given))} as well")
    if weights is None:
        return name, None
    check_takes_weights(estimator, name)
    weights = check_sample_weight(labels_on_host(weights), np.empty((n, 0)), ensure_non_negative=True)
    if not np.any(weights > 0):
        raise ValueError(f"{name} must have at least one positive entry: all weights are zero")
    return name, weights


def check_takes_weights(estimator: Any, name: str) -> None:
    """Refuse weights of this name that no fit of the estimator would take, and say what a pipeline needs."""
    routed = get_config()["enable_metadata_routing"]
    if isinstance(estimator, Pipeline) and "__" not in name and not routed:
        raise ValueError(
            f"{name} must name a step of the pipeline, as in {estimator.steps[-1][0]}__{name}. Or turn metadata "
            f"routing on, by sklearn.set_config(enable_metadata_routing=True), and call set_fit_request({name}=True) "
            "of that step"
        )
    kinds = [parameter.kind for parameter in signature(estimator.fit).parameters.values()]
    if not (has_fit_parameter(estimator, name) or Parameter.VAR_KEYWORD in kinds):
        raise ValueError(f"{name} must be None for an estimator whose fit takes none, got {estimator!r}")

"""The estimator after a fit that failed or was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelpursuit._sklearn import CALLBACKS_UNDER_WAY


def restore_on_error(method: Callable, estimator: Any, *args: Any, **kwargs: Any) -> Any:
    """Fit, and after an exception restore all attributes: else new classes, say, would stand with an old model.

    An interrupt (Ctrl-C) that left a usable model is in the attribute `_interrupt`, where `fits` of pipeline.py and the
    estimators have put it. It is raised here, once the attributes of the model are set.
    """
    before = dict(vars(estimator))
    try:
        result = method(estimator, *args, **kwargs)
    except BaseException:
        under_way = {name: value for name, value in vars(estimator).items() if name in CALLBACKS_UNDER_WAY}
        vars(estimator).clear()
        vars(estimator).update(before | under_way)
        raise
    interrupt = vars(estimator).pop("_interrupt", None)
    if interrupt is not None:
        raise interrupt
    return result

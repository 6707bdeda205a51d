"""The private names of scikit-learn that the package uses: a new version can break it here, nowhere else."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

import sklearn
from sklearn import get_config
from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads as usable_threads
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import _check_feature_names as check_feature_names
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _check_y as check_y
from sklearn.utils.validation import _num_samples as num_samples
from threadpoolctl import ThreadpoolController

try:
    from sklearn.callback import CallbackSupportMixin  # from 1.9 on
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: there are no callbacks yet."""


# Before, scikit-learn's own checks of data moved arrays of other libraries in most estimators.
ARRAY_API_SUPPORT = parse_version(sklearn.__version__) >= parse_version("1.9")

# Attributes that an estimator has while callbacks watch a fit.
CALLBACKS_UNDER_WAY = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")

__all__ = [
    "ARRAY_API_SUPPORT",
    "CALLBACKS_UNDER_WAY",
    "EstimatorSupport",
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "check_feature_names",
    "check_sample_weight",
    "check_y",
    "fit_context",
    "get_config",
    "num_samples",
    "one_openmp_thread",
    "safe_indexing",
    "usable_threads",
]


@cache
def _openmp() -> ThreadpoolController:
    """The OpenMP libraries of this process; finding them takes milliseconds, so once."""
    return ThreadpoolController().select(user_api="openmp")


def one_openmp_thread() -> AbstractContextManager:
    """scikit-learn's loops in the thread of the caller: in a forked child they would wait for threads of its parent."""
    return _openmp().limit(limits=1)


@cache
def documentation() -> str:
    """Address of the documentation that the installed package names, or an empty text."""
    try:
        given = metadata("kernelpursuit").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    found = dict(one.split(", ", 1) for one in given)
    return found.get("Documentation", "").rstrip("/")


class EstimatorSupport(CallbackSupportMixin):
    """Support of scikit-learn for estimators of other packages: callbacks, and a link in their display in notebooks."""

    _doc_link_module = "kernelpursuit"

    @property
    def _doc_link_template(self) -> str:
        return f"{documentation()}/reference/generated/kernelpursuit.{{estimator_name}}.html"

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Names of the parameters; read from the signature once for a class, not in every fit and clone."""
        return super()._get_param_names()

    def _get_doc_link(self) -> str:
        return super()._get_doc_link() if documentation() else ""


def shows_bars(callback: object) -> bool:
    """Whether a callback is scikit-learn's progress bar."""
    from sklearn.callback import ProgressBar

    return isinstance(callback, ProgressBar)

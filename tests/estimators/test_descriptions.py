"""Every parameter and attribute of every public estimator has a description of its own."""

import ast
import inspect
import re

import pytest
from sklearn.base import BaseEstimator

import kernelpursuit

ESTIMATORS = [
    kind
    for name in kernelpursuit.__all__
    if inspect.isclass(kind := getattr(kernelpursuit, name)) and issubclass(kind, BaseEstimator)
]


def entries(doc, section):
    """Names in a section of a docstring, and whether a description follows."""
    part = re.search(rf"^{section}\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", doc, flags=re.DOTALL | re.MULTILINE)[1]
    found = re.findall(r"^(\S[^\n]*)\n((?: {4}[^\n]*\n?|\n)*)", part, flags=re.MULTILINE)
    return {
        name.strip(): (head, body.strip())
        for head, body in found
        for name in head.split(" : ")[0].split(",")
    }  # fmt: skip


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_parameters_have_descriptions_and_defaults(kind):
    doc = inspect.cleandoc(kind.__doc__)
    known = entries(doc, "Parameters")
    signature = inspect.signature(kind)
    assert list(known) == list(signature.parameters)
    for name, parameter in signature.parameters.items():
        head, body = known[name]
        assert body, f"{name} of {kind.__name__} has no description"
        if parameter.default not in (None, parameter.empty):
            assert ast.literal_eval(head.split("default=")[1]) == parameter.default, head


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_attributes_have_descriptions(kind):
    for name, (_, body) in entries(inspect.cleandoc(kind.__doc__), "Attributes").items():
        assert body and name.endswith("_"), f"{name} of {kind.__name__} has no description"


GROUPS = {
    "the number of terms": "n_atoms",
    "the kernel": "kernel gamma alpha",
    "the task": "loss class_weight labels n_components contamination selection deflation signed release "
    "theta_tol guard centers",
    "the pursuit": "variant stop validation_fraction",
    "large data": "candidates weakness memory fit_intercept resume",
    "the rest": "random_state verbose",
}
GROUP_OF = {name: place for place, names in enumerate(GROUPS.values()) for name in names.split()}
OWN_ORDER = {  # scikit-learn's of Nystroem, and estimators whose parameters are others
    "PursuitNystroem", "RefinedKMPRegressor", "RefinedKMPClassifier", "ConformalRegressor", "FeatureWidths",
    "PursuitSearchCV",
}  # fmt: skip


@pytest.mark.parametrize(
    "kind", [kind for kind in ESTIMATORS if kind.__name__ not in OWN_ORDER], ids=lambda kind: kind.__name__
)
def test_parameters_come_in_groups(kind):
    places = [GROUP_OF[name] for name in inspect.signature(kind).parameters]
    assert places == sorted(places)


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_no_description_sends_the_reader_elsewhere(kind):
    for section in ("Parameters", "Attributes"):
        for name, (head, body) in entries(inspect.cleandoc(kind.__doc__), section).items():
            sent = re.search(r"(as in|see|those of) `(KMP|Refined|Sparse)\w*`", f"{head} {body}", re.IGNORECASE)
            assert not sent, f"{name}: {sent[0]}"

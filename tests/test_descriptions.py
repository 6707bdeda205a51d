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
        if parameter.default is not None:
            assert ast.literal_eval(head.split("default=")[1]) == parameter.default, head


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_attributes_have_descriptions(kind):
    for name, (_, body) in entries(inspect.cleandoc(kind.__doc__), "Attributes").items():
        assert body and name.endswith("_"), f"{name} of {kind.__name__} has no description"

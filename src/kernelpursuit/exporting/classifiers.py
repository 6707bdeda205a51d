"""Classifiers as nodes of an ONNX graph: labels and probabilities from decision values."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit.arrays import on_host
from kernelpursuit.estimators.discriminant import SparseKernelFDA
from kernelpursuit.exporting.graphs import INT64, Graph, expansion_values, name_classes
from kernelpursuit.fitting.classes import classification_loss, has_labels
from kernelpursuit.refined.estimators import RefinedKMPClassifier


def width_of_coef(model: Any) -> int:
    """Number of functions that the expansion computes."""
    return int(model._expansion.coef.shape[1])


def class_outputs(model: Any) -> list[Any]:
    """Classes in their own type, and probabilities."""
    classes = on_host(model.classes_)
    if has_labels(model):
        return [("label", "Int64", len(classes)), ("probabilities", None, len(classes))]
    label = {"U": "String", "O": "String", "b": "Boolean", "f": "Double"}.get(classes.dtype.kind, "Int64")
    return [("label", label, None), ("probabilities", None, len(classes))]


def convert_classifier(graph: Graph, X: str, model: Any, operator: Any) -> None:
    """The class of the largest value, and probabilities."""
    values = expansion_values(graph, X, model._expansion)
    add_labels(graph, values, model, operator.outputs[0])
    slope, bias, limit, form = odds_of(model)
    form = "labels" if has_labels(model) else form
    add_probabilities(graph, values, slope, bias, limit, form, operator.outputs[1])


def add_labels(graph: Graph, values: str, model: Any, output: Any) -> None:
    """The class of the largest decision value, the second of two where the only one is positive, or all such labels."""
    classes = on_host(model.classes_)
    if has_labels(model):
        present = graph.op("Greater", values, graph.constant([[0.0]]))
        graph.give(present, output, INT64)
        return
    if len(classes) == 2:
        first = graph.op("Reshape", values, graph.constant([-1], np.int64))
        index = graph.op("Cast", graph.op("Greater", first, graph.constant([0.0])), to=INT64)
    else:
        index = graph.op("ArgMax", values, axis=1, keepdims=0)
    name_classes(graph, index, classes, output)


def add_probabilities(
    graph: Graph,
    values: str,
    slope: np.ndarray,
    bias: np.ndarray,
    limit: np.ndarray,
    form: str,
    output: Any,
) -> None:
    """Probabilities by the log odds slope * value + bias; `form` says how those of several values belong together."""
    odds = graph.op("Gemm", values, graph.constant(np.diag(slope)), graph.constant(bias[None]))
    if np.any(np.isfinite(limit)):
        odds = limit_odds(graph, odds, limit, together=form == "softmax" and len(slope) > 1)
    if form == "labels":
        p = graph.op("Sigmoid", odds)
    elif len(slope) == 1:
        both = [graph.op("Sigmoid", graph.op("Neg", odds)), graph.op("Sigmoid", odds)]
        p = graph.op("Concat", *both, axis=1)
    elif form == "softmax":
        p = graph.op("Softmax", odds, axis=1)
    else:  # one against the rest, scaled to sum to 1
        alone = graph.op("Sigmoid", odds)
        p = graph.op("Div", alone, graph.op("Gemm", alone, graph.constant(np.ones((len(slope), 1)))))
    graph.finish(p, output)


def limit_odds(graph: Graph, odds: str, limit: np.ndarray, together: bool) -> str:
    """Log odds no larger than their limits, as `no_surer` has them; `together` where differences of them count."""
    if not together:
        return graph.op("Max", graph.op("Min", odds, graph.constant(limit[None])), graph.constant(-limit[None]))
    columns = [graph.op("Gather", odds, graph.constant([j], np.int64), axis=1) for j in range(len(limit))]
    size = graph.op("Sub", graph.op("Max", *columns), graph.op("Min", *columns))
    most = graph.constant([[limit[0]]])
    beyond, one = graph.op("Greater", size, most), graph.constant([[1.0]])
    share = graph.op("Div", most, graph.op("Where", beyond, size, one))
    return graph.op("Mul", odds, graph.op("Where", beyond, share, one))


def odds_of(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    """Slope, bias and limit of the log odds of values, and how these become probabilities of several classes."""
    q, form = width_of_coef(model), "softmax"
    none = np.full(q, np.inf)
    if isinstance(model, RefinedKMPClassifier):
        return np.ones(q), np.zeros(q), none, form
    log_odds = None
    if not isinstance(model, SparseKernelFDA):
        log_odds = classification_loss(model.loss).log_odds
    if log_odds is None:
        slope, bias, limit = model._line(q)
        return np.broadcast_to(slope, q), bias, np.broadcast_to(limit, q), form
    probe = np.array([0.0, 1.0, -3.0])[:, None] * np.ones(q)
    zero, one, other = (np.asarray(row, dtype=np.float64) for row in log_odds(probe))
    if not np.allclose(other, zero - 3 * (one - zero)):
        raise ValueError(f"loss={model.loss!r}: its probabilities have no form in ONNX here")
    return one - zero, zero, none, "one against the rest"

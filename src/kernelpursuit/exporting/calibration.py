"""Calibrated classifiers as nodes of an ONNX graph: decision values, calibrated, and the mean over the folds."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelpursuit.exporting.graphs import Graph, name_classes


def calibrated(graph: Graph, values: str, step: Any, operator: Any) -> None:
    """Probabilities from the decision values of each fold's classifier, and the class of the largest."""
    model = step.model
    inputs = [values, *(graph.double(variable.full_name) for variable in operator.inputs[1:])]
    found = [
        fold_probabilities(graph, values, fold)
        for values, fold in zip(inputs, model.calibrated_classifiers_, strict=True)
    ]
    total = graph.op("Sum", *found)
    mean = graph.op("Div", total, graph.constant([[float(len(found))]]))
    index = graph.op("ArgMax", mean, axis=1, keepdims=0)
    name_classes(graph, index, np.asarray(model.classes_), operator.outputs[0])
    graph.finish(mean, operator.outputs[1])


def fold_probabilities(graph: Graph, values: str, fold: Any) -> str:
    """Probabilities of all classes by one classifier, (n, classes), as scikit-learn makes them."""
    classes, own = np.asarray(fold.classes), np.asarray(fold.estimator.classes_)
    if len(own) == 2:  # the value of the second class, which is the last column of one or two
        values = graph.op("Gather", values, graph.constant([-1], np.int64), axis=1)
    if fold.method == "temperature":
        return tempered(graph, values, fold.calibrators[0].beta_, two=len(own) == 2)
    columns = []
    for j, calibrator in enumerate(fold.calibrators):
        column = graph.op("Gather", values, graph.constant([j], np.int64), axis=1)
        columns.append(
            sigmoid(graph, column, calibrator) if hasattr(calibrator, "a_") else isotonic(graph, column, calibrator)
        )
    alone = graph.op("Concat", *columns, axis=1)
    if len(classes) == 2:
        return graph.op("Gemm", alone, graph.constant([[-1.0, 1.0]]), graph.constant([[1.0, 0.0]]))
    places = np.searchsorted(classes, own)[: len(columns)]  # a fold may lack a class
    placed = graph.op("Gemm", alone, graph.constant(np.eye(len(classes))[places]))
    total = graph.op("Gemm", placed, graph.constant(np.ones((len(classes), 1))))
    is_zero = graph.op("Equal", total, graph.constant([[0.0]]))
    shares = graph.op("Div", placed, graph.op("Where", is_zero, graph.constant([[1.0]]), total))
    return graph.op("Where", is_zero, graph.constant(np.full((1, len(classes)), 1 / len(classes))), shares)


def sigmoid(graph: Graph, column: str, calibrator: Any) -> str:
    """1 / (1 + exp(a t + b))."""
    slope, bias = graph.constant([[-float(calibrator.a_)]]), graph.constant([[-float(calibrator.b_)]])
    return graph.op("Sigmoid", graph.op("Gemm", column, slope, bias))


def isotonic(graph: Graph, column: str, calibrator: Any) -> str:
    """Linear between knots, constant outside: each interval adds its rise times how far the value is through it."""
    x, y = (np.asarray(knots, dtype=np.float64) for knots in (calibrator.X_thresholds_, calibrator.y_thresholds_))
    if len(x) == 1:
        return graph.op("Gemm", column, graph.constant([[0.0]]), graph.constant([[y[0]]]))
    through = graph.op("Div", graph.op("Sub", column, graph.constant(x[None, :-1])), graph.constant(np.diff(x)[None]))
    through = graph.op("Max", graph.op("Min", through, graph.constant([[1.0]])), graph.constant([[0.0]]))
    return graph.op("Gemm", through, graph.constant(np.diff(y)[:, None]), graph.constant([[y[0]]]))


def tempered(graph: Graph, values: str, beta: float, two: bool) -> str:
    """Softmax of the values times a number; of two classes their values are -t and t."""
    if two:
        values = graph.op("Gemm", values, graph.constant([[-1.0, 1.0]]))
    return graph.op("Softmax", graph.op("Mul", values, graph.constant([[float(beta)]])), axis=1)

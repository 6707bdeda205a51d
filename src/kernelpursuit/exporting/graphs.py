"""Expansions as nodes of an ONNX graph, in double precision.

Products are Gemm, not MatMul: onnxruntime joins a MatMul and a multiplication into one operator whose factor has
single precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kernelpursuit.arrays import to_host

FLOAT, INT64, STRING, BOOL, DOUBLE = 1, 7, 8, 9, 11  # of onnx.TensorProto
NUMBERS = {np.dtype(np.float64): DOUBLE, np.dtype(np.int64): INT64}


class Graph:
    """Adds nodes to what skl2onnx is building; each operation returns the name of its result."""

    def __init__(self, scope: Any, container: Any):
        self.scope, self.container = scope, container

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Result of an operator of ONNX."""
        name = self.scope.get_unique_variable_name(kind)
        self.container.add_node(
            kind, list(inputs), [name], name=self.scope.get_unique_operator_name(kind), **attributes
        )
        return name

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """An array of numbers that is part of the graph."""
        array = np.ascontiguousarray(value, dtype=dtype)
        name = self.scope.get_unique_variable_name("constant")
        shape = list(np.shape(value))
        self.container.add_initializer(name, NUMBERS[array.dtype], shape, array.ravel().tolist())
        return name

    def texts(self, values: np.ndarray) -> str:
        """A list of texts that is part of the graph."""
        name = self.scope.get_unique_variable_name("constant")
        texts = [str(value).encode() for value in values]
        self.container.add_initializer(name, STRING, [len(values)], texts)
        return name

    def double(self, name: str) -> str:
        """A tensor in double precision."""
        return self.op("Cast", name, to=DOUBLE)

    def finish(self, name: str, output: Any) -> None:
        """Give a result, in double precision, to an output of the operator, in its own."""
        self.give(name, output, DOUBLE if type(output.type).__name__.startswith("Double") else FLOAT)

    def give(self, name: str, output: Any, dtype: int | None = None) -> None:
        """Give a result to an output of the operator, with another dtype if so wanted."""
        kind, options = ("Identity", {}) if dtype is None else ("Cast", {"to": dtype})
        unique = self.scope.get_unique_operator_name(kind)
        self.container.add_node(kind, [name], [output.full_name], name=unique, **options)


def name_classes(graph: Graph, index: str, classes: np.ndarray, output: Any) -> None:
    """Give the classes of indices to an output."""
    kind = classes.dtype.kind
    if kind in "UO":
        table = graph.texts(classes)
    else:
        table = graph.constant(classes, np.float64 if kind == "f" else np.int64)
    found = graph.op("Gather", table, index)
    graph.give(found, output, BOOL if kind == "b" else None)


def dense(values: Any) -> np.ndarray:
    """Host values in double precision."""
    return values.toarray().astype(np.float64) if sparse.issparse(values) else to_host(values)


def expansion_values(graph: Graph, X: str, expansion: Any, coef: np.ndarray | None = None) -> str:
    """``columns(X) @ coef[1:] + coef[0]`` of rows in double precision, (n, q)."""
    coef = np.asarray(expansion.coef if coef is None else coef, dtype=np.float64)
    if len(coef) == 1:  # the constant, for as many rows
        nothing = np.zeros((expansion.centers.shape[1], coef.shape[1]))
        return graph.op("Gemm", X, graph.constant(nothing), graph.constant(coef))
    columns = atom_columns(graph, X, expansion)
    return graph.op("Gemm", columns, graph.constant(coef[1:]), graph.constant(coef[:1]))


def atom_columns(graph: Graph, X: str, expansion: Any) -> str:
    """Values of the atoms, (n, k)."""
    if len(expansion.function_columns) or any(kernel.function is not None for kernel in expansion.kernels):
        raise ValueError("kernel or functions is a function of yours, which an ONNX graph cannot hold")
    if expansion.precomputed is not None:
        return graph.op("Gather", X, graph.constant(expansion.precomputed, np.int64), axis=1)
    centers, pieces, places = dense(expansion.centers), [], []
    for source in np.unique(expansion.sources):
        mine = np.flatnonzero(expansion.sources == source)
        pieces.append(kernel_values(graph, X, expansion.kernels[source], centers[mine], expansion))
        places.append(mine)
    if len(pieces) == 1:
        return pieces[0]
    order = np.argsort(np.concatenate(places))
    return graph.op("Gather", graph.op("Concat", *pieces, axis=1), graph.constant(order, np.int64), axis=1)


def kernel_values(graph: Graph, X: str, kernel: Any, Z: np.ndarray, expansion: Any) -> str:
    """Values of one kernel between rows and centres, (n, k)."""
    if kernel.name == "rbf":
        return gaussian_values(graph, X, kernel, Z, expansion)
    if kernel.name in ("laplacian", "chi2", "additive_chi2"):
        return by_coordinates(graph, X, kernel, Z)
    if kernel.name == "cosine":
        norms = np.sqrt(np.sum(Z * Z, axis=1, keepdims=True))
        Z = Z / np.where(norms > 0, norms, 1.0)
        length = graph.op("Sqrt", squared_lengths(graph, X, Z.shape[1]))
        is_zero = graph.op("Equal", length, graph.constant([[0.0]]))
        X = graph.op("Div", X, graph.op("Where", is_zero, graph.constant([[1.0]]), length))
    if kernel.name in ("linear", "cosine"):
        return graph.op("Gemm", X, graph.constant(Z.T))
    scaled = graph.op(
        "Gemm", X, graph.constant(kernel.params["gamma"] * Z.T), graph.constant([[float(kernel.params["coef0"])]])
    )
    if kernel.name == "sigmoid":
        return graph.op("Tanh", scaled)
    if kernel.name in ("poly", "polynomial"):
        return graph.op("Pow", scaled, graph.constant([[float(kernel.params.get("degree", 3))]]))
    raise ValueError(f"kernel={kernel.name!r} has no form in ONNX here")


def squared_lengths(graph: Graph, X: str, features: int) -> str:
    """Sum of squares of each row, (n, 1)."""
    return graph.op("Gemm", graph.op("Mul", X, X), graph.constant(np.ones((features, 1))))


def gaussian_values(graph: Graph, X: str, kernel: Any, Z: np.ndarray, expansion: Any) -> str:
    """exp(-γⱼ|w(x - zⱼ)|²), the exponent by products of centred rows: 2γⱼ x·zⱼ - γⱼ|x|² - γⱼ|zⱼ|², at most 0."""
    gammas = np.full(len(Z), kernel.params["gamma"]) if expansion.widths is None else to_host(expansion.widths)
    if kernel.offset is not None:
        offset = to_host(kernel.offset)
        X, Z = graph.op("Sub", X, graph.constant(offset[None])), Z - offset
    if expansion.input_weights is not None:
        weights = to_host(expansion.input_weights)
        X, Z = graph.op("Mul", X, graph.constant(weights[None])), Z * weights
    products = graph.op("Gemm", X, graph.constant(2 * gammas * Z.T), graph.constant(-gammas * np.sum(Z * Z, axis=1)))
    lengths = graph.op("Gemm", squared_lengths(graph, X, Z.shape[1]), graph.constant(gammas[None]))
    exponent = graph.op("Min", graph.op("Sub", products, lengths), graph.constant([[0.0]]))
    return graph.op("Exp", exponent)


def by_coordinates(graph: Graph, X: str, kernel: Any, Z: np.ndarray) -> str:
    """Kernels of sums over coordinates: |x - z|, or (x - z)² / (x + z)."""
    k, d = Z.shape
    rows = graph.op("Reshape", X, graph.constant([-1, 1, d], np.int64))
    centers = graph.constant(Z[None])
    difference = graph.op("Sub", rows, centers)
    if kernel.name == "laplacian":
        terms = graph.op("Abs", difference)
    else:
        total = graph.op("Add", rows, centers)
        is_zero = graph.op("Equal", total, graph.constant(np.zeros((1, 1, 1))))
        total = graph.op("Where", is_zero, graph.constant(np.ones((1, 1, 1))), total)  # 0 / 0 is 0
        terms = graph.op("Div", graph.op("Mul", difference, difference), total)
    summed = graph.op("MatMul", terms, graph.constant(np.ones((d, 1))))
    distances = graph.op("Neg", graph.op("Reshape", summed, graph.constant([-1, k], np.int64)))
    if kernel.name == "additive_chi2":
        return distances
    return graph.op("Exp", graph.op("Mul", distances, graph.constant([[kernel.params["gamma"]]])))

"""Converters of our estimators for skl2onnx."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from kernelpursuit._warning import warn
from kernelpursuit.arrays import on_host, to_host
from kernelpursuit.estimators.cca import SparseKernelCCA
from kernelpursuit.estimators.classification import KMPClassifier
from kernelpursuit.estimators.conformal import ConformalRegressor
from kernelpursuit.estimators.discriminant import SparseKernelFDA, coordinates
from kernelpursuit.estimators.faces import PolytopeFacesRegressor
from kernelpursuit.estimators.landmarks import PursuitNystroem
from kernelpursuit.estimators.novelty import SparseKernelNovelty
from kernelpursuit.estimators.pca import SparseKernelPCA
from kernelpursuit.estimators.ranker import KMPRanker
from kernelpursuit.estimators.regression import KMPRegressor
from kernelpursuit.estimators.widths import FeatureWidths
from kernelpursuit.exporting.classifiers import class_outputs, convert_classifier, width_of_coef
from kernelpursuit.exporting.graphs import (
    INT64,
    Graph,
    expansion_values,
    kernel_values,
    name_classes,
    squared_lengths,
)
from kernelpursuit.exporting.steps import (
    DiscriminantCoordinates,
    NumberImputer,
    convertible,
    is_ours,
    last_step,
)
from kernelpursuit.fitting.values import link_of
from kernelpursuit.kernels.kernels import SHIFT_INVARIANT
from kernelpursuit.losses import LOG
from kernelpursuit.refined.estimators import RefinedKMPClassifier, RefinedKMPRegressor

DTYPES = {"float64": "Double", "float32": "Float"}  # names of tensors in skl2onnx


def build_graph(model: Any, dtype: Any, target_opset: int | None) -> Any:
    """See `kernelpursuit.to_onnx`."""
    name = np.dtype(dtype).name
    if name not in DTYPES:
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r}")
    if not isinstance(model, BaseEstimator):
        of_table = "; of a model of a table give model.estimator: its graph takes what model.encode(table) returns"
        hint = of_table if hasattr(model, "encode") else ""
        raise TypeError(f"to_onnx takes a fitted estimator or Pipeline, got {type(model).__name__}{hint}")
    check_is_fitted(model)
    from skl2onnx import convert_sklearn

    register_converters()
    steps = convertible(model)
    last = last_step(steps)
    # Probabilities of scikit-learn's classifiers shall be arrays, not dictionaries.
    options = {id(last): {"zipmap": False}} if is_classifier(last) and not is_ours(last) else None
    initial = [("X", tensor_type(DTYPES[name])([None, model.n_features_in_]))]
    graph = convert_sklearn(steps, initial_types=initial, target_opset=target_opset, options=options)
    warn_if_unreadable(graph, name)
    return graph


def warn_if_unreadable(graph: Any, dtype: str) -> None:
    """Warn where onnxruntime, if it is installed, cannot load a graph: parts of it may be of scikit-learn."""
    try:
        import onnxruntime
    except ImportError:
        return
    silent = onnxruntime.SessionOptions()
    silent.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(graph.SerializeToString(), silent, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no class in common
        hint = (
            "; dtype='float32' may help: it has some operators in single precision alone" if dtype == "float64" else ""
        )
        warn(f"onnxruntime {onnxruntime.__version__} cannot load this graph{hint}. It says: {error}")


def tensor_type(name: str) -> Any:
    """A type of skl2onnx."""
    from skl2onnx.common import data_types

    return getattr(data_types, f"{name}TensorType")


@cache
def register_converters() -> None:
    """Tell skl2onnx of our estimators, once."""
    from skl2onnx import update_registered_converter

    for kind, (outputs, convert) in CONVERTERS.items():
        update_registered_converter(
            kind,
            f"Kernelpursuit{kind.__name__}",
            no_shapes,
            on_double_inputs(convert),
            parser=parser_of(outputs),
        )


def no_shapes(operator: Any) -> None:
    """Shapes are set when the outputs are declared."""


def on_double_inputs(convert: Any) -> Any:
    """A converter of skl2onnx around one of ours: rows arrive in double precision."""

    def run(scope: Any, operator: Any, container: Any) -> None:
        graph = Graph(scope, container)
        convert(graph, graph.double(operator.inputs[0].full_name), operator.raw_operator, operator)

    return run


def parser_of(outputs: Any) -> Any:
    """A parser of skl2onnx that declares the outputs of an estimator."""

    def parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
        operator = scope.declare_local_operator(f"Kernelpursuit{type(model).__name__}", model)
        number = type(inputs[0].type)
        operator.inputs = list(inputs)
        if isinstance(model, ConformalRegressor):
            operator.inputs = [inner_prediction(scope, part, inputs) for part in parts_of_conformal(model)]
        for name, kind, width in outputs(model):
            shape = [None] if width is None else [None, width]
            operator.outputs.append(
                scope.declare_local_variable(name, (number if kind is None else tensor_type(kind))(shape))
            )
        return operator.outputs

    return parse


def inner_prediction(scope: Any, model: Any, inputs: Any) -> Any:
    """Prediction of a model inside another; not an output of the graph, as which skl2onnx takes all that it parses."""
    from skl2onnx._parse import parse_sklearn

    found = parse_sklearn(scope, model, inputs)
    for variable in found:
        variable.init_status(is_leaf=False)
    return found[0]


def one_output(width: Any) -> Any:
    """The outputs of regressors and transformers."""
    return lambda model: [("variable", None, width(model))]


def convert_expansion(graph: Graph, X: str, model: Any, operator: Any) -> None:
    """Regressors and transformers that are nothing but an expansion."""
    values = expansion_values(graph, X, model._expansion)
    link = link_of(model.loss) if isinstance(model, KMPRegressor) else None
    if link is not None:
        if link is not LOG:
            raise ValueError(f"loss={model.loss!r}: its link has no form in ONNX here")
        values = graph.op("Exp", values)
    graph.finish(values, operator.outputs[0])


def convert_canonical(graph: Graph, X: str, model: Any, operator: Any) -> None:
    """Variates of the first view."""
    graph.finish(expansion_values(graph, X, model._x_expansion), operator.outputs[0])


def convert_discriminants(graph: Graph, X: str, step: Any, operator: Any) -> None:
    """Discriminant coordinates."""
    coef = coordinates(step.model._discriminants)
    graph.finish(expansion_values(graph, X, step.model._expansion, coef), operator.outputs[0])


def columns_with_numbers(step: Any) -> np.ndarray:
    """The columns that an imputer returns."""
    return np.flatnonzero(~np.isnan(np.asarray(step.model.statistics_, dtype=np.float64)))


def convert_imputer(graph: Graph, X: str, step: Any, operator: Any) -> None:
    """Missing numbers replaced; columns that had no number go."""
    kept = columns_with_numbers(step)
    X = graph.op("Gather", X, graph.constant(kept, np.int64), axis=1)
    values = graph.constant(step.model.statistics_[kept][None])
    graph.finish(graph.op("Where", graph.op("IsNaN", X), values, X), operator.outputs[0])


def convert_widths(graph: Graph, X: str, model: Any, operator: Any) -> None:
    """Inputs times their weights."""
    graph.finish(graph.op("Mul", X, graph.constant(to_host(model.weights_)[None])), operator.outputs[0])


def convert_novelty(graph: Graph, X: str, model: Any, operator: Any) -> None:
    """Minus the squared distance to the span of the chosen points less the threshold: negative for outliers."""
    span = model._span.expansion
    features = expansion_values(graph, X, span)
    inside = squared_lengths(graph, features, span.coef.shape[1])
    residual = graph.op("Max", graph.op("Sub", diagonal_values(graph, X, model), inside), graph.constant([[0.0]]))
    scores = graph.op("Sub", graph.op("Neg", residual), graph.constant([[model.offset_]]))
    flat = graph.op("Reshape", scores, graph.constant([-1], np.int64))
    outlying = graph.op("Less", flat, graph.constant([0.0]))
    index = graph.op("Cast", outlying, to=INT64)
    name_classes(graph, index, np.array([1, -1]), operator.outputs[0])
    graph.finish(scores, operator.outputs[1])


def diagonal_values(graph: Graph, X: str, model: Any) -> str:
    """k(x, x) of the rows, (n, 1)."""
    kernel, d = model._span.expansion.kernels[0], int(model.support_vectors_.shape[1])
    if kernel.name in SHIFT_INVARIANT:
        return graph.constant([[1.0]])
    if kernel.name == "additive_chi2":
        return graph.constant([[0.0]])
    if kernel.name == "chi2":
        return graph.constant([[1.0]])
    if kernel.name in ("linear", "poly", "polynomial", "sigmoid"):
        # The kernel of |x|² and 1, as numbers of one coordinate, is that of x and x.
        length = squared_lengths(graph, X, d)
        return kernel_values(graph, length, kernel, np.ones((1, 1)), model._span.expansion)
    raise ValueError(f"kernel={kernel.name!r} has no k(x, x) in ONNX here")


def parts_of_conformal(model: Any) -> list[Any]:
    """The fitted models inside a ConformalRegressor: of the values, and of their spread where it has one."""
    if model._columns is not None:
        raise ValueError("a ConformalRegressor of a precomputed kernel has no form in ONNX here")
    parts = [model.estimator_] if model.scale_estimator_ is None else [model.estimator_, model.scale_estimator_]
    return [convertible(part) for part in parts]


def conformal_outputs(model: Any) -> list[Any]:
    """The prediction, and an interval unless that is made of models without one row each."""
    ends = [] if model._left_out is not None else [("interval", None, 2)]
    return [("variable", None, 1), *ends]


def convert_conformal(graph: Graph, middle: str, model: Any, operator: Any) -> None:
    """The prediction, and the interval around it where that is a number of its units."""
    middle = graph.op("Reshape", middle, graph.constant([-1, 1], np.int64))
    graph.finish(middle, operator.outputs[0])
    if len(operator.outputs) == 1:
        return
    half = graph.constant([[model.quantile_]])
    if model.scale_estimator_ is not None:
        logarithm = graph.op("Reshape", graph.double(operator.inputs[1].full_name), graph.constant([-1, 1], np.int64))
        half = graph.op("Mul", graph.op("Exp", graph.op("Mul", logarithm, graph.constant([[0.5]]))), half)
    ends = [graph.op("Sub", middle, half), graph.op("Add", middle, half)]
    graph.finish(graph.op("Concat", *ends, axis=1), operator.outputs[1])


REGRESSORS = (KMPRegressor, KMPRanker, RefinedKMPRegressor, PolytopeFacesRegressor)
CLASSIFIERS = (KMPClassifier, RefinedKMPClassifier, SparseKernelFDA)
CONVERTERS: dict[Any, tuple[Any, Any]] = {
    **dict.fromkeys((*REGRESSORS, SparseKernelPCA, PursuitNystroem), (one_output(width_of_coef), convert_expansion)),
    **dict.fromkeys(CLASSIFIERS, (class_outputs, convert_classifier)),
    SparseKernelCCA: (one_output(lambda model: int(model._x_expansion.coef.shape[1])), convert_canonical),
    NumberImputer: (one_output(lambda step: len(columns_with_numbers(step))), convert_imputer),
    DiscriminantCoordinates: (one_output(lambda step: step.model._n_features_out), convert_discriminants),
    FeatureWidths: (one_output(lambda model: len(on_host(model.weights_))), convert_widths),
    SparseKernelNovelty: (lambda model: [("label", "Int64", None), ("scores", None, 1)], convert_novelty),
    ConformalRegressor: (conformal_outputs, convert_conformal),
}

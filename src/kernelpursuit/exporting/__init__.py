"""Fitted models as ONNX graphs, which run without Python; with the extra `onnx`."""

from __future__ import annotations

from typing import Any

__all__ = ["to_onnx"]


def to_onnx(model: Any, dtype: Any = "float64", target_opset: int | None = None) -> Any:
    """A fitted model as an ONNX graph.

    Kernel values and sums are computed in double precision, whatever that of the inputs: weights may be large and of
    both signs. The input is called "X". Regressors and transformers have one output, "variable"; classifiers have
    "label" and "probabilities"; `SparseKernelNovelty` has "label" and "scores", those of `decision_function`: negative
    for outliers; `ConformalRegressor` has "variable" and, where the intervals come from rows set aside, "interval".

    Outputs are those of the model to 1e-12 of their size (float32: 1e-4). Where large weights cancel, graph and model
    each differ from the exact sum by its rounding, 2e-16 times the sum of the absolute weights, and so from each other.
    Warns if onnxruntime is installed and cannot load the graph.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted; of this package, or a pipeline of its estimators and those that skl2onnx converts rightly.
    dtype : {"float64", "float32"}
        Precision of inputs and outputs.
    target_opset : int, optional
        Version of ONNX's operators; the newest that skl2onnx writes by default.

    Returns
    -------
    onnx.ModelProto
        ``SerializeToString()`` gives the bytes of the file.

    Raises
    ------
    ValueError
        For a kernel or functions of your own, which a graph cannot hold, and for what skl2onnx converts wrongly or
        nobody has compared: other estimators around ours (searches, calibration, bagging, stacks, votes, ...), of which
        the fitted models inside can be converted, and classifiers without `predict_proba`.

    Examples
    --------
    >>> import numpy as np, pytest
    >>> _ = pytest.importorskip("skl2onnx")
    >>> from kernelpursuit import KMPRegressor, to_onnx
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> graph = to_onnx(KMPRegressor(n_atoms=5).fit(X, X[:, 0]))
    >>> [output.name for output in graph.graph.output]
    ['variable']
    """
    from kernelpursuit.exporting.converters import build_graph

    try:
        return build_graph(model, dtype, target_opset)
    except ModuleNotFoundError as error:
        raise ImportError(f"to_onnx needs {error.name}: install kernelpursuit with its extra 'onnx'") from error

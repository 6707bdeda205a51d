"""Kernel models with as many terms as you choose."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> module. Loaded on first use, so that the command line answers `--help` at once.
_HOME = {
    "DenseDictionary": "atoms",
    "KernelDictionary": "atoms",
    "StackedDictionary": "atoms",
    "FeatureWidths": "estimators.widths",
    "KMPClassifier": "estimators.classification",
    "KMPRanker": "estimators.ranker",
    "KMPRegressor": "estimators.regression",
    "ConformalRegressor": "estimators.conformal",
    "RefinedKMPClassifier": "refined.estimators",
    "RefinedKMPRegressor": "refined.estimators",
    "refine": "refined.refine",
    "PursuitNystroem": "estimators.landmarks",
    "SparseKernelNovelty": "estimators.novelty",
    "SparseKernelPCA": "estimators.pca",
    "SparseKernelCCA": "estimators.cca",
    "CanonicalCorrelation": "criteria.cca",
    "Gradient": "criteria.gradient",
    "Rayleigh": "criteria.rayleigh",
    "Fisher": "criteria.fisher",
    "SparseKernelFDA": "estimators.discriminant",
    "PursuitSearchCV": "search.search",
    "Faces": "criteria.faces",
    "PolytopeFacesRegressor": "estimators.faces",
    "Squares": "criteria.squares",
    "BoundDisplay": "plots",
    "MovedCentersDisplay": "plots",
    "PursuitPathDisplay": "plots",
    "ResidualTraceDisplay": "plots",
    "SupportDisplay": "plots",
    "pursue": "pursuit.loop",
    "ModelFileError": "saving",
    "load": "saving",
    "save": "saving",
    "to_onnx": "exporting",
}

# Reachable after `import kernelpursuit` alone.
_MODULES = {"bounds", "atoms", "kernels", "losses", "parameters", "plots", "pursuit", "ranking"}
__all__ = sorted(_HOME)


def __dir__() -> list[str]:
    return sorted({"__version__", *_HOME, *_MODULES})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"kernelpursuit.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'kernelpursuit' has no attribute {name!r}")
    return getattr(import_module(f"kernelpursuit.{_HOME[name]}"), name)

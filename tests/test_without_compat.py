"""array-api-compat is optional: NumPy needs none, tensors are content with scikit-learn's copy."""

import subprocess
import sys

import pytest

NUMPY_ONLY = """
import sys
sys.modules["array_api_compat"] = None
from kernelpursuit import _array
def missing():
    raise ImportError("looked for")
_array._compat = missing
import numpy as np, pandas as pd
from scipy import sparse
import kernelpursuit as kp
X = np.random.default_rng(0).normal(size=(60, 2))
y = np.sin(X[:, 0])
for data in (X, X.tolist(), pd.DataFrame(X, columns=["a", "b"]), sparse.csr_array(X)):
    assert kp.KMPRegressor(8).fit(data, y).predict(data).shape == (60,)
    kp.KMPClassifier(5).fit(data, y > 0).predict(data)
    kp.SparseKernelPCA(5).fit(data).transform(data)
    kp.PursuitNystroem(n_components=5).fit(data).transform(data)
print("fits")
"""
TENSORS = """
import sys
sys.modules["array_api_compat"] = None
import torch
from sklearn import config_context
import kernelpursuit as kp
X = torch.linspace(0, 6, 100, dtype=torch.float64)[:, None]
with config_context(array_api_dispatch=True):
    print(type(kp.KMPRegressor(5).fit(X, torch.sin(X[:, 0])).predict(X)).__name__)
"""


def printed(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_numpy_data_need_no_compat():
    assert "fits" in printed(NUMPY_ONLY)


def test_tensors_need_only_the_copy_of_scikit_learn():
    pytest.importorskip("torch")
    pytest.importorskip("sklearn.externals.array_api_compat")
    assert "Tensor" in printed(TENSORS)

"""What a process of its own shows: what is imported and what is not, threads, models that another process saved.

array-api-compat is optional: NumPy needs none, tensors are content with scikit-learn's copy.
"""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelpursuit import KMPClassifier, KMPRegressor, save

FRESH = """
import sys
sys.modules["array_api_compat"] = None
from kernelpursuit import arrays
def missing():
    raise ImportError("looked for")
compat, arrays._compat = arrays._compat, missing
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
assert "dask" not in sys.modules and "distributed" not in sys.modules, "for NumPy data"
print("fits")

from kernelpursuit._sklearn import usable_threads
print(usable_threads(), "threads")

from pathlib import Path
here = Path(sys.argv[1])
X = np.load(here / "X.npy")
np.save(here / "alone.npy", kp.load(here / "alone").predict(X))
np.save(here / "joined.npy", kp.load(here / "joined").decision_function(X))

try:
    import torch, sklearn.externals.array_api_compat
except ImportError:
    print("no tensors")
else:
    arrays._compat = compat
    X = torch.linspace(0, 6, 100, dtype=torch.float64)[:, None]
    with sklearn.config_context(array_api_dispatch=True):
        print(type(kp.KMPRegressor(5).fit(X, torch.sin(X[:, 0])).predict(X)).__name__)
"""


def printed(script, *arguments):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fresh_process_without_compat(tmp_path):
    """NumPy data need neither compat nor Dask, tensors only scikit-learn's copy of compat.

    Threads are those it may use, and it predicts another process's bits.
    """
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    alone = KMPRegressor(n_atoms=8, alpha=1e-3).fit(X, y)
    joined = make_pipeline(StandardScaler(), KMPClassifier(n_atoms=5)).fit(X, np.where(y > 0, "yes", "no"))
    save(alone, tmp_path / "alone")
    save(joined, tmp_path / "joined")
    np.save(tmp_path / "X.npy", X)
    fits, threads, tensors = printed(FRESH, str(tmp_path)).splitlines()
    assert (fits, threads) == ("fits", "1 threads")
    if tensors == "no tensors":
        assert find_spec("torch") is None or find_spec("sklearn.externals.array_api_compat") is None
    else:
        assert tensors == "Tensor"
    np.testing.assert_array_equal(np.load(tmp_path / "alone.npy"), alone.predict(X))
    np.testing.assert_array_equal(np.load(tmp_path / "joined.npy"), joined.decision_function(X))

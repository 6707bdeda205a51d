"""With sampled candidates a step computes the columns that it looks at, and that of its atom."""

import numpy as np
import pytest

from kernelpursuit import KernelDictionary, Squares, pursue
from kernelpursuit.kernels import make_kernel
from kernelpursuit.pursuit import n_atoms
from kernelpursuit.pursuit.candidates import random_subset


class Counted(KernelDictionary):
    asked = 0

    def columns(self, J):
        self.asked += len(J)
        return super().columns(J)

    def exact_columns(self, J):
        if self._itemsize < 8:
            self.asked += len(J)
        return super().exact_columns(J)


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("variant", ["prefit", "backfit", "basic"])
def test_columns_computed(variant, dtype, alpha):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)).astype(dtype), rng.normal(size=80).astype(dtype)
    D = Counted(X, X, make_kernel("rbf", X, gamma=0.5), storage="tiles")
    run = Squares(D, y, variant=variant, alpha=alpha, weights=rng.random(80) + 0.5)
    path = pursue(run, n_atoms(6), random_subset(11, np.random.default_rng(1)))
    assert D.asked == 6 * (11 + 1)
    assert np.all(np.diff(path.values("loss")) <= 1e-12)
    coef = run.coef()[:, 0]
    atoms = list(dict.fromkeys(path.atoms.tolist()))
    fitted = coef[0] + D.kernel.between(X, X[atoms]) @ coef[1:]
    np.testing.assert_allclose(run.residual()[:, 0], y - fitted, atol=2e-5 if dtype == np.float32 else 1e-10)

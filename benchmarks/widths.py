"""FeatureWidths: time, and the evidence reached, beside two Gaussian processes with a width for each input.

Two peers in the same run. ``sgpr`` maximises the same bound on the same rows and landmarks, written in torch with
automatic gradients and its own L-BFGS, from one start; the difference of the evidence shows whether the weights are the
same. ``gpr`` is scikit-learn's GaussianProcessRegressor with an anisotropic RBF on the first 500 rows, since it cannot
take all of them.

Run: ``python benchmarks/widths.py [--rows 3000] [--inputs 8] [--device cpu] [--out FILE]``.
"""

from __future__ import annotations

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")

import warnings
from typing import Any

import numpy as np
import sklearn
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from _common import need_cuda, parser, seconds, show, write
from kernelpursuit import FeatureWidths
from kernelpursuit.estimators.width_evidence import JITTER

PEER_ROWS = 500


def bound(parameters: Any, X: Any, Z: Any, y: Any) -> Any:
    """The bound of Titsias for one target, as anybody would write it in torch."""
    import torch

    weights, signal, noise = parameters[:-2].exp(), parameters[-2].exp(), parameters[-1].exp()

    def kernel(a: Any, b: Any) -> Any:
        return signal * torch.exp(-(torch.cdist(a * weights, b * weights) ** 2))

    identity = torch.eye(len(Z), dtype=X.dtype, device=X.device)
    L = torch.linalg.cholesky(kernel(Z, Z) + JITTER * signal * identity)
    A = torch.linalg.solve_triangular(L, kernel(Z, X), upper=False) / noise.sqrt()
    LB = torch.linalg.cholesky(identity + A @ A.T)
    c = torch.linalg.solve_triangular(LB, (A @ y)[:, None], upper=False) / noise.sqrt()
    value = -0.5 * len(X) * noise.log() - LB.diagonal().log().sum() - 0.5 * (y @ y) / noise + 0.5 * (c * c).sum()
    deviation = parameters[:-2] - parameters[:-2].mean()
    return value - 0.5 * (len(X) * signal / noise - (A * A).sum()) - 0.5 * (deviation * deviation).sum()


def sgpr(X: np.ndarray, y: np.ndarray, landmarks: np.ndarray, device: str) -> tuple[float, np.ndarray]:
    """Evidence and weights by torch."""
    import torch

    X, Z, y = (torch.as_tensor(a, dtype=torch.float64, device=device) for a in (X, X[landmarks], y))
    p = X.shape[1]
    start = torch.cat([torch.full((p,), 0.5 * np.log(0.25 / p)), torch.tensor([0.0, np.log(0.3)])])
    parameters = start.to(X).requires_grad_(True)
    lbfgs = torch.optim.LBFGS([parameters], max_iter=100, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> Any:
        lbfgs.zero_grad()
        loss = -bound(parameters, X, Z, y)
        loss.backward()
        return loss

    lbfgs.step(closure)
    with torch.no_grad():
        return float(bound(parameters, X, Z, y)), parameters[:-2].exp().cpu().numpy()


def gpr(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Weights by scikit-learn."""
    kernel = ConstantKernel(1.0) * RBF(np.full(X.shape[1], np.sqrt(X.shape[1]))) + WhiteKernel(0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = GaussianProcessRegressor(kernel).fit(X, y).kernel_
    return 1 / (np.sqrt(2) * found.k1.k2.length_scale)


def measure(rows: int, inputs: int, noise: float, device: str) -> dict[str, Any]:
    """One row of the record."""
    X, y = make_friedman1(rows, inputs, noise=noise, random_state=0)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    where = X
    if device != "cpu":
        import torch

        where = torch.as_tensor(X, device=device)
        FeatureWidths(20, random_state=0, max_rows=200).fit(where, y)  # starts the device's libraries
    took, widths = seconds(lambda: FeatureWidths(random_state=0).fit(where, y))
    weights = np.asarray(widths.weights_ if device == "cpu" else widths.weights_.cpu())
    rng = np.random.default_rng(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    landmarks = rng.permutation(rows)[:150]  # those that FeatureWidths draws
    sgpr_took, (sgpr_evidence, sgpr_weights) = seconds(lambda: sgpr(X, y, landmarks, device))
    gpr_took, gpr_weights = seconds(lambda: gpr(X[:PEER_ROWS], y[:PEER_ROWS]))
    return {
        "rows": rows, "inputs": inputs, "noise": noise, "device": device,
        "seconds": took, "sgpr_seconds": sgpr_took, "gpr_seconds": gpr_took,
        "sgpr_ratio": sgpr_took / took, "gpr_ratio": gpr_took / took, "gpr_rows": PEER_ROWS,
        "evidence": widths.evidence_, "sgpr_evidence": sgpr_evidence,
        "largest_difference_to_sgpr": float(np.max(np.abs(weights[:5] / sgpr_weights[:5] - 1))),
        "weights": weights.round(4).tolist(), "gpr_weights": gpr_weights.round(4).tolist(),
    }  # fmt: skip


def main() -> None:
    """Three levels of noise; without any, the peer's noise variance falls below the least that FeatureWidths takes."""
    made = parser(__doc__, "widths")
    made.add_argument("--device", default="cpu")
    made.add_argument("--rows", type=int, default=3000)
    made.add_argument("--inputs", type=int, default=8)
    args = made.parse_args()
    if args.device == "cuda":
        need_cuda()
    records = []
    with sklearn.config_context(array_api_dispatch=args.device != "cpu"):
        for noise in (1.0, 0.1, 0.0):
            records.append(measure(args.rows, args.inputs, noise, args.device))
            show(records[-1])
    write(records, args.out)


if __name__ == "__main__":
    main()

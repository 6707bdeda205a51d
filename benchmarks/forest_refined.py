"""Forest cover (class 2 against the rest): refined pursuit on 50,000 rows or all, on the host or a GPU.

    python benchmarks/forest_refined.py --rows 50000 --terms 600 2000
    python benchmarks/forest_refined.py --rows 551012 --terms 4000 --device cuda --epochs 60
    python benchmarks/forest_refined.py --rows 50000 --terms 600 --svc     # support vectors in the same run

Prints error on 30,000 other rows, seconds of the fit, choice included, and of 10,000 predictions.
"""

from __future__ import annotations

import os
from time import perf_counter
from typing import Any

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before SciPy is imported: tensors need it

import numpy as np
from sklearn import config_context
from sklearn.preprocessing import StandardScaler

from _common import forest_cover, need_cuda, parser, place, show, write
from kernelpursuit import RefinedKMPClassifier

TEST_ROWS, PREDICTED_ROWS = 30_000, 10_000


def wait(device: str) -> None:
    """Until the device has done what it was asked for."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def fitted(model: Any, X: Any, y: Any, X_test: np.ndarray, y_test: np.ndarray, device: str) -> dict[str, Any]:
    """Error and times of a model."""
    start = perf_counter()
    model.fit(place(X, device), y)
    wait(device)
    fit = perf_counter() - start
    wrong = []
    for part in range(0, len(X_test), PREDICTED_ROWS):
        rows = place(X_test[part : part + PREDICTED_ROWS], device)
        start = perf_counter()
        labels = model.predict(rows)
        wait(device)
        predict = perf_counter() - start
        labels = labels if isinstance(labels, np.ndarray) else labels.cpu().numpy()
        wrong.append(labels != y_test[part : part + PREDICTED_ROWS])
    return {"error": float(np.mean(np.concatenate(wrong))), "fit": fit, "predict": predict}


def support_vectors() -> Any:
    """SVC of scikit-learn-intelex where it is installed, else scikit-learn's."""
    try:
        from sklearnex.svm import SVC
    except ModuleNotFoundError:
        from sklearn.svm import SVC
    return SVC(C=10, gamma=1.0)


def main() -> None:
    """Fit and print."""
    options = parser(__doc__, "forest_refined")
    options.add_argument("--rows", type=int, default=50_000)
    options.add_argument("--terms", nargs="+", type=int, default=[600])
    options.add_argument("--epochs", nargs="+", default=["auto"])
    options.add_argument("--device", default="cpu")
    options.add_argument("--inputs", type=int, default=54, help="10 leaves out the indicators of soil and wilderness")
    options.add_argument("--dtype", default="float32")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--svc", action="store_true", help="also fit support vectors")
    options.add_argument("--verbose", type=int, default=0)
    arguments = options.parse_args()
    if arguments.device != "cpu":
        need_cuda()
    X, y = forest_cover(arguments.data)
    X = X[:, : arguments.inputs].astype(arguments.dtype)
    order = np.random.default_rng(arguments.seed).permutation(len(X))
    test, train = order[:TEST_ROWS], order[TEST_ROWS : TEST_ROWS + arguments.rows]
    results = []
    if arguments.device != "cpu":  # the first call of a device pays for its start
        with config_context(array_api_dispatch=True):
            RefinedKMPClassifier(n_atoms=20, epochs=1, random_state=0).fit(place(X[:4000], arguments.device), y[:4000])
    for k in arguments.terms:
        for epochs in arguments.epochs:
            model = RefinedKMPClassifier(
                n_atoms=k,
                epochs=epochs if epochs == "auto" else int(epochs),
                random_state=arguments.seed,
                verbose=arguments.verbose,
            )
            with config_context(array_api_dispatch=arguments.device != "cpu"):
                record = fitted(model, X[train], y[train], X[test], y[test], arguments.device)
            what = {"rows": len(train), "terms": len(model.widths_), "epochs": model.n_iter_}
            results.append(what | {"device": arguments.device, "seed": arguments.seed} | record)
            show(results[-1])
            write(results, arguments.out)
    if arguments.svc:
        scaler = StandardScaler().fit(X[train])
        model = support_vectors()
        record = fitted(model, scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test], "cpu")
        results.append({"rows": len(train), "terms": len(model.support_), "model": type(model).__module__} | record)
        show(results[-1])
        write(results, arguments.out)


if __name__ == "__main__":
    main()

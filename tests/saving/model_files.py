"""Writes the model files of the present version of the format that tests keep: ``python -m tests.saving.model_files``.

Run when the version is raised; the files of earlier versions stay as they are.
"""

from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelpursuit import KMPClassifier, KMPRegressor, RefinedKMPRegressor, save
from kernelpursuit.saving.tensors import VERSION

HERE = Path(__file__).parent
ROWS = np.stack(np.meshgrid(np.linspace(-1, 1, 5), np.linspace(0, 2, 4)), axis=-1).reshape(-1, 2)


def output(model):
    """What is compared."""
    values = model.decision_function(ROWS) if hasattr(model, "decision_function") else model.predict(ROWS)
    return np.asarray(values)


def models():
    X = np.random.default_rng(0).uniform([-1, 0], [1, 2], size=(60, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1]
    classes = np.array(["low", "middle", "high"])[np.searchsorted([0.5, 1.5], y)]
    return {
        "kmp": KMPRegressor(n_atoms=4).fit(X, y),
        "classes": KMPClassifier(n_atoms=4, loss="log_loss").fit(X, classes),
        "refined": RefinedKMPRegressor(n_atoms=4, random_state=0).fit(X, y),
        "pipeline": make_pipeline(StandardScaler(), KMPClassifier(n_atoms=4)).fit(X, classes),
    }


def main():
    for name, model in models().items():
        kept = f"v{VERSION}-{name}"
        for folder in ("model_files", "model_outputs"):
            (HERE / folder).mkdir(exist_ok=True)
        save(model, HERE / "model_files" / kept)
        np.save(HERE / "model_outputs" / f"{kept}.npy", output(model))


if __name__ == "__main__":
    main()

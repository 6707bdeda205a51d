"""
A width for each input
======================

A Gaussian kernel treats all inputs alike. If only some of them matter, that wastes terms.
:class:`~kernelpursuit.FeatureWidths` learns from y what each input should be multiplied by; a pursuit behind it needs
far fewer terms.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelpursuit import FeatureWidths, KMPRegressor, PursuitPathDisplay
from kernelpursuit.plots import METHOD_COLOURS

rng = np.random.default_rng(0)
units = np.array([1, 1000, 1e-3, 1, 1, 1, 1, 1])
X = rng.normal(size=(2000, 8)) * units
y = np.sin(2 * X[:, 0]) + X[:, 1] / 1000 * np.tanh(X[:, 2] * 1000) + 0.1 * rng.normal(size=2000)
X, X_new, y, y_new = X[:600], X[600:], y[:600], y[600:]

models = {
    "standardised inputs": make_pipeline(StandardScaler(), KMPRegressor(80, gamma=1 / 8)),
    "FeatureWidths": make_pipeline(FeatureWidths(random_state=0), KMPRegressor(80, gamma=1.0)),
}
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), width_ratios=(1, 1.5), layout="constrained")
for model in models.values():
    model.fit(X, y)
weights = models["FeatureWidths"][0].weights_ * X.std(axis=0)
left.barh(range(8), weights, color=[METHOD_COLOURS["KMP"]] * 3 + ["0.7"] * 5)
left.invert_yaxis()
left.set(title="Weights, per standard deviation", xlabel="weight", ylabel="input", yticks=range(8))
curves = {}
for name, model in models.items():
    rows = model[:-1].transform(X_new)
    curves[name] = (np.arange(1, 81), np.array([np.mean((p - y_new) ** 2) for p in model[-1].staged_predict(rows)]))
PursuitPathDisplay(curves, baseline=("noise", 0.01), error_name="mean squared error on new rows").plot(
    right, yscale="log"
)
right.set_title("Error against the number of terms")
fig.suptitle("Three of eight inputs matter, in units as they come")

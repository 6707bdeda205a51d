"""
Targets with outliers
=====================

With the squared loss a few wrong targets pull the whole curve. ``loss="huber"`` counts a large error once, not
squared.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelpursuit import KMPRegressor
from kernelpursuit.plots import METHOD_COLOURS

rng = np.random.default_rng(3)
X = np.sort(rng.uniform(0, 6, size=(150, 1)), axis=0)
truth = np.sin(1.5 * X[:, 0])
y = truth + 0.1 * rng.normal(size=150)
wrong = rng.choice(150, 22, replace=False)
y[wrong] += rng.exponential(4, size=22)

line = np.linspace(0, 6, 300)[:, None]
fig, ax = plt.subplots(figsize=(8, 4.4), layout="constrained")
ax.plot(X[:, 0], y, ".", color="0.55", label="rows, 22 of 150 with a wrong target")
ax.plot(line[:, 0], np.sin(1.5 * line[:, 0]), "--", color="black", lw=1, label="truth")
for loss, colour in (("squared_error", METHOD_COLOURS["SVM"]), ("huber", METHOD_COLOURS["KMP"])):
    model = KMPRegressor(8, loss=loss, gamma=0.5).fit(X, y)
    error = np.sqrt(np.mean((model.predict(X) - truth) ** 2))
    ax.plot(
        line[:, 0], model.predict(line), color=colour, lw=2, label=f'loss="{loss}": distance to the truth {error:.2f}'
    )
ax.set(xlabel="x", ylabel="y", title="Eight terms, two losses", ylim=(-1.6, 6))
ax.legend(loc="upper right", fontsize=9)

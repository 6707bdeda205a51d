"""
What can be promised
====================

A bound is a promise about the error on new rows, made before any is seen. Most bounds of this family promise less
than tossing a coin. The *certificate* holds some rows out and promises something useful.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from kernelpursuit import BoundDisplay, KMPClassifier
from kernelpursuit.bounds import vc_bound
from kernelpursuit.parameters import certificate

X, y = make_moons(4000, noise=0.25, random_state=0)
X, X_new, y, y_new = X[:1000], X[1000:], y[:1000], y[1000:]
model = KMPClassifier(40, gamma=2.0, stop=certificate(patience=40), random_state=0).fit(X, y)
promised = model.path_.values("bound")[-1]
print(f"{len(model.support_)} terms; with probability 95 % the error is at most {promised:.3f}")
print(f"error on {len(y_new)} new rows: {1 - model.score(X_new, y_new):.3f}")

# %%
# The same for every number of terms. The dip is at the number that the training rows prefer: it gets most of the
# probability with which the promise may fail. Beside it is a bound that holds no rows out, by Vapnik and Chervonenkis,
# as the paper printed it and as its proof gives it. Where it is above 1 it promises nothing.
full = KMPClassifier(40, gamma=2.0, alpha=0.0).fit(X, y)
steps = [*model.path_.steps, *model.path_.discarded]
k = np.arange(1, min(len(steps), 40) + 1)
staged = list(full.staged_predict(X))
outside = [np.setdiff1d(np.arange(1000), full.support_[:i]) for i in k]
errors = np.array([np.sum(staged[i - 1][rows] != y[rows]) for i, rows in zip(k, outside, strict=True)])
new_errors = np.array([np.mean(p != y_new) for p in list(full.staged_predict(X_new))])[k - 1]
curves = {
    "certificate (rows held out)": np.array([steps[i - 1].bound for i in k]),
    "VC, corrected": vc_bound(k, n=1000, errors=errors, dimension=k + 1, n_comparisons=1),
    "VC, as printed": vc_bound(k, n=1000, errors=errors, dimension=k + 1, n_comparisons=1, form="paper"),
}
fig, ax = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
BoundDisplay(k, curves, observed={"error on new rows": new_errors}).plot(ax, yscale="log")
ax.set_title("What can be promised of the error rate, with probability 95 %")

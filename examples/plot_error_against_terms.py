"""
Error against the number of terms
=================================

What does a term buy, and what does it cost to predict? A pursuit, a refined pursuit, and other models on one made-up
regression problem with ten inputs, of which five matter. The horizontal axis counts what prediction has to evaluate:
kernel functions, or leaves of trees.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from kernelpursuit import KMPRegressor, RefinedKMPRegressor
from kernelpursuit.plots import METHOD_COLOURS

X, y = make_friedman1(3000, noise=1.0, random_state=0)
X = StandardScaler().fit_transform(X)
X, X_new, y, y_new = X[:800], X[800:], y[:800], y[800:]


def measure(model):
    """Root of the mean squared error on new rows, and microseconds for a prediction of each."""
    took = []
    for _ in range(7):
        start = perf_counter()
        prediction = model.predict(X_new)
        took.append(perf_counter() - start)
    return np.sqrt(np.mean((prediction - y_new) ** 2)), 1e6 * min(took) / len(X_new)


sizes = [4, 8, 16, 32, 64, 128]
results = {name: [] for name in ("KMP", "Nyström", "refined KMP")}
path = KMPRegressor(n_atoms=max(sizes), gamma=0.05, alpha=1e-2).fit(X, y)
for k in sizes:
    results["KMP"].append((k, *measure(path.truncate(k))))
    landmarks = make_pipeline(Nystroem(gamma=0.05, n_components=k, random_state=0), RidgeCV(np.logspace(-6, 2, 9)))
    results["Nyström"].append((k, *measure(landmarks.fit(X, y))))
for k in sizes[:4]:
    results["refined KMP"].append((k, *measure(RefinedKMPRegressor(n_atoms=k, random_state=0).fit(X, y))))
svm = SVR(C=100, gamma=0.05, epsilon=0.3).fit(X, y)
results["SVM"] = [(len(svm.support_), *measure(svm))]
boosting = HistGradientBoostingRegressor(random_state=0).fit(X, y)
leaves = sum(int(tree[0].nodes["is_leaf"].sum()) for tree in boosting._predictors)
results["boosting"] = [(leaves, *measure(boosting))]

fig, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
labels = {"SVM": "SVM (SVR)", "boosting": "boosting (leaves of trees)", "Nyström": "Nyström + ridge"}
for name, points in results.items():
    terms, errors, times = np.transpose(points)
    style = {
        "color": METHOD_COLOURS[name],
        "marker": "o" if len(points) > 1 else "D",
        "label": labels.get(name, name),
        "lw": 2,
    }
    axes[0].loglog(terms, errors, **style)
    axes[1].loglog(times, errors, **style)
for ax, label in zip(axes, ("terms", "microseconds for one prediction"), strict=True):
    ax.axhline(1.0, color="0.6", lw=1, ls=":")
    ax.set_xlabel(label)
    ax.set_yticks([1, 1.5, 2, 3, 4, 5], ["1", "1.5", "2", "3", "4", "5"])
    ax.minorticks_off()
axes[0].set_ylabel("root mean squared error (noise: 1)")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
fig.suptitle("Error on new rows against terms and against prediction time")

"""
Landmarks that are chosen
=========================

``Nystroem`` draws landmarks at random. :class:`~kernelpursuit.PursuitNystroem` chooses each one where the kernel
matrix is explained worst so far, and needs fewer of them for the same quality. It has the same parameters and can
take its place in a pipeline.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from kernelpursuit import PursuitNystroem, ResidualTraceDisplay
from kernelpursuit.plots import METHOD_COLOURS

X, _ = make_blobs(
    [400, 120, 40, 15], centers=[[0, 0], [5, 1], [2, 5], [6, 6]], cluster_std=[1, 0.7, 0.5, 0.3], random_state=0
)
settings = {"gamma": 0.5, "n_components": 40, "random_state": 0}
chosen = PursuitNystroem(**settings).fit(X)
drawn = Nystroem(**settings).fit(X)

fig, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharex=True, sharey=True, layout="constrained")
for ax, model, title, colour in (
    (axes[0], drawn, "drawn at random", METHOD_COLOURS["Nyström"]),
    (axes[1], chosen, "chosen by pursuit", METHOD_COLOURS["KMP"]),
):
    ax.plot(*X.T, ".", color="0.75", ms=4)
    ax.plot(*model.components_[:20].T, "o", color=colour, mec="white", ms=9)
    ax.set(title=f"20 landmarks {title}", xlabel="feature 0")
axes[0].set_ylabel("feature 1")
fig.suptitle("Random landmarks crowd where points are many; chosen ones cover the data")

# %%
# What is left of the kernel matrix, on a logarithmic axis. No choice of k landmarks can do better than the sum of the
# smallest eigenvalues.
K = rbf_kernel(X, gamma=0.5)
rows = drawn.component_indices_
left = [
    np.trace(K) - np.trace(K[:, rows[:k]] @ np.linalg.solve(K[np.ix_(rows[:k], rows[:k])], K[rows[:k]]))
    for k in range(41)
]
eigenvalues = np.sort(np.linalg.eigvalsh(K))[::-1]
best = eigenvalues.sum() - np.concatenate([[0], np.cumsum(eigenvalues[:40])])
display = ResidualTraceDisplay.from_estimator(
    chosen,
    name="chosen by pursuit",
    compare={"drawn at random": left, "no landmarks can do better": best},
)
display.lines_["drawn at random"].set_color(METHOD_COLOURS["Nyström"])
display.lines_["no landmarks can do better"].set_color("0.4")
display.ax_.legend(fontsize=9)  # in these colours
display.ax_.set_title("What the landmarks do not explain")

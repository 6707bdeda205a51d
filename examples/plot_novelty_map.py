"""
A map of novelty
================

:class:`~kernelpursuit.SparseKernelNovelty` asks how far a new point is from the span of a few chosen points. Dark is
normal, light is new. The line is the threshold: with ``validation_fraction`` it is set on rows held out, so that
about the share ``contamination`` of new normal points falls outside.
"""

import matplotlib.pyplot as plt
import numpy as np

from kernelpursuit import SparseKernelNovelty

rng = np.random.default_rng(4)
angle = rng.uniform(0, 1.6 * np.pi, 500)
ring = np.column_stack([np.cos(angle), np.sin(angle)]) * rng.normal(2, 0.12, size=(500, 1))
X = np.vstack([ring, rng.normal([0.2, -0.1], 0.25, size=(250, 2))])
model = SparseKernelNovelty(n_atoms=40, gamma=1.5, contamination=0.05, validation_fraction=0.3, random_state=0).fit(X)

line = np.linspace(-3.2, 3.2, 140)
grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
distance = -model.score_samples(grid).reshape(140, 140)

fig, ax = plt.subplots(figsize=(7, 6.2), layout="compressed")
shade = ax.contourf(line, line, distance, levels=np.linspace(0, 1, 21), cmap="cividis")
ax.contour(line, line, distance, levels=[-model.offset_], colors="#D55E00", linewidths=2)
ax.plot(*X.T, ".", color="white", ms=2.5, alpha=0.7, label="normal points")
ax.plot(*model.support_vectors_.T, "o", mfc="none", mec="#56B4E9", mew=1.6, ms=9, label="chosen points")
visitors = np.array([[0.0, 1.1], [1.35, -1.5], [2.5, 2.4], [-2.0, 0.1]])
for point, verdict in zip(visitors, model.predict(visitors), strict=True):
    ax.plot(*point, "X", color="#D55E00" if verdict == -1 else "#009E73", mec="white", ms=12)
ax.plot([], [], "X", color="#D55E00", label="new point: an outlier")
ax.plot([], [], "X", color="#009E73", label="new point: normal")
ax.plot([], [], color="#D55E00", lw=2, label="threshold")
ax.set(
    title="Squared distance to the span of the chosen points", xlabel="feature 0", ylabel="feature 1", aspect="equal"
)
fig.legend(loc="outside lower center", ncols=3, facecolor="0.85")
fig.colorbar(shade, ax=ax, pad=0.02, label="0: explained by normal points. 1: nothing in common")
fresh = np.vstack(
    [
        np.column_stack([np.cos(angle), np.sin(angle)]) * rng.normal(2, 0.12, size=(500, 1)),
        rng.normal([0.2, -0.1], 0.25, size=(250, 2)),
    ]
)
print(f"fresh normal points called outliers: {np.mean(model.predict(fresh) == -1):.1%} (asked for 5 %)")

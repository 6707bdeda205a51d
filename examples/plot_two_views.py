"""
Canonical correlation of two views
==================================

The upper half of a handwritten digit tells something about its lower half. :class:`~kernelpursuit.SparseKernelCCA`
finds what the two halves have in common, without being told which digit it is, from a few chosen images.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelpursuit import SparseKernelCCA

X, digit = load_digits(n_class=5, return_X_y=True)
upper, lower = X[:, :32] / 16, X[:, 32:] / 16
train, new = np.arange(0, len(X), 2), np.arange(1, len(X), 2)
model = SparseKernelCCA(n_atoms=60, n_components=2, gamma=0.1, alpha=0.01).fit(upper[train], lower[train])
seen_above, seen_below = model.transform(upper[new], lower[new])
correlations = [float(np.corrcoef(a, b)[0, 1]) for a, b in zip(seen_above.T, seen_below.T, strict=True)]
print("correlation of the two views on new images:", np.round(correlations, 2))

# %%
# Left: the common directions, seen from the upper halves alone. Right: the same digits, seen from the lower halves
# alone. The two pictures agree. Zeros,
# fours and ones come apart, though no label was used; twos and threes stay together.
fig, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharex=True, sharey=True, layout="constrained")
colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"]
for ax, seen, half in ((axes[0], seen_above, "upper"), (axes[1], seen_below, "lower")):
    for value, colour in enumerate(colours):
        rows = digit[new] == value
        ax.scatter(*seen[rows].T, s=0)
        for point in seen[rows][:45]:
            ax.text(*point, str(value), color=colour, fontsize=9, ha="center", va="center")
    ax.set(title=f"From the {half} halves", xlabel="first canonical direction")
axes[0].set_ylabel("second canonical direction")
fig.suptitle(f"New digits from either half: correlations {correlations[0]:.2f} and {correlations[1]:.2f}")

# %%
# The first objects that the pursuit chose: typical images of each kind.
fig, axes = plt.subplots(1, 12, figsize=(9, 1.3), layout="constrained")
for ax, row in zip(axes, model.support_, strict=False):
    ax.imshow(X[train][row].reshape(8, 8), cmap="gray_r")
    ax.set_axis_off()
fig.suptitle("The first twelve chosen images")

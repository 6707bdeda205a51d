"""
Centres that move
=================

A pursuit can only use training points as centres, all of one width. :class:`~kernelpursuit.RefinedKMPRegressor`
starts there, then moves the centres, gives each term a width of its own and each input a weight. The picture shows
eight terms before and after. The third input is noise: its weight goes to almost nothing.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse

from kernelpursuit import KMPRegressor, MovedCentersDisplay, RefinedKMPRegressor
from kernelpursuit.plots import METHOD_COLOURS


def truth(X):
    """A ridge that curves, and a bump."""
    a, b = X[:, 0], X[:, 1]
    return np.exp(-2 * (b - np.sin(2 * a)) ** 2) + 0.8 * np.exp(-4 * ((a + 1) ** 2 + (b - 1.2) ** 2))


rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(700, 3))
y = truth(X) + 0.05 * rng.normal(size=700)
X_new = rng.uniform(-2, 2, size=(2000, 3))

plain = KMPRegressor(n_atoms=8, gamma=0.7).fit(X, y)
refined = RefinedKMPRegressor(n_atoms=8, random_state=0).fit(X, y)
for name, model in (("plain", plain), ("refined", refined)):
    error = np.sqrt(np.mean((model.predict(X_new) - truth(X_new)) ** 2))
    print(f"{name:8} error {error:.3f}")
print("weights of the inputs:", refined.input_weights_.round(2))

# %%
# Rings are drawn where a term has fallen to exp(-1/2) of its height; where a ring is an ellipse, the two inputs have
# different weights.
# Dotted rings are terms with a negative weight.
line = np.linspace(-2, 2, 90)
grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
flat = np.column_stack([grid, np.zeros(len(grid))])
panels = [
    ("The function to learn", truth(flat), None),
    (
        "8 training points as centres",
        plain.predict(flat),
        (plain.support_vectors_, np.full(8, plain.gamma_), np.ones(3), plain.dual_coef_),
    ),
    (
        "8 centres that moved",
        refined.predict(flat),
        (refined.centers_, refined.widths_, refined.input_weights_, refined.dual_coef_),
    ),
]
fig, axes = plt.subplots(1, 3, figsize=(11, 4.2), sharey=True, layout="compressed")
for ax, (title, values, terms) in zip(axes, panels, strict=True):
    ax.contourf(line, line, values.reshape(90, 90), levels=np.linspace(-0.4, 1.4, 19), cmap="cividis", extend="both")
    ax.set(title=title, xlabel="input 0", xlim=(-2, 2), ylim=(-2, 2), aspect="equal")
    if terms is None:
        continue
    colour = METHOD_COLOURS["KMP" if terms[0] is plain.support_vectors_ else "refined KMP"]
    for centre, width, weights, coef in zip(terms[0], terms[1], [terms[2]] * 8, terms[3], strict=True):
        size = 2 / np.sqrt(2 * width) / weights[:2]
        ax.add_patch(Ellipse(centre[:2], *size, fill=False, lw=1.6, ec="white", ls="-" if coef > 0 else ":"))
        ax.plot(*centre[:2], "o", color=colour, mec="white", ms=8)
axes[0].set_ylabel("input 1")

# %%
# Where each centre came from: a line leads from the training row that the pursuit chose to where the term ended.
display = MovedCentersDisplay.from_estimator(refined, X, features=(0, 1))
display.ax_.set_title("From the chosen rows to the places where they serve best")

"""
A path that grows
=================

Matching pursuit adds one training point at a time, always the one that lowers the error most. Here it learns two
moons. Ringed points are the centres of the terms, numbered in the order they were chosen. Play the animation: four
terms see the shape, ten see the details, and after that little changes.
"""

import matplotlib.pyplot as plt
from matplotlib.animation import FuncAnimation
from sklearn.datasets import make_moons
from sklearn.model_selection import train_test_split

from kernelpursuit import KMPClassifier, PursuitPathDisplay, SupportDisplay

X, y = make_moons(500, noise=0.28, random_state=3)
X, X_new, y, y_new = train_test_split(X, y, test_size=250, random_state=0)
model = KMPClassifier(n_atoms=24, gamma=2.0).fit(X, y)

# %%
# One fit holds the models of all smaller sizes: ``model.truncate(k)`` is the model of the first k steps. Nothing is
# fitted again while the animation is drawn.
sizes = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 21, 24]
fig, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")


def draw(k):
    """The model of k terms."""
    ax.clear()
    part = model.truncate(k)
    SupportDisplay.from_estimator(part, X, y, resolution=60, ax=ax)
    ax.set_title(f"{k} {'term' if k == 1 else 'terms'}: {part.score(X_new, y_new):.0%} of new points right")


draw(sizes[0])
animation = FuncAnimation(fig, draw, frames=sizes, interval=700)

# %%
# The error of new points falls quickly, then stays. ``n_atoms="auto"`` finds a number without looking at new points:
auto = KMPClassifier(gamma=2.0).fit(X, y)
display = PursuitPathDisplay.from_estimator(model, X_new, y_new)
display.ax_.set_title("Error along the path, on new points")
print(f'n_atoms="auto" takes {len(auto.support_)} terms: {auto.score(X_new, y_new):.0%} right')

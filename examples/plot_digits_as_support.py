"""
Digits as support vectors
=========================

What does a classifier of handwritten digits look at? The terms of a pursuit are training images, in the order of
their use. One set of terms serves all ten classes.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from kernelpursuit import KMPClassifier, PursuitPathDisplay

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X / 16, y, random_state=0)
model = KMPClassifier(n_atoms=120, gamma=0.05).fit(X, y)
svm = SVC().fit(X, y)

fig, axes = plt.subplots(4, 10, figsize=(9, 4.6), layout="constrained")
for number, (ax, row) in enumerate(zip(axes.flat, model.support_, strict=False), start=1):
    ax.imshow(X[row].reshape(8, 8), cmap="gray_r", interpolation="nearest")
    ax.set_title(f"{number}: a {y[row]}", fontsize=8, pad=2)
    ax.set_axis_off()
fig.suptitle("The first forty terms, in the order they were chosen")

# %%
# The error against the number of terms, with a support vector machine beside it. The machine keeps several times as
# many training images.
display = PursuitPathDisplay.from_estimator(
    model, X_new, y_new, baseline=(f"SVC, {len(svm.support_)} terms", 1 - svm.score(X_new, y_new))
)
display.ax_.set_title("Digits: error on new images against the number of terms")

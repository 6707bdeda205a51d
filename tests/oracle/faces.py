"""Literal polytope faces pursuit: 2m columns [K, -K] and a pseudo-inverse at every step. The oracle of `Faces`.

With Kt = [K, -K] and the active columns At of it: a = pinv(At) y, r = y - At a, c = pinv(At)' 1. The next column
maximises Kt' r / (1 - Kt' c). With an intercept K and y are centred first, which is the projection off the constant.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

DEAD = 100 * np.finfo(float).eps
TIE = 1e-12
CAP = 10


class Walk(NamedTuple):
    """What the walk did; entry s of each list belongs to step s, entry 0 of `theta` and `losses` to the start."""

    atoms: list  # column taken, from 0 to m - 1
    signs: list
    released: list  # tuple of columns given up in the step, in order
    scores: list  # score of the column taken
    all_scores: list  # (m,) the larger of the two signs of each column, -inf for those that may not be chosen
    margins: list  # how clearly the releases of the step were decided, relative to the largest weight
    theta: list
    losses: list  # sum of squares of the residual
    coef: list  # (active atoms, their signed coefficients)


def faces(K, y, k, *, release=True, guard=False, intercept=True, follow=None, theta_tol=1e-12):
    """Walk until `k` columns are active. `follow` = [(atom, released)] are taken instead of the best choices."""
    n, m = K.shape
    raw = np.linalg.norm(K, axis=0)
    noise = 16 * np.finfo(float).eps * raw * np.linalg.norm(y)
    if intercept:
        K, y = K - K.mean(axis=0), y - y.mean()
    Kt, noise = np.hstack([K, -K]), np.tile(noise, 2)
    scale = np.linalg.norm(y) * np.linalg.norm(K, axis=0).max()
    active, banned = [], set()
    walk = Walk(*([] for _ in Walk._fields))
    r, c = y, np.zeros(n)

    def record():
        outside = [i for i in range(m) if i not in {j % m for j in active}]
        walk.theta.append(np.abs(K[:, outside].T @ r).max(initial=0))
        walk.losses.append(r @ r)

    record()
    for t in range(CAP * k if follow is None else len(follow)):
        if follow is None and (len(active) >= k or walk.theta[-1] <= theta_tol * scale):
            break
        s = scores(Kt, active, banned, r, c, guard, noise, np.tile(raw, 2))
        if follow is None and not s.max() > 0:
            break
        best = lowest(s)
        if follow is not None:
            best = follow[t][0] + (0 if s[follow[t][0]] > -np.inf else m)
        walk.all_scores.append(np.maximum(s[:m], s[m:]))
        walk.scores.append(s[best])
        walk.atoms.append(best % m)
        walk.signs.append(1 if best < m else -1)
        active.append(best)
        gone, margin = [], np.inf
        while release and active:
            a = np.linalg.pinv(Kt[:, active]) @ y
            told = None if follow is None else follow[t][1]
            margin = min(margin, clearness(a))
            if told is None:
                if a.min() > TIE * np.abs(a).max():
                    break
                j = int(np.argmax(a <= a.min() + TIE * np.abs(a).max()))
            elif len(gone) == len(told):
                assert a.min() >= -1e-6 * np.abs(a).max(), "a negative weight stayed"
                break
            else:
                j = [i % m for i in active].index(told[len(gone)])
                assert a[j] <= a.min() + 1e-6 * np.abs(a).max(), "not the most negative weight was released"
                assert a[j] < 1e-6 * np.abs(a).max(), "a positive weight was released"
            if active[j] == best:
                banned.add(best)
            else:
                banned.clear()
            gone.append(active.pop(j) % m)
        walk.released.append(tuple(gone))
        walk.margins.append(margin)
        A = Kt[:, active]
        inverse = np.linalg.pinv(A)
        a = inverse @ y
        r, c = y - A @ a, inverse.T @ np.ones(len(active))
        walk.coef.append(([i % m for i in active], a * np.where(np.array(active, dtype=int) < m, 1, -1)))
        record()
    return walk


def clearness(a):
    """Smallest relative distance of a weight from zero, and of the most negative from the second."""
    size = np.abs(a).max()
    two = np.sort(a)[:2]
    gap = np.inf if len(two) < 2 or two[0] > 0 else two[1] - two[0]
    return min(np.abs(a).min(), gap) / size


def scores(Kt, active, banned, r, c, guard, noise, raw):
    """Kt' r / (1 - Kt' c) of the columns that may be chosen, -inf for the others."""
    m = Kt.shape[1] // 2
    g, gap = Kt.T @ r, 1 - Kt.T @ c
    A = Kt[:, active]
    rest = Kt - A @ (np.linalg.pinv(A) @ Kt)
    in_span = np.sum(rest**2, axis=0) <= DEAD * raw**2
    met = np.abs(gap) <= TIE * (1 + np.abs(1 - gap))
    s = np.where(met, np.inf, np.where(gap < 0, np.inf if guard else -np.inf, g / np.where(met, 1, gap)))
    s = np.where((g <= noise) | in_span, -np.inf, s)
    taken = [i % m for i in active]
    s[taken] = s[[i + m for i in taken]] = -np.inf
    s[list(banned)] = -np.inf
    return s


def lowest(s):
    """First column of the best score, the signs of a column side by side."""
    m = len(s) // 2
    column = int(np.argmax(np.maximum(s[:m], s[m:]) >= s.max() * (1 - 2 * TIE)))
    return column if s[column] >= s[column + m] else column + m


def basis_pursuit(K, y):
    """min ||alpha||_1 subject to K alpha = y, by linear programming: (coefficients, optimal value)."""
    m = K.shape[1]
    result = linprog(np.ones(2 * m), A_eq=np.hstack([K, -K]), b_eq=y, bounds=(0, None), method="highs")
    assert result.status == 0
    return result.x[:m] - result.x[m:], result.fun

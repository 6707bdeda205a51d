"""Literal, slow definitions of kernel matching pursuit: the oracle the library is tested against.

Notation used throughout:

- ``D`` (n, m): dictionary matrix, column j is atom j; ``Y`` (n,) or (n, t): targets sharing the atoms.
- ``weights`` w (n,) > 0: the inner product is <a, b> = sum_i w_i a_i b_i.
- ``intercept``: a constant is in the span before the first step; not an atom, not penalised.
- ``alpha``, ``G`` (m, m): the penalty alpha * c' G_AA c on the coefficients of the chosen atoms A.
- ``X``, ``T``, ``C``: augmented atoms, targets and constant, see `augmented`.
- ``path``: if given, these atoms are taken in this order instead of the best ones (the scores are still recorded).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import brentq, minimize, root
from scipy.spatial.distance import cdist
from scipy.special import expit

DEAD = 100 * np.finfo(float).eps
TIE = 1e-12


class Pursuit(NamedTuple):
    """What a greedy method did; entry s of each list belongs to step s."""

    atoms: list  # chosen column (basic may repeat one)
    scores: list  # score of the chosen column
    losses: list  # objective after the step: sum of squared augmented residuals, or the penalised loss
    coef: list  # (intercept (t,), coefficients (s + 1, t)) after the step, one row per step: f = b + D[:, atoms] @ c
    all_scores: list  # (m,) scores of all the columns before the choice, -inf for those that may not be chosen


# ---------------------------------------------------------------------------------------------- linear algebra


def factor(G):
    """F with F'F = G for a PSD matrix G, by the eigendecomposition of G scaled to a unit diagonal."""
    scale = np.sqrt(np.where(np.diag(G) > 0, np.diag(G), 1.0))
    values, vectors = np.linalg.eigh(G / np.outer(scale, scale))
    noise = len(G) * np.finfo(float).eps * values.max(initial=0.0)
    if (values < -1e3 * noise).any():
        raise ValueError("G is not positive semi-definite")
    return np.sqrt(np.where(values > noise, values, 0.0))[:, None] * vectors.T * scale


def augmented(D, Y, weights=None, intercept=False, alpha=0.0, G=None):
    """X = [diag(sqrt w) D ; sqrt(alpha) F], T = [diag(sqrt w) Y ; 0], C = [sqrt w ; 0] (no column if no intercept).

    ||T - C b - X_A c||^2 = ||Y - b 1 - D_A c||_w^2 + alpha c' G_AA c, so every plain least-squares notion applied
    to X, T, C is the weighted, penalised one for D, Y. Without G the identity is meant.
    """
    n, m = D.shape
    s = np.sqrt(np.ones(n) if weights is None else weights)[:, None]
    F = np.sqrt(alpha) * factor(np.eye(m) if G is None else G) if alpha > 0 else np.zeros((0, m))
    Y = Y.reshape(n, -1)
    X = np.vstack([s * D, F])
    T = np.vstack([s * Y, np.zeros((len(F), Y.shape[1]))])
    C = np.vstack([s, np.zeros((len(F), 1))])[:, : int(intercept)]
    return X, T, C


def outside(V, B):
    """Columns of V minus their orthogonal projections on the span of the columns of B."""
    Q, _ = np.linalg.qr(B)
    V = V - Q @ (Q.T @ V)
    return V - Q @ (Q.T @ V)  # twice, against rounding


def squared_norms(V):
    """Squared Euclidean norm of each column."""
    return (V**2).sum(axis=0)


def fit(X, T, C, atoms):
    """Least squares of T on [C, X_A]: (intercept (t,), coefficients (k, t), residual)."""
    B = np.hstack([C, X[:, atoms]])
    scale = np.sqrt(squared_norms(B))
    scale[scale == 0] = 1.0
    solution = np.linalg.lstsq(B / scale, T, rcond=None)[0] / scale[:, None]
    k = C.shape[1]
    return solution[:k].sum(axis=0), solution[k:], T - B @ solution


def alive(X, C, atoms, dead=DEAD):
    """Mask of the columns not in A with ||part outside the span of [C, X_A]||^2 > dead * ||column||^2."""
    rest = squared_norms(outside(X, np.hstack([C, X[:, atoms]])))
    mask = rest > dead * squared_norms(X)
    mask[atoms] = False
    return mask


def choose(scores, tie=TIE):
    """Lowest index among the scores that are at least best * (1 - tie)."""
    return int(np.flatnonzero(scores >= scores.max() * (1 - tie))[0])


# ---------------------------------------------------------------------------------------------- squared loss


def basic(
    D, Y, n_atoms, *, weights=None, intercept=False, alpha=0.0, G=None, shrinkage=1.0, dead=DEAD, tie=TIE, path=None
) -> Pursuit:
    """Basic matching pursuit: the atom of largest (x_j' r)^2 / ||x_j||^2, then r <- r - shrinkage * (its projection).

    X and T are projected off the constant once at the start; the intercept is always the best one for the
    coefficients at hand, the weighted mean of Y - D_A c. An atom may come back: it gets another row.
    """
    X, T, C = augmented(D, Y, weights, intercept, alpha, G)
    live = alive(X, C, [], dead)
    X0, r = outside(X, C), outside(T, C)
    norms = np.where(live, squared_norms(X0), 1.0)
    out, rows = Pursuit([], [], [], [], []), []
    for step in range((n_atoms if path is None else len(path)) if live.any() else 0):
        scores = np.where(live, ((X0.T @ r) ** 2).sum(axis=1) / norms, -np.inf)
        j = choose(scores, tie) if path is None else path[step]
        row = shrinkage * (X0[:, j] @ r) / norms[j]
        r = r - np.outer(X0[:, j], row)
        rows.append(row)
        out.atoms.append(j)
        out.scores.append(scores[j])
        out.losses.append((r**2).sum())
        b = fit(X, T - X[:, out.atoms] @ np.array(rows), C, [])[0]
        out.coef.append((b, np.array(rows)))
        out.all_scores.append(scores)
    return out


def backfit_scores(X, T, C, atoms, live):
    """(x_j' r)^2 / ||x_j||^2, r the residual of the fit on A, x_j the atom with the constant removed."""
    r = fit(X, T, C, atoms)[2]
    X0 = outside(X, C)
    return ((X0.T @ r) ** 2).sum(axis=1)[live] / squared_norms(X0)[live]


def prefit_scores(X, T, C, atoms, live):
    """Drop of the squared residual between the fits on A and on A + [j], fitting anew for each candidate j.

    The residuals are nested projections, so the drop is taken as the squared norm of their difference.
    """
    r = fit(X, T, C, atoms)[2]
    return np.array([((r - fit(X, T, C, [*atoms, j])[2]) ** 2).sum() for j in np.flatnonzero(live)])


def deflation_scores(X, T, C, atoms, live):
    """(x_j' r)^2 / ||x_j||^2 after X and T were multiplied by I - tau tau' / tau'tau for the constant and each of A."""
    V = np.hstack([C, X, T])
    k, m = C.shape[1], X.shape[1]
    for column in [*range(k), *(k + a for a in atoms)]:
        tau = V[:, [column]]
        V = (np.eye(len(V)) - tau @ tau.T / (tau.T @ tau)) @ V
    X, r = V[:, k : k + m], V[:, k + m :]
    return ((X.T @ r) ** 2).sum(axis=1)[live] / squared_norms(X)[live]


def pursue(
    rule, D, Y, n_atoms, *, weights=None, intercept=False, alpha=0.0, G=None, dead=DEAD, tie=TIE, path=None
) -> Pursuit:
    """Repeat: score the live atoms by the rule, take the best, fit all the coefficients. Stop when none is alive."""
    X, T, C = augmented(D, Y, weights, intercept, alpha, G)
    out = Pursuit([], [], [], [], [])
    for step in range(n_atoms if path is None else len(path)):
        live = alive(X, C, out.atoms, dead)
        if not live.any():
            break
        scores = np.full(len(live), -np.inf)
        scores[live] = rule(X, T, C, out.atoms, live)
        j = choose(scores, tie) if path is None else path[step]
        out.atoms.append(j)
        b, c, r = fit(X, T, C, out.atoms)
        out.scores.append(scores[j])
        out.losses.append((r**2).sum())
        out.coef.append((b, c))
        out.all_scores.append(scores)
    return out


def backfit(D, Y, n_atoms, **options) -> Pursuit:
    """Orthogonal matching pursuit: `pursue` with `backfit_scores`."""
    return pursue(backfit_scores, D, Y, n_atoms, **options)


def prefit(D, Y, n_atoms, **options) -> Pursuit:
    """Pre-fitting by exhaustive search: `pursue` with `prefit_scores`."""
    return pursue(prefit_scores, D, Y, n_atoms, **options)


def prefit_deflation(D, Y, n_atoms, **options) -> Pursuit:
    """Pre-fitting by deflation of the whole matrix: `pursue` with `deflation_scores`."""
    return pursue(deflation_scores, D, Y, n_atoms, **options)


def leave_one_out(D_A, Y, *, weights=None, intercept=False, alpha=0.0, G_AA=None):
    """(n, t) residuals y_i - f^{-i}(x_i), f^{-i} fitted with one row taken off row i, or all of it (n refits).

    It stands for w_i rows, or, where the weights sum to less than n, for as many as they do in proportion.
    """
    n, k = D_A.shape
    Y = Y.reshape(n, -1)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    left_out = np.empty(Y.shape)
    for i in range(n):
        wi = w.copy()
        rows = w[i] * max(1.0, n / w.sum())
        wi[i] = w[i] * (1 - 1 / rows) if rows > 1 else 0.0
        keep = wi > 0
        b, c, _ = fit(*augmented(D_A[keep], Y[keep], wi[keep], intercept, alpha, G_AA), list(range(k)))
        left_out[i] = Y[i] - b - D_A[i] @ c
    return left_out


# ---------------------------------------------------------------------------------------------- any loss


class Loss(NamedTuple):
    """value(y, f) and gradient(y, f) = d value / d f, elementwise."""

    value: Callable
    gradient: Callable


def huber(delta):
    """r^2 for |r| <= delta, else 2 delta |r| - delta^2, with r = y - f."""
    return Loss(
        lambda y, f: np.where(abs(y - f) <= delta, (y - f) ** 2, 2 * delta * abs(y - f) - delta**2),
        lambda y, f: np.where(abs(y - f) <= delta, -2 * (y - f), -2 * delta * np.sign(y - f)),
    )


LOSSES = {
    "squared_error": Loss(lambda y, f: (y - f) ** 2, lambda y, f: -2 * (y - f)),
    "log_loss": Loss(lambda y, f: np.logaddexp(0, -y * f), lambda y, f: -y * expit(-y * f)),
    "exponential": Loss(lambda y, f: np.exp(-y * f), lambda y, f: -y * np.exp(-y * f)),
    "tanh": Loss(
        lambda y, f: (0.65 * y - np.tanh(f)) ** 2,
        lambda y, f: -2 * (0.65 * y - np.tanh(f)) * (1 - np.tanh(f) ** 2),
    ),
    "doom2": Loss(lambda y, f: 1 - np.tanh(y * f), lambda y, f: -y * (1 - np.tanh(y * f) ** 2)),
    "squared_hinge": Loss(lambda y, f: np.maximum(0, 1 - y * f) ** 2, lambda y, f: -2 * y * np.maximum(0, 1 - y * f)),
    "huber": huber(1.0),
}


def objective(D_A, Y, value, b, c, weights=None, alpha=0.0, G_AA=None):
    """sum_i w_i L(y_i, b + (D_A c)_i) + alpha c' G_AA c, summed over the targets."""
    n, k = D_A.shape
    w = np.ones(n) if weights is None else weights
    G_AA = np.eye(k) if G_AA is None else G_AA
    return (w[:, None] * value(Y.reshape(n, -1), b + D_A @ c)).sum() + alpha * (c * (G_AA @ c)).sum()


def optimum(D_A, Y, value, gradient, weights=None, intercept=False, alpha=0.0, G_AA=None, start=None):
    """Minimum of `objective` over intercept and coefficients: (value, intercept (t,), coefficients (k, t)).

    The targets separate. The unknowns are the coordinates theta in an orthonormal basis Q of the augmented columns
    [C, X] = Q R, theta = R (b ; c): with Q = [P ; N] the fit is P theta / sqrt(w) and the penalty ||N theta||^2.
    BFGS, then a root of the gradient nearby unless the value rises.
    """
    n, t = len(D_A), Y.reshape(len(D_A), -1).shape[1]
    X, _, C = augmented(D_A, Y, weights, intercept, alpha, G_AA)
    Q, R = np.linalg.qr(np.hstack([C, X]))
    s = np.sqrt(np.ones(n) if weights is None else weights)
    P, N = Q[:n], Q[n:]
    first = np.zeros((R.shape[1], t)) if start is None else R @ np.vstack([start[0][None][: C.shape[1]], start[1]])
    theta = np.zeros_like(first)
    for j, y in enumerate(Y.reshape(n, -1).T if len(first) else []):

        def total(x, y=y):
            return (s**2 * value(y, P @ x / s)).sum() + ((N @ x) ** 2).sum()

        def slope(x, y=y):
            return P.T @ (s * gradient(y, P @ x / s)) + 2 * N.T @ (N @ x)

        with np.errstate(over="ignore", invalid="ignore"):
            x = minimize(total, first[:, j], jac=slope, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000}).x
            near = root(slope, x, tol=1e-14).x
        better = np.linalg.norm(slope(near)) < np.linalg.norm(slope(x)) and total(near) <= total(x) * (1 + 1e-13)
        theta[:, j] = near if better else x
    solution = solve_triangular(R, theta)
    b, c = solution[: C.shape[1]].sum(axis=0), solution[C.shape[1] :]
    return objective(D_A, Y, value, b, c, weights, alpha, G_AA), b, c


def line_search(slope, scale):
    """First zero of slope(a) met on going downhill from a = 0 in steps scale, 2 scale, 4 scale, ... (then bisected)."""
    sign = -np.sign(slope(0.0))
    if sign == 0:
        return 0.0
    low, high = 0.0, scale
    while sign * slope(sign * high) < 0:
        low, high = high, 2 * high
    return sign * brentq(lambda a: slope(sign * a), low, high, xtol=1e-300, rtol=1e-14)


def pseudo_residual(X, D, Y, gradient, atoms, b, c, weights):
    """Negative gradient of the objective in the augmented fit X_A c: (-sqrt(w) dL/df ; -2 sqrt(alpha) F_A c)."""
    n = len(D)
    top = -np.sqrt(weights)[:, None] * gradient(Y, b + D[:, atoms] @ c)
    return np.vstack([top, -2 * X[n:, atoms] @ c])


def gradient_scores(X, C, r, atoms, variant, dead):
    """Sum over targets of (x' r)^2 / norm and the directions x the columns add; -inf for the dead.

    x is the column outside the span of [C, X_A] (basic: of C alone); norm is ||x||^2 for prefit and basic, and the
    squared norm of the column outside the span of C for backfit.
    """
    span = C if variant == "basic" else np.hstack([C, X[:, atoms]])
    rest = outside(X, span)
    norms = squared_norms(outside(X, C) if variant == "backfit" else rest)
    live = alive(X, C, [] if variant == "basic" else atoms, dead)
    return np.where(live, ((rest.T @ r) ** 2).sum(axis=1) / np.where(live, norms, 1.0), -np.inf), rest


def greedy_gradient(
    D, Y, value, gradient, n_atoms, *, variant="backfit", refit_every=1, weights=None, intercept=False, alpha=0.0,
    G=None, convex=True, dead=DEAD, tie=TIE, path=None
) -> Pursuit:  # fmt: skip
    """Greedy descent of `objective`: take the atom of best `gradient_scores`, from a constant (or 0).

    The constant is the best one, or for a loss that is not convex the mean of Y. A step is a line search, for each
    target, along the part of the atom outside the span (see `gradient_scores`); if its number is a multiple of
    refit_every (None: never; basic: never) all coefficients and the intercept are optimised from there. losses are
    values of the objective.
    """
    n, m = D.shape
    Y = Y.reshape(n, -1)
    w = np.ones(n) if weights is None else weights
    X, _, C = augmented(D, Y, w, intercept, alpha, G)
    F = X[n:] / np.sqrt(alpha) if alpha > 0 else np.zeros((0, m))
    b, c = (w @ Y / w.sum() if intercept else np.zeros(Y.shape[1])), np.zeros((0, Y.shape[1]))
    if convex:
        _, b, c = optimum(D[:, :0], Y, value, gradient, w, intercept)
    out = Pursuit([], [], [], [], [])
    for step in range(1, 1 + (n_atoms if path is None else len(path))):
        r = pseudo_residual(X, D, Y, gradient, out.atoms, b, c, w)
        scores, rest = gradient_scores(X, C, r, out.atoms, variant, dead)
        if np.isneginf(scores).all():
            break
        j = choose(scores, tie) if path is None else path[step - 1]
        row = step_lengths(X, D, Y, gradient, out.atoms, b, c, w, rest[:, j])
        out.atoms.append(j)
        A, D_A, G_AA = out.atoms, D[:, out.atoms], F[:, out.atoms].T @ F[:, out.atoms]
        # the direction x_j - [C, X_A] v in coefficients: -v for the constant and the older atoms, 1 for the new one
        span = C if variant == "basic" else np.hstack([C, X[:, A[:-1]]])
        v = np.linalg.lstsq(span, X[:, j], rcond=None)[0]
        b = b - row * v[: C.shape[1]].sum()
        c = np.vstack([c - np.outer(v[C.shape[1] :], row) if variant != "basic" else c, row])
        if variant != "basic" and refit_every and step % refit_every == 0:
            _, b, c = optimum(D_A, Y, value, gradient, w, intercept, alpha, G_AA, (b, c))
        out.scores.append(scores[j])
        out.losses.append(objective(D_A, Y, value, b, c, w, alpha, G_AA))
        out.coef.append((b, c))
        out.all_scores.append(scores)
    return out


def step_lengths(X, D, Y, gradient, atoms, b, c, weights, direction):
    """Minimiser of the objective along `direction` (augmented), for each target."""
    n, s = len(D), np.sqrt(weights)
    fit_top, fit_tail = b + D[:, atoms] @ c, X[n:, atoms] @ c
    lengths = []
    for target in range(Y.shape[1]):

        def slope(a, t=target):
            f = fit_top[:, t] + a * direction[:n] / s
            return direction[:n] @ (s * gradient(Y[:, t], f)) + 2 * direction[n:] @ (fit_tail[:, t] + a * direction[n:])

        lengths.append(line_search(slope, 1e-3 / np.sqrt(np.mean((direction[:n] / s) ** 2))))
    return np.array(lengths)


# ---------------------------------------------------------------------------------------------- data


def rbf(X, Z, gamma=0.3):
    """exp(-gamma ||x - z||^2), entry by entry, so equal points give equal bits."""
    return np.exp(-gamma * cdist(X, Z, "sqeuclidean"))


def dictionaries(seed) -> Iterator[tuple]:
    """(name, X, D, G or None): points, dictionary and the atoms' Gram matrix where the kernel is PSD."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((50, 4))
    twins = np.vstack([X[:41], X[rng.choice(41, 9, replace=False)]])
    flat = X @ rng.standard_normal((4, 6))  # six collinear features of rank four
    gram = np.einsum("ia,ja->ij", flat, flat)
    scale = 10 ** rng.uniform(-3, 3, 50)
    yield "rbf", X, rbf(X, X), rbf(X, X)
    yield "duplicates", twins, rbf(twins, twins), rbf(twins, twins)
    yield "linear", flat, gram, gram
    yield "quadratic", flat, (1 + gram / 6) ** 2, (1 + gram / 6) ** 2
    yield "scaled", X, rbf(X, X) * scale, rbf(X, X) * np.outer(scale, scale)
    yield "sigmoid", X, np.tanh(0.5 * np.einsum("ia,ja->ij", X, X) - 0.5), None
    yield "rectangular", X, rng.standard_normal((50, 40)), None


def problems(seed) -> Iterator[tuple]:
    """(name, D, Y, G or None) for each of `dictionaries`, with one target (n,) and with three (n, 3)."""
    rng = np.random.default_rng([seed, 1])
    for name, X, D, G in dictionaries(seed):
        Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2], np.cos(X).sum(axis=1)])
        Y = Y + 0.1 * rng.standard_normal(Y.shape)
        yield f"{name}-1", D, Y[:, 0], G
        yield f"{name}-3", D, Y, G

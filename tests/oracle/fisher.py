"""Matching pursuit Fisher discriminants written literally: explicit B, the whole matrix overwritten at every step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

DEAD = 1e-13  # share of its squared norm below which a column is spent


@dataclass
class Run:
    """What a run did: atoms in order, their scores, and the scores of all atoms at each choice."""

    atoms: list = field(default_factory=list)
    scores: list = field(default_factory=list)
    all_scores: list = field(default_factory=list)
    deflated: list = field(default_factory=list)  # the matrix before each choice


def binary_B(y):
    """D − C⁺ − C⁻ for labels ±1."""
    m = len(y)
    plus, minus = np.sum(y == 1), np.sum(y == -1)
    B = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            if i == j:
                B[i, j] += 2 * minus / m if y[i] == 1 else 2 * plus / m
            if y[i] == 1 and y[j] == 1:
                B[i, j] -= 2 * minus / (m * plus)
            if y[i] == -1 and y[j] == -1:
                B[i, j] -= 2 * plus / (m * minus)
    return B


def within_B(index):
    """The same for any number of classes: h Σ_c (I_c − 1_c1_cᵀ / n_c) / n_c, h the harmonic mean of the sizes."""
    classes = np.unique(index)
    sizes = np.array([np.sum(index == c) for c in classes])
    h = len(classes) / np.sum(1 / sizes)
    B = np.zeros((len(index), len(index)))
    for c, size in zip(classes, sizes, strict=True):
        member = (index == c).astype(float)
        B += h / size * (np.diag(member) - np.outer(member, member) / size)
    return B


def codes(index, labels):
    """Columns u: one for two classes, else one for each class."""
    classes = np.unique(index)
    if len(classes) == 2:
        y = np.where(index == classes[1], 1.0, -1.0)
        return (y - y.mean() if labels == "centred" else y)[:, None]
    if labels == "raw":
        return np.column_stack([np.where(index == c, 1.0, -1.0) for c in classes]) / np.sqrt(2)
    sizes = {c: np.sum(index == c) for c in classes}
    h = len(classes) / sum(1 / size for size in sizes.values())
    mean = {c: np.where(index == c, 1 / sizes[c], 0.0) for c in classes}  # products with d: class means of d
    grand = sum(mean.values()) / len(classes)
    return np.sqrt(2) * h * np.column_stack([mean[c] - grand for c in classes])


def fisher(K, index, n_atoms, labels="centred", path=None):
    """Greedy run; with `path` the atoms are given and only the scores are recorded."""
    K0, K = np.array(K, dtype=float), np.array(K, dtype=float)
    B, U = within_B(index), codes(index, labels)
    start = np.sum(K0**2, axis=0)
    run, chosen = Run(), np.zeros(K.shape[1], dtype=bool)
    for t in range(n_atoms if path is None else len(path)):
        alive = (np.sum(K**2, axis=0) > DEAD * start) & ~chosen
        if not alive.any():
            break
        scatter = np.maximum(np.einsum("ij,ij->j", K, B @ K), 1e-12 * start)
        scores = np.where(alive, np.sum((U.T @ K) ** 2, axis=0) / np.where(alive, scatter, 1), -np.inf)
        if not scores.max() > 0:
            break
        i = int(np.argmax(scores)) if path is None else path[t]
        run.atoms.append(i)
        run.scores.append(scores[i])
        run.all_scores.append(scores)
        run.deflated.append(K)
        chosen[i] = True
        tau = K[:, i]
        K = K - np.outer(tau, tau @ K) / (tau @ tau)
    return run


def discriminant(K, atoms, index, ridge, labels="centred"):
    """Weights of the atoms and bias for two classes: w = (FBFᵀ + λ)⁻¹Fu, midpoint of the projected class means."""
    y = np.where(index == 1, 1.0, -1.0)
    Lambda = np.linalg.cholesky(K[np.ix_(atoms, atoms)])
    F = np.linalg.solve(Lambda, K[:, atoms].T)
    S = F @ binary_B(y) @ F.T
    diagonal = np.diag(S)
    penalty = ridge * np.cumsum(diagonal) / np.arange(1, len(atoms) + 1)
    w = np.linalg.solve(S + np.diag(penalty), F @ codes(index, labels)[:, 0])
    f = F.T @ w
    return np.linalg.solve(Lambda.T, w), -(f[y == 1].mean() + f[y == -1].mean()) / 2

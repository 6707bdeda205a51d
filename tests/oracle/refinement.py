"""Refinement written literally: loops over atoms, the n x n covariance of the targets, no product saved."""

import numpy as np


def gaussians(X, centers, log_widths, log_weights):
    """Values of the atoms, one at a time."""
    values = np.empty((len(X), len(centers)))
    for i, x in enumerate(X):
        for j, z in enumerate(centers):
            values[i, j] = np.exp(-np.exp(log_widths[j]) * np.sum((np.exp(log_weights) * (x - z)) ** 2))
    return values


def negative_log_evidence(X, Y, centers, log_widths, log_weights, signal, noise):
    """-ln p(Y), constants of 2π left out, the intercept integrated out: Y in coordinates orthogonal to the constant.

    A row of weight w is the row w times: repeat it.
    """
    n = len(X)
    basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    phi = basis.T @ gaussians(X, centers, log_widths, log_weights)
    covariance = signal * phi @ phi.T + noise * np.eye(n - 1)
    y = basis.T @ Y
    log_determinant = np.linalg.slogdet(covariance)[1]
    return 0.5 * (Y.shape[1] * log_determinant + np.sum(y * np.linalg.solve(covariance, y)))


def posterior(X, Y, centers, log_widths, log_weights, signal, noise, X_new):
    """Mean and variance of Y at new rows under the same model, with a nearly flat prior of the intercept."""
    k = len(centers)
    phi = np.column_stack([np.ones(len(X)), gaussians(X, centers, log_widths, log_weights)])
    new = np.column_stack([np.ones(len(X_new)), gaussians(X_new, centers, log_widths, log_weights)])
    precision = phi.T @ phi / noise + np.diag([0.0] + [1 / signal] * k)
    covariance = np.linalg.inv(precision)
    mean = new @ covariance @ phi.T @ Y / noise
    return mean, noise + np.sum(new @ covariance * new, axis=1)


def total_loss(loss, X, Y, weights, coef, intercept, centers, log_widths, log_weights, penalty):
    """Sum over rows of weight times loss, and the penalty of the coefficients for each row."""
    values = gaussians(X, centers, log_widths, log_weights) @ coef + intercept
    if loss == "squared_error":
        rows = 0.5 * np.sum((values - Y) ** 2, axis=1)
    elif loss == "log_loss":
        rows = np.sum(np.log1p(np.exp(-Y * values)), axis=1)
    else:
        rows = -np.sum(Y * np.log(np.exp(values) / np.sum(np.exp(values), axis=1, keepdims=True)), axis=1)
    return np.sum(weights * rows) + 0.5 * penalty * len(X) * np.sum(coef**2)

"""Gaussian atoms whose centres, widths and input weights are parameters: their values, and gradients of a loss.

    φ_j(x) = exp(-γ_j Σ_d w_d² (x_d - z_jd)²)

The exponent is one product, F Cᵀ: with r = Σ_d w_d² x_d², a row of F is [x, r, 1] and one of C is
[2 γ_j w² z_j, -γ_j, -γ_j Σ_d w_d² z_jd²]. The gradients of everything come from another, GᵀF. Inputs should be centred
and of order 1: the product loses digits of far points.
"""

from __future__ import annotations

from typing import NamedTuple

from kernelpursuit.arrays import Array, from_host, namespace


class Atoms(NamedTuple):
    """Parameters of k atoms on d inputs, of any array namespace.

    Attributes
    ----------
    centers : array of shape (k, d)
    log_widths : array of shape (k,)
        ln γ.
    log_weights : array of shape (d,)
        ln w.
    """

    centers: Array
    log_widths: Array
    log_weights: Array

    def like(self, x: Array) -> Atoms:
        """A copy of the atoms in the namespace, on the device and with the dtype of `x`, from atoms on the host."""
        return Atoms(*(from_host(part, x) for part in self))


def atom_values(atoms: Atoms, X: Array) -> tuple[Array, Array]:
    """Values of the atoms at the rows of X, (n, k), and the factor F of their exponents, (n, d + 2).

    Examples
    --------
    >>> import numpy as np
    >>> atoms = Atoms(np.array([[0.0], [1.0]]), np.zeros(2), np.zeros(1))
    >>> atom_values(atoms, np.array([[0.0], [1.0]]))[0].round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """
    xp = namespace(X)
    squared = xp.exp(2 * atoms.log_weights)
    gamma = xp.exp(atoms.log_widths)[:, None]
    lengths = (atoms.centers * atoms.centers) @ squared[:, None]
    rows = xp.concat([X, (X * X) @ squared[:, None], xp.ones_like(X[:, :1])], axis=1)
    values = rows @ xp.concat([2 * gamma * (atoms.centers * squared), -gamma, -gamma * lengths], axis=1).T
    return _exponentials(values), rows


def _exponentials(values: Array) -> Array:
    """exp, in place where the library can."""
    xp = namespace(values)
    return values.exp_() if hasattr(values, "exp_") else xp.exp(values, **({"out": values} if _is_numpy(xp) else {}))


def _is_numpy(xp: object) -> bool:
    return getattr(xp, "__name__", "") == "numpy"


def pull_back(atoms: Atoms, X: Array, rows: Array, G: Array) -> Atoms:
    """Gradient in the parameters, given G = ∂L/∂Φ ⊙ Φ, (n, k), and the factor that `atom_values` returned."""
    xp = namespace(X)
    d = X.shape[1]
    squared = xp.exp(2 * atoms.log_weights)
    gamma = xp.exp(atoms.log_widths)
    products = G.T @ rows
    by_x, by_r, total = products[:, :d], products[:, d], products[:, d + 1 :]
    crossed = atoms.centers * (total * atoms.centers - 2 * by_x)  # what squared distances have beside the squares of X
    by_centers = (2 * gamma[:, None]) * (squared * (by_x - atoms.centers * total))
    along = (G @ gamma[:, None]).T @ (X * X) + gamma[None, :] @ crossed
    return Atoms(by_centers, -gamma * (by_r + crossed @ squared), -2 * squared * along[0, :])

"""A block of atoms at one read of the data, where each read has a long way: directions, and all their products."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, energies, to_host
from kernelpursuit.pursuit.deflation import Deflation
from kernelpursuit.pursuit.directions import Direction


class AtOnce(NamedTuple):
    """Directions that a block of atoms adds to the span, with products of them that a criterion needs."""

    directions: list[Direction]
    products: np.ndarray  # (n_atoms, b), of all atoms with the directions
    inside: np.ndarray  # (b, t), products of the directions with the residual
    energy: float  # squared norm of the residual


def at_once(atoms: Deflation, block: list[int], residual: Array, tail: np.ndarray) -> AtOnce | None:
    """The directions of `block`, made of inner products of the last pool, and checked by one read.

    With C the columns and Q the directions, S = QᵀC and what is left of CᵀC are known. So Q₁ = (C - QS) R₁⁻¹ needs no
    read. It is orthonormal but for rounding, and one read says how far from it: then Q₂ = (Q₁ - Q QᵀQ₁) R₂⁻¹, and the
    products of all atoms, which were made with Q₁, follow from those with Q, which are kept.

    Parameters
    ----------
    atoms : Deflation
    block : list of int
    residual : array of shape (n_samples, t)
        Outside the span.
    tail : ndarray of shape (any, t)

    Returns
    -------
    AtOnce or None
        None where these products are not known, or not well enough.
    """
    known = atoms.products_of_pool(block)
    if known is None:
        return None
    J, basis = np.array(block), atoms.basis
    tails = np.zeros((len(J), 0)) if atoms.ridge is None else atoms.ridge.extend(J)
    width, before = tails.shape[1], basis.size
    near = basis.first_round(atoms.columns(J), tails, known.inside, known.gram)
    if near.samples.shape[1] < len(block):  # where it ends is for exact columns to say, as on one machine
        return None
    Q = basis.directions
    reads = Q @ near.samples, near.samples.T @ near.samples, near.samples.T @ residual, energies(residual)
    products = atoms.correlate(near.samples, near.tails.T)  # this one is read, and the others come along
    along, gram, inside, energy = (to_host(one) for one in reads)
    turned = basis.second_round(near, along, gram)
    if turned is None:
        return None
    products = np.asfortranarray((products - known.kept.T @ turned.along) @ turned.turn)
    common = min(len(tail), near.tails.shape[1])
    inside = turned.turn.T @ (inside + near.tails[:, :common] @ tail[:common])  # the residual has no part along Q
    directions = [
        Direction(atom, basis.directions[row, :], basis.tails[row, :width])
        for row, atom in enumerate(block[: basis.size - before], start=before)
    ]
    return AtOnce(directions, products, inside, float(np.sum(energy) + np.sum(tail**2)))

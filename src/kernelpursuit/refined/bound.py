"""The squared loss on some thousand rows: a lower bound of the evidence of a full Gaussian process, after Titsias.

The evidence of k atoms alone (`evidence`) does not know that their centres were fitted. This bound does. It is a bound
on the evidence of the whole process with the same kernel. The centres are no parameters of that process; they only make
the bound tighter. So they may move freely, at the price that all atoms have one width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, from_host, to_host
from kernelpursuit.refined.evidence import Prior, Rows, Solution, inverse_factor, plus_identity
from kernelpursuit.refined.moving_atoms import Atoms, atom_values, pull_back

JITTER = 1e-6  # of the kernel matrix of the centres, whose diagonal is 1


class _Factors(NamedTuple):
    """What value, gradient and prediction share; all on the host but for the residual."""

    psi: np.ndarray  # Ψ, atoms at the centres
    rows: np.ndarray  # factor of their exponents
    inverse: np.ndarray  # L⁻¹, L Lᵀ = M = Ψ + JITTER I
    C: np.ndarray  # L⁻¹ ΦᵀΦ L⁻ᵀ
    inverse_b: np.ndarray  # L_B⁻¹, L_B L_Bᵀ = B = I + ρ C
    log_determinant: float  # of B
    beta: np.ndarray
    residual: Array
    length: float  # βᵀMβ, summed over targets


def _factors(atoms: Atoms, phi: Array, Y: Array, ratio: float) -> _Factors:
    psi, rows = atom_values(atoms, atoms.centers)
    inverse, _ = inverse_factor(plus_identity(psi.copy(), JITTER))
    A = phi @ from_host(inverse.T, phi)  # (L⁻¹Φᵀ)ᵀ; ΦᵀΦ first would square the condition of Φ
    C = to_host(A.T @ A)
    try:
        inverse_b, determinant = inverse_factor(plus_identity(ratio * C))
    except np.linalg.LinAlgError:  # targets without noise: the rounding of C, times the ratio, is larger than I
        _, R = np.linalg.qr(np.vstack([np.eye(len(psi)), np.sqrt(ratio) * np.linalg.qr(to_host(A), mode="r")]))
        inverse_b, determinant = np.linalg.inv(R.T), 2 * float(np.sum(np.log(np.abs(np.diag(R)))))
    inside = ratio * (inverse_b.T @ (inverse_b @ to_host(A.T @ Y)))  # Lᵀβ
    beta = inverse.T @ inside
    residual = Y - A @ from_host(inside, phi)
    return _Factors(psi, rows, inverse, C, inverse_b, determinant, beta, residual, float(np.vdot(inside, inside)))


def negative_bound(
    atoms: Atoms, log_signal: float, log_noise: float, rows: Rows, prior: Prior, start: Array
) -> tuple[float, Atoms, float, float]:
    """Minus the bound on the log evidence of a Gaussian process of variance s and noise v, and its gradient.

    With Φ the atoms at the rows, Ψ those at the centres, M = Ψ + JITTER I, P = ΦᵀΦ, ρ = s/v, S = M + ρP, β = ρ S⁻¹ΦᵀY,
    R = Y - Φβ, n rows and q targets,

        F = ½ q [n ln v + ln |S| - ln |M| + ρ (n - tr M⁻¹P)] + (‖R‖² + βᵀMβ / ρ) / 2v,
        ∂F/∂Φ = qρ Φ (S⁻¹ - M⁻¹) - R βᵀ / v,   ∂F/∂M = ½ [q (S⁻¹ - M⁻¹ + ρ M⁻¹PM⁻¹) + ββᵀ / s],

    and the priors of weights and centres are added. All atoms have one width; its derivative is given as 0, as the
    weights of the inputs do the same. Parameters and results are those of `evidence.negative_evidence`.
    """
    n, q = rows.total, rows.Y.shape[1]
    s, v = float(np.exp(log_signal)), float(np.exp(log_noise))
    ratio = s / v
    here = atoms.like(rows.X)
    values, factor = atom_values(here, rows.X)
    phi, Y = rows.scale_rows(values), rows.scale_rows(rows.Y)
    at = _factors(atoms, phi, Y, ratio)
    squared = float(to_host(at.residual.T @ at.residual).trace())
    fit = (squared + at.length / ratio) / v
    outside = ratio * (n - float(at.C.trace()))
    value = 0.5 * (q * (n * log_noise + at.log_determinant + outside) + fit)

    middle = plus_identity(at.inverse_b.T @ at.inverse_b, -1.0)
    by_phi = phi @ from_host(at.inverse.T @ ((ratio * q) * middle) @ at.inverse, phi)
    by_phi -= at.residual @ from_host(at.beta.T / v, phi)
    by_phi = rows.scale_rows(by_phi)
    by_phi *= values
    by_m = 0.5 * (q * (at.inverse.T @ (middle + ratio * at.C) @ at.inverse) + at.beta @ at.beta.T / s)
    by = Atoms(*(to_host(part) for part in pull_back(here, rows.X, factor, by_phi)))
    among = pull_back(atoms, atoms.centers, at.rows, by_m * at.psi)
    determined = -float(middle.trace())
    by_signal = 0.5 * (q * (determined + outside) - at.length / s)
    by_noise = 0.5 * (q * n - fit) - by_signal

    moved, weights = atoms.centers - start, atoms.log_weights - np.mean(atoms.log_weights)
    value += 0.5 * float(prior.weights * (weights @ weights) + prior.centers * np.vdot(moved, moved))
    by = Atoms(
        by.centers + 2 * among.centers + prior.centers * moved,  # Ψ is symmetric: a centre is a row and an atom
        np.zeros_like(by.log_widths),
        by.log_weights + among.log_weights + prior.weights * weights,
    )
    return value, by, by_signal, by_noise


def bound_coefficients(atoms: Atoms, rows: Rows, signal: float, noise: float) -> Solution:
    """Posterior mean of the process in the span of the atoms, and what its variance is made of."""
    values, _ = atom_values(atoms.like(rows.X), rows.X)
    at = _factors(atoms, rows.scale_rows(values), rows.scale_rows(rows.Y), signal / noise)
    root = np.sqrt(signal)
    nothing = np.zeros(len(at.psi))
    return Solution(
        at.beta, to_host(rows.mean(rows.Y)), nothing, root * (at.inverse_b @ at.inverse), signal, root * at.inverse
    )

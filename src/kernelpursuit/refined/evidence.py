"""The squared loss on some thousand rows: atoms that maximise the evidence, by L-BFGS over all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.optimize import minimize

from kernelpursuit.arrays import Array, from_host, namespace, to_host
from kernelpursuit.math.evidence import best_variances
from kernelpursuit.refined.lbfgs import Climb
from kernelpursuit.refined.moving_atoms import Atoms, atom_values, pull_back

MOVES = ("nothing", "weights", "widths", "all")  # what may move: each has the parts of those before it
SIGNAL, NOISE = (1e-6, 1e8), (1e-7, 4.0)  # variances of the coefficients and of the noise, of targets of variance 1
FARTHEST = np.log(1e4)  # of a width or a weight from where it starts
PATIENCE, LEAST_RISE = 10, 0.2  # iterations that together raise the evidence by less than this are the last


class Prior(NamedTuple):
    """Precisions of normal priors: ln w around its mean, ln γ around its mean, centres around their start."""

    weights: float = 1.0
    widths: float = 1.0
    centers: float = 0.0


class Evidence(NamedTuple):
    """A model and how probable it makes the targets.

    Attributes
    ----------
    atoms : Atoms
        On the host.
    signal, noise : float
        Variance of the coefficients and of the noise.
    value : float
        Minus the log evidence and the log priors, but for constants.
    steps : int
        Iterations of L-BFGS.
    interrupted : bool
    at_rest : bool
        Whether the climb came to its end: the evidence rises no more.
    of_process : bool
        Whether signal and noise are those of a Gaussian process (`bound`), not of coefficients.
    """

    atoms: Atoms
    signal: float
    noise: float
    value: float
    steps: int = 0
    interrupted: bool = False
    at_rest: bool = False
    of_process: bool = False


class Rows(NamedTuple):
    """Rows that atoms are fitted to, in sample space, and the least noise that they are taken to have.

    Attributes
    ----------
    X : array of shape (n, d)
        Centred, of order 1.
    Y : array of shape (n, q)
        Centred targets of variance 1.
    weights : array of shape (n,), optional
        A row of weight w counts as w rows.
    least_noise : float
    """

    X: Array
    Y: Array
    weights: Array | None = None
    least_noise: float = NOISE[0]

    @property
    def total(self) -> float:
        """Number of rows, by weight."""
        return float(self.X.shape[0]) if self.weights is None else float(namespace(self.X).sum(self.weights))

    def mean(self, columns: Array) -> Array:
        """Weighted mean of each column."""
        xp = namespace(columns)
        return xp.mean(columns, axis=0) if self.weights is None else (self.weights @ columns) / self.total

    def scale_rows(self, columns: Array) -> Array:
        """Columns times the roots of the weights."""
        return columns if self.weights is None else columns * namespace(columns).sqrt(self.weights)[:, None]


class Solution(NamedTuple):
    """Coefficients of fixed atoms: their mean, intercept, and what their uncertainty is made of.

    Attributes
    ----------
    coef : ndarray of shape (k, q)
    intercept : ndarray of shape (q,)
    mean : ndarray of shape (k,)
        Mean of the atoms over the rows.
    factor : ndarray of shape (k, k)
        The variance at x is ``noise (1 + 1 / n) + ‖factor (φ(x) - mean)‖²``, and that of what lies outside.
    outside : float
    outside_factor : ndarray of shape (k, k) or None
        Of a process that the atoms only span a part of; the variance of the rest is
        ``outside - ‖outside_factor φ(x)‖²``.
    """

    coef: np.ndarray
    intercept: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    outside: float = 0.0
    outside_factor: np.ndarray | None = None


class _Solved(NamedTuple):
    """The linear part of the model at given atoms, in active space but for the residual."""

    beta: np.ndarray
    residual: Array
    inverse_factor: np.ndarray  # T with TᵀT = (I + (s / v) ΦᵀΦ)⁻¹
    log_determinant: float


def inverse_factor(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """L⁻¹ with L Lᵀ the matrix, and the logarithm of its determinant; LinAlgError if it is not positive definite.

    LAPACK is called as it is: of small matrices the checks of SciPy take longer than the work.
    """
    if len(matrix) == 0:  # LAPACK would complain on the terminal
        return matrix, 0.0
    L, failed = dpotrf(matrix, lower=1, clean=1)
    if failed or not np.all(np.isfinite(L[-1:, -1:])):
        raise np.linalg.LinAlgError("matrix is not positive definite")
    return dtrtri(L, lower=1)[0], 2 * float(np.log(L.diagonal()).sum())


def plus_identity(matrix: np.ndarray, factor: float = 1.0) -> np.ndarray:
    """The matrix plus so many times the identity, in place."""
    matrix.ravel()[:: len(matrix) + 1] += factor
    return matrix


def _solve(phi: Array, Y: Array, ratio: float) -> _Solved:
    """Ridge regression through a factor of I + ratio ΦᵀΦ: never through the inverse of ΦᵀΦ + I / ratio."""
    try:
        inverse, log_determinant = inverse_factor(plus_identity(ratio * to_host(phi.T @ phi)))
        beta = ratio * (inverse.T @ (inverse @ to_host(phi.T @ Y)))
    except np.linalg.LinAlgError:  # targets without noise: the rounding of ΦᵀΦ, times the ratio, is larger than I
        Q, R = namespace(phi).linalg.qr(phi)
        U, sizes, Vt = np.linalg.svd(to_host(R))
        stretched = 1 + ratio * sizes**2
        inverse = Vt / np.sqrt(stretched)[:, None]
        beta = Vt.T @ ((ratio * sizes / stretched)[:, None] * (U.T @ to_host(Q.T @ Y)))
        log_determinant = float(np.sum(np.log(stretched)))
    return _Solved(beta, Y - phi @ from_host(beta, phi), inverse, log_determinant)


def negative_evidence(
    atoms: Atoms, log_signal: float, log_noise: float, rows: Rows, prior: Prior, start: Array
) -> tuple[float, Atoms, float, float]:
    """Minus the log evidence of coefficients c ~ N(0, s I) and noise of variance v, and its gradient.

    With Φ the atoms at the rows, centred, n rows, q targets Y of mean 0 and R = Y - Φβ,

        L = ½ q [(n - 1) ln v + ln |I + (s/v) ΦᵀΦ|] + ⟨Y, R⟩ / 2v,   ∂L/∂Φ = q Φ A⁻¹ - R βᵀ / v,   A = ΦᵀΦ + (v/s) I,

    and the priors are added. The cost is O(n k (k + d)).

    Parameters
    ----------
    atoms : Atoms
        On the host.
    log_signal, log_noise : float
        ln s and ln v.
    rows : Rows
    prior : Prior
    start : ndarray of shape (k, d)
        Centres that the prior draws to.

    Returns
    -------
    value : float
    by_atoms : Atoms
        Derivatives, on the host.
    by_signal, by_noise : float
    """
    n, q, k = rows.total, rows.Y.shape[1], atoms.centers.shape[0]
    s, v = float(np.exp(log_signal)), float(np.exp(log_noise))
    here = atoms.like(rows.X)
    values, factor = atom_values(here, rows.X)
    phi = rows.scale_rows(values - rows.mean(values))
    Y = rows.scale_rows(rows.Y)
    solved = _solve(phi, Y, s / v)
    squared, length = (
        float(to_host(solved.residual.T @ solved.residual).trace()),
        float(np.vdot(solved.beta, solved.beta)),
    )
    fit = (squared + length * v / s) / v  # ⟨Y, R⟩ = ‖R‖² + (v/s)‖β‖², without cancellation
    value = 0.5 * (q * ((n - 1) * log_noise + solved.log_determinant) + fit)
    covariance = (q * s / v) * (solved.inverse_factor.T @ solved.inverse_factor)
    G = phi @ from_host(covariance, phi)
    G -= solved.residual @ from_host(solved.beta.T / v, phi)
    G = rows.scale_rows(G)
    G *= values
    by = Atoms(*(to_host(part) for part in pull_back(here, rows.X, factor, G)))
    determined = k - float(np.vdot(solved.inverse_factor, solved.inverse_factor))
    by_signal = 0.5 * (q * determined - length / s)
    by_noise = 0.5 * (q * (n - 1 - determined) - squared / v)

    moved = atoms.centers - start
    weights, widths = (part - (np.mean(part) if len(part) else 0.0) for part in (atoms.log_weights, atoms.log_widths))
    value += 0.5 * float(prior.weights * (weights @ weights) + prior.widths * (widths @ widths))
    value += 0.5 * prior.centers * float(np.vdot(moved, moved))
    by = Atoms(
        by.centers + prior.centers * moved,
        by.log_widths + prior.widths * widths,
        by.log_weights + prior.weights * weights,
    )
    return value, by, by_signal, by_noise


class Rise:
    """Atoms on their way to where the evidence of the targets is largest. It can be left and taken up again.

    Parameters
    ----------
    atoms : Atoms
        On the host, float64.
    rows : Rows
    objective : callable
        `negative_evidence`, or `bound.negative_bound`, which keeps one width for all atoms.
    prior : Prior
    moves : {"nothing", "weights", "widths", "all"}
        Nothing but signal and noise; the weights of the inputs as well; also a width for each atom; also the centres.
    signal, noise : float
        Start of the variances.
    most_signal : float
        Largest variance of the coefficients.
    least_rise : float
        Some iterations that together raise the evidence by less are the last.
    """

    def __init__(
        self,
        atoms: Atoms,
        rows: Rows,
        *,
        objective: Callable[..., tuple[float, Atoms, float, float]] = negative_evidence,
        prior: Prior = Prior(),  # noqa: B008
        moves: str = "all",
        signal: float = 1.0,
        noise: float = 0.3,
        most_signal: float = SIGNAL[1],
        least_rise: float = LEAST_RISE,
    ):
        if moves not in MOVES:
            raise ValueError(f"moves must be one of {MOVES}, got {moves!r}")
        free, start = MOVES.index(moves), np.array(atoms.centers)
        self._shape, self._ends = start.shape, np.cumsum([part.size for part in atoms]).tolist()
        self._least_rise = least_rise
        still = np.repeat([free < 3, free < 2, free < 1], [part.size for part in atoms])
        still = np.append(still, [False, False])

        def at(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, by, *of_variances = objective(self._atoms(theta), theta[-2], theta[-1], rows, prior, start)
            by_all = np.concatenate([by.centers.ravel(), by.log_widths, by.log_weights, of_variances])
            by_all[still] = 0
            return value, by_all

        variances = np.log([min(signal, most_signal), noise])
        theta = np.concatenate([start.ravel(), atoms.log_widths, atoms.log_weights, variances])
        room = np.repeat([np.inf, FARTHEST, FARTHEST, 0], [*(part.size for part in atoms), 2])
        lowest, highest = theta - room, theta + room
        lowest[-2:] = np.log([SIGNAL[0], rows.least_noise])
        highest[-2:] = np.log([most_signal, NOISE[1]])
        self._climb, self._trail = Climb(at, theta, lowest, highest), [np.inf]

    def _atoms(self, theta: np.ndarray) -> Atoms:
        first, second, third = self._ends
        return Atoms(theta[:first].reshape(self._shape), theta[first:second], theta[second:third])

    @property
    def found(self) -> Evidence:
        """The model so far."""
        climb = self._climb
        signal, noise = np.exp(climb.theta[-2:]).tolist()
        at_rest = climb.at_rest or self._is_level()
        return Evidence(self._atoms(climb.theta), signal, noise, climb.value, len(self._trail) - 1, at_rest=at_rest)

    def _is_level(self) -> bool:
        return len(self._trail) > PATIENCE and self._trail[-1 - PATIENCE] - self._trail[-1] < self._least_rise

    def go(self, steps: int, report: Callable[[int, Evidence], bool | None] | None = None) -> Evidence:
        """Iterate until there have been so many steps, or until the evidence rises no more.

        An interrupt ends it; the best model so far is returned, marked.

        Parameters
        ----------
        steps : int
            In total, with those before.
        report : callable, optional
            ``report(step, evidence)`` after each iteration, with the model it came to; a true answer ends the climb.

        Returns
        -------
        Evidence
        """
        try:
            while len(self._trail) <= steps and not self._is_level() and self._climb.step():
                self._trail.append(self._climb.value)
                if report is not None and report(len(self._trail) - 1, self.found):
                    break
        except KeyboardInterrupt:
            return self.found._replace(interrupted=True)
        return self.found


def maximise_evidence(
    atoms: Atoms,
    rows: Rows,
    *,
    max_iter: int = 100,
    report: Callable[[int, Evidence], bool | None] | None = None,
    **options: Any,
) -> Evidence:
    """Move atoms to where the evidence of the targets is largest, in one go. See `Rise`."""
    return Rise(atoms, rows, **options).go(max_iter, report)


class _Spectrum(NamedTuple):
    """Rows as terms that stay where they are see them: all that signal and noise are judged by."""

    eigenvalues: np.ndarray  # of ΦᵀΦ
    along: np.ndarray  # squares of the coordinates of ΦᵀY in its eigenvectors
    squares: float  # of all targets
    total: float  # rows, less one for the mean
    q: int  # targets

    def minus_evidence(self, log_signal: float, log_noise: float) -> float:
        """½ q [(n - 1) ln v + Σ ln(1 + s λ / v)] + (‖Y‖² - Σ b² / (λ + v/s)) / 2v, without priors."""
        s, v = np.exp([log_signal, log_noise])
        left = self.squares - np.sum(self.along / (self.eigenvalues + v / s))
        determinant = np.sum(np.log1p(self.eigenvalues * (s / v)))
        return float(0.5 * (self.q * (self.total * log_noise + determinant) + left / v))

    def slopes(self, log_signal: float, log_noise: float) -> np.ndarray:
        """Derivatives of the value in the logarithms of signal and noise."""
        s, v = np.exp([log_signal, log_noise])
        shrunk = self.eigenvalues + v / s
        shares, beta = np.sum(self.eigenvalues / shrunk), np.sum(self.along / shrunk**2)  # beta is ‖β‖²
        left = self.squares - np.sum(self.along / shrunk)
        by_noise = self.q * (self.total - shares) - (left - beta * v / s) / v
        return 0.5 * np.array([self.q * shares - beta / s, by_noise])


def _spectrum(atoms: Atoms, rows: Rows) -> _Spectrum:
    values, _ = atom_values(atoms.like(rows.X), rows.X)
    phi, Y = rows.scale_rows(values - rows.mean(values)), rows.scale_rows(rows.Y)
    eigenvalues, vectors = np.linalg.eigh(to_host(phi.T @ phi))
    along = np.sum((vectors.T @ to_host(phi.T @ Y)) ** 2, axis=1)
    squares = float(namespace(Y).sum(Y * Y))
    total = max(rows.total, 2.0) - 1  # one row alone tells nothing of its noise
    return _Spectrum(np.maximum(eigenvalues, 0), along, squares, total, rows.Y.shape[1])


def settle(atoms: Atoms, rows: Rows) -> Evidence:
    """Signal and noise of largest evidence, for atoms that stay as they are."""
    seen = _spectrum(atoms, rows)
    s, v = best_variances(*seen, signal=SIGNAL, noise=(rows.least_noise, NOISE[1]))
    return Evidence(atoms, s, v, seen.minus_evidence(np.log(s), np.log(v)))


def settle_nearby(atoms: Atoms, rows: Rows) -> Evidence:
    """Signal and noise at a peak of the evidence near usual values, for atoms that will move.

    There may be a higher peak, with next to no noise and large coefficients. It is that of atoms in the wrong place,
    and a worse place to leave from.
    """
    seen = _spectrum(atoms, rows)
    grid = [np.array([log_signal, log_noise]) for log_signal in (-3, 0, 3, 6, 9) for log_noise in (-6, -3, -1.5, -0.5)]
    start = min(grid, key=lambda theta: seen.minus_evidence(*theta))
    best = minimize(
        lambda theta: (seen.minus_evidence(*theta), seen.slopes(*theta)),
        start,
        method="L-BFGS-B",
        jac=True,
        bounds=[np.log(SIGNAL), np.log((rows.least_noise, NOISE[1]))],
    )
    return Evidence(atoms, float(np.exp(best.x[0])), float(np.exp(best.x[1])), float(best.fun))


def coefficients(atoms: Atoms, rows: Rows, signal: float, noise: float) -> Solution:
    """Posterior mean of the coefficients, and the factor of their covariance, for atoms as they are."""
    values, _ = atom_values(atoms.like(rows.X), rows.X)
    mean = rows.mean(values)
    solved = _solve(rows.scale_rows(values - mean), rows.scale_rows(rows.Y), signal / noise)
    at = to_host(mean)
    return Solution(
        solved.beta, to_host(rows.mean(rows.Y)) - at @ solved.beta, at, np.sqrt(signal) * solved.inverse_factor
    )

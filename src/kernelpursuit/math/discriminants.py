"""Fisher's discriminant analysis in a span: class codes, the scatter within classes, and values at rows left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr, solve_triangular

from kernelpursuit.arrays import Array, from_host, namespace, to_host
from kernelpursuit.math.cholesky import pivot_limit, pivots

LABELS = ("centred", "raw")
_DETERMINED = 1e-8  # share of a row's weight left to the others below which its scatter is not taken out


class Within:
    """Within-class scatter dᵀBd of vectors over the samples, to which each class contributes equally.

    With n_c the size of class c and h the harmonic mean of the sizes, ``(Bv)_i = h / n_c * (v_i - v̄_c)`` for a sample i
    of class c, so that dᵀBd = h Σ_c σ_c², the sum of the class variances. For two classes this is the matrix
    B = D − C⁺ − C⁻ of kernel Fisher discriminant analysis. A product costs O(n C).

    Parameters
    ----------
    index : ndarray of int, shape (n_samples,)
        Class of each sample, 0 .. C - 1, none of them empty. On the host, or remote if the samples are.
    like : array
        Sets namespace, device and dtype.
    counts : ndarray of shape (n_samples,), optional
        Weights of the samples, where the classes are. All vectors are then multiplied by the roots of the weights.

    Examples
    --------
    >>> import numpy as np
    >>> Within(np.array([0, 0, 1]), np.zeros(3)).apply(np.array([[1.0], [3.0], [5.0]]))[:, 0]
    array([-0.66666667,  0.66666667,  0.        ])
    """

    def __init__(self, index: Array, like: Array, counts: Array | None = None):
        xp = namespace(index)
        self.roots = xp.ones_like(index, dtype=np.float64) if counts is None else xp.sqrt(counts)
        self.sizes = class_sizes(index, counts)
        self.harmonic = float(len(self.sizes) / np.sum(1 / self.sizes))
        self.member = members(index, len(self.sizes))
        self.weights = self.harmonic / (self.member @ self.sizes)
        self._indicators = from_host(self.roots[:, None] * self.member / np.sqrt(self.sizes), like)
        self._weights = from_host(self.weights[:, None], like)

    def centre(self, columns: Array) -> Array:
        """Columns without their class means."""
        return columns - self._indicators @ (self._indicators.T @ columns)

    def apply(self, columns: Array) -> Array:
        """B times the columns."""
        return self._weights * self.centre(columns)

    def forms(self, columns: Array) -> np.ndarray:
        """dᵀBd of each column, on the host."""
        centred = self.centre(columns)
        return to_host(namespace(columns).sum(self._weights * centred * centred, axis=0))

    def means(self, columns: Array) -> np.ndarray:
        """Class means of the columns, (C, n_columns), on the host."""
        return to_host(self._indicators.T @ columns) / np.sqrt(self.sizes)[:, None]

    def root(self, Q: Array, means: np.ndarray) -> np.ndarray:
        """Upper triangular N with NᵀN = QBQᵀ, from blocks of samples; `means` are the class means of the rows of Q."""
        k, n = Q.shape
        root = np.zeros((k, k))
        for start in range(0, n, 4096):
            rows = slice(start, min(start + 4096, n))
            block = to_host(Q[:, rows]).T - self.roots[rows][:, None] * (self.member[rows] @ means)
            root = triangle(np.concatenate([root, np.sqrt(self.weights[rows])[:, None] * block]))
        return root


def members(index: Array, n_classes: int) -> Array:
    """Membership of each sample in each class, bool of shape (n_samples, n_classes)."""
    return index[:, None] == np.arange(n_classes)


def class_sizes(index: Array, counts: Array | None = None) -> np.ndarray:
    """How many samples each class has, by weight."""
    if isinstance(index, np.ndarray):
        return np.bincount(index, weights=counts).astype(np.float64)
    xp = namespace(index)
    member = members(index, int(to_host(xp.max(index))) + 1)
    return to_host(xp.sum(member if counts is None else member * counts[:, None], axis=0))


def class_codes(index: Array, labels: str, counts: Array | None = None, sizes: np.ndarray | None = None) -> Array:
    """Codes of the classes: columns u whose products with an atom d measure how far apart the classes are in d.

    Two classes make one column: y = ±1 for ``"raw"``, and y − ȳ for ``"centred"``. C > 2 classes make C columns, each
    divided by √2. "raw" has ±1 for class c against the rest. "centred" has the columns with u_cᵀd = 2h(d̄_c − d̄), where
    d̄_c are the class means and d̄ is their mean. For C = 2 these formulas would give columns of the same ‖Uᵀd‖² as the
    single one. `counts` are the weights of the samples, `sizes` those of the classes where the samples stand for more.

    Examples
    --------
    >>> import numpy as np
    >>> class_codes(np.array([0, 1, 1]), "raw")[:, 0], class_codes(np.array([0, 1, 1]), "centred")[:, 0].round(2)
    (array([-1.,  1.,  1.]), array([-1.33,  0.67,  0.67]))
    """
    sizes = class_sizes(index, counts) if sizes is None else sizes
    n_classes = len(sizes)
    member = members(index, n_classes)
    if labels == "raw":
        codes = namespace(index).where(member, 1.0, -1.0)
    else:
        harmonic = float(n_classes / np.sum(1 / sizes))
        codes = 2 * harmonic * (member - 1 / n_classes) / (member @ sizes)[:, None]
    return codes[:, 1:] if n_classes == 2 else codes / np.sqrt(2)


class Discriminants(NamedTuple):
    """Discriminant analysis in the span of k atoms, for all smaller numbers of atoms as well.

    Coordinate t is a combination of the first t atoms. It has unit scatter within the classes, and is uncorrelated with
    the coordinates before it there. So the model of the first j atoms is the first j coordinates.
    """

    axes: np.ndarray  # (k, k) upper triangular: the coordinates are columns @ axes
    codes: np.ndarray  # (k, T), products of the coordinates with the class codes
    means: np.ndarray  # (C, k), class means of the coordinates
    scale: float  # times a coordinate: unit variance within the classes on average

    @classmethod
    def in_span(
        cls,
        Q: Array,
        R: np.ndarray,
        gram: np.ndarray,
        within: Within,
        codes: Array,
        *,
        alpha: float,
        rounding: float,
    ) -> Discriminants:
        """Discriminant analysis in the span of k atoms.

        F are the Nyström features of the atoms, and S = FᵀBF is their scatter matrix within the classes. A ridge
        makes it S + diag(λ). λ_t is alpha times the mean of the first t diagonal entries of S, and at least rounding
        error. It depends on the first t atoms only, so coordinates in which this matrix is the identity are found by a
        triangular solve.

        Parameters
        ----------
        Q : array of shape (k, n_samples)
            Orthonormal directions of the span.
        R : ndarray of shape (k, k)
            Upper triangular; the atoms are the columns of QᵀR.
        gram : ndarray of shape (k, k)
            Kernel values of the centres of the atoms.
        within : Within
        codes : array of shape (n_samples, T)
            As of `class_codes`.
        alpha : float
            Relative ridge.
        rounding : float
            Unit roundoff of the data.
        """
        k = len(R)
        scale = float(np.sqrt(within.harmonic * len(within.sizes)))
        means = within.means(Q.T)
        if k == 0:
            return cls(R, np.zeros((0, codes.shape[1])), means, scale)
        factor = feature_factor(gram, R, float(within.sizes.sum()), rounding)
        features = solve_triangular(factor, R.T, lower=True).T  # F = Qᵀ features
        scatter = within.root(Q, means) @ features
        count = np.arange(1, k + 1)
        ridge = max(alpha, rounding) * np.cumsum(np.sum(scatter**2, axis=0)) / count
        ridge += rounding**2 * np.cumsum(np.sum(features**2, axis=0)) / count
        inverse = solve_triangular(triangle(np.concatenate([scatter, np.diag(np.sqrt(ridge))])), np.eye(k))
        axes = solve_triangular(factor, inverse, lower=True, trans="T")
        turn = features @ inverse  # from directions to coordinates
        return cls(axes, turn.T @ to_host(Q @ codes), means @ turn, scale)


def left_out_values(
    found: Discriminants,
    Z: np.ndarray,
    index: np.ndarray,
    labels: str,
    weights: np.ndarray | None,
    counts: np.ndarray | None,
    sizes: list[int],
    unit: float = 1.0,
    class_sizes: np.ndarray | None = None,
) -> Iterator[np.ndarray]:
    """Values f(x_i), or f_c(x_i) for each class, of discriminants that were made without row i, for all rows at once.

    In coordinates of unit scatter a row z of class c, which lies d = z - μ_c from its mean, leaves with share s of the
    n_c rows of its class. Then μ_c becomes μ_c - d s/(n_c - s), and the scatter I - β d dᵀ with β = h s/(n_c - s); its
    inverse is I + d dᵀ β/(1 - β|d|²). The weight h/n_c that the class has in the scatter stays.

    Parameters
    ----------
    found : Discriminants
    Z : ndarray of shape (n, k)
        Coordinates of the rows: columns of the atoms times ``found.axes``.
    index : ndarray of int, shape (n,)
        Class of each row.
    labels : {"centred", "raw"}
    weights : ndarray of shape (n,), optional
    counts : ndarray of shape (n,), optional
        How many rows each stands for, of which one leaves; all of it where that is less than one.
    sizes : list of int
        Numbers of atoms, each a model of its own.
    unit : float
        Number by which the weights were divided when the discriminants were made.
    class_sizes : ndarray of shape (n_classes,), optional
        Of all rows, in that unit, where these are only some of them.

    Yields
    ------
    ndarray of shape (n, 1) for two classes, else (n, n_classes)
    """
    n = len(Z)
    w = np.ones(n) if weights is None else weights
    n_c = np.bincount(index, weights=w) / unit if class_sizes is None else class_sizes
    n_classes, harmonic = len(n_c), len(n_c) / np.sum(1 / n_c)
    share = w / (1.0 if counts is None else np.maximum(counts, 1)) / unit
    rest = n_c[index] - share
    moved = np.where(rest > 0, share / np.where(rest > 0, rest, 1), 0.0)[:, None]  # s / (n_c - s)
    D = Z - found.means[index]
    centre = found.means.mean(axis=0) - D * moved / n_classes
    gap = 1 - harmonic * moved * np.cumsum(D * D, axis=1)
    spread = np.where(gap > _DETERMINED, harmonic * moved / np.where(gap > _DETERMINED, gap, 1), 0.0)
    codes = class_codes(index, labels, sizes=n_c)
    values = []
    for column in range(codes.shape[1]):
        own = column if n_classes > 2 else 1
        mean = found.means[own] - D * (moved * (index == own)[:, None])
        middle = (mean + centre) / 2 if n_classes > 2 else centre
        if labels == "raw":
            weight = found.codes[:, column] - (share * codes[:, column])[:, None] * Z
        else:
            weight = 2 * harmonic * (mean - centre) / (np.sqrt(2) if n_classes > 2 else 1)
        direct = np.cumsum(weight * (Z - middle), axis=1)
        turned = np.cumsum(D * weight, axis=1) * np.cumsum(D * (Z - middle), axis=1)
        values.append((direct + spread * turned) / (np.sqrt(2) if n_classes > 2 else 1))
    for size in sizes:
        yield np.column_stack([one[:, size - 1] if size else np.zeros(n) for one in values])


def check_index(classes_index: Any) -> np.ndarray:
    """Class numbers 0 .. C - 1 of the samples, each class with a sample, C at least 2."""
    index = np.asarray(classes_index)
    if index.ndim != 1 or index.dtype.kind not in "iu" or len(index) == 0 or index.min() < 0:
        raise ValueError("classes_index must be a vector of class numbers from 0 on")
    index = index.astype(np.intp)
    sizes = np.bincount(index)
    if len(sizes) < 2 or sizes.min() == 0:
        raise ValueError(f"classes_index must have two classes or more and no empty one, got sizes {sizes.tolist()}")
    return index


def feature_factor(gram: np.ndarray, R: np.ndarray, n: float, rounding: float) -> np.ndarray:
    """Lower triangular Λ with ΛΛᵀ = `gram`, so that Λ⁻¹ maps kernel values to Nyström features.

    A pivot may be lost to rounding, or negative because the kernel is indefinite. Its atom then becomes a feature by
    itself. So the features span what the atoms span, whatever the kernel.
    """
    size = np.abs(np.diagonal(gram))
    least = np.diagonal(R) ** 2 / (n * (size.max() or np.max(np.diagonal(R)) / np.sqrt(n)))  # of a positive kernel
    factor, kept = np.zeros(gram.shape), np.zeros(len(gram), dtype=bool)
    columns, rows = pivots(gram, pivot_limit(rounding) * size)
    kept[rows] = True
    factor[:, kept] = columns
    factor[~kept] = np.diag(np.sqrt(np.maximum(size, least)))[~kept]
    return factor


def triangle(rows: np.ndarray) -> np.ndarray:
    """Upper triangular N with NᵀN = rowsᵀrows, its diagonal not negative."""
    N = qr(rows, mode="r", check_finite=False)[0][: rows.shape[1]]
    return N * np.where(np.diagonal(N) < 0, -1.0, 1.0)[:, None]

"""Descriptions of parameters and attributes that several estimators share, each written once.

In the docstring of a class, a line with nothing but such a name is replaced by the description.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import TypeVar

Class = TypeVar("Class", bound=type)

DESCRIPTIONS = {
    "variant": """variant : {"prefit", "backfit", "basic"} or basic, default="prefit"
        How atoms are chosen and fitted. "prefit" takes the atom that leaves the smallest residual once all weights are
        fitted again. "backfit" takes the atom most correlated with the residual, then fits all weights again
        (orthogonal matching pursuit). "basic" fits the new weight only, and may take an atom a second time;
        ``basic(shrinkage=0.5)`` of `kernelpursuit.parameters` takes half of each step.""",
    "gamma": """gamma : {"scale", "auto"} or float, default="scale"
        Parameter of the kernel; the larger it is, the narrower the Gaussian kernel. "scale" is
        ``1 / (n_features * X.var())`` and "auto" is ``1 / n_features``.""",
    "centers": """centers : None, int or array-like of shape (n_centers, n_features), default=None
        Where the kernel functions may be centred: on every training row (None), on so many rows drawn at random (a
        number), or on points of your own (an array).""",
    "candidates": """candidates : None, int, (epsilon, quantile) or "growing", default=None
        Size of the random sample of atoms that each step scores; None scores all of them. The best of s atoms is among
        the best share g of all with probability at least ``1 - (1 - g)**s``, whatever the data. A pair gives the size
        with which the best atom is above that quantile with probability 1 - epsilon: (0.05, 0.95) is 59. "growing"
        begins with 59 and adds 1.7 in each step, because late atoms are harder to find. Samples need no kernel matrix;
        if the matrix fits into memory, None is faster than samples of more than a fiftieth of the atoms.""",
    "weakness": """weakness : float, default=1
        Lowest score that an atom may have, as a share of the best score of all atoms at that moment. 1 takes exactly
        the atoms of greedy choice. 0.5 saves most passes over the data. ``path_.steps[i].weakness`` certifies the share
        that each atom had.""",
    "alpha": """alpha : float or "auto", default="auto"
        Ridge penalty: ``alpha * cᵀ K c`` is added to the loss, with c the weights of the chosen atoms and K their
        kernel matrix (``alpha * c²`` for a column of a function, and for all atoms where the kernel matrix has
        negative eigenvalues). With all atoms this is kernel ridge regression. "auto" chooses the atoms without a ridge,
        then the ridge that maximises the evidence: the probability of y given these atoms
        (:doc:`how </evidence/ridge_rules>`). 0 is least squares. For another loss "auto" is the ridge of the squared
        loss, times the ratio of the curvatures of the two losses at its fit; a regressor has one for each target. For
        the basic variant and ``stop="bound"``, "auto" is 0. The losses "tanh" and "doom2" are flat at large values, and
        only a ridge keeps values small: give a number with the basic variant.""",
    "fit_intercept": """fit_intercept : bool, default=True
        Whether the model has a constant term, to which the penalty does not apply.""",
    "memory": """memory : int, optional
        Bytes that the fit may take. The kernel matrix is kept if it fits; otherwise its values are computed again, tile
        by tile, at each pass over the data. By default the matrix may take a quarter of the free memory, and it is not
        kept where steps score samples. 0 never keeps it. Not counted: the pool of atoms that is tried out before a
        pass, half of `memory` at most, and inner products of these atoms (9 MB for 1,000 rows and 70 MB for 9,000 in
        `SparseKernelCCA`; less in others).""",
    "verbose": """verbose : int, default=0
        1 prints how the kernel matrix is stored, a line at 1, 2, 5, 10, 20, ... steps and why the fit stopped. 2 prints
        a line for every step.""",
    "resume": """resume : bool or path, default=False
        Whether `fit` continues an earlier fit to the same data. True keeps the atoms of the model and takes more, up to
        a larger `n_atoms`. A path names a file to which each step is appended: after a crash, a kill or an interrupt
        the same call continues with its steps; a file of other data or parameters is refused. Known atoms cost no pass
        over the data. The model is that of one long fit, with two exceptions. With
        ``weakness`` below 1 the new atoms may differ, each as good as `weakness` asks. With random draws, those after
        True are the same only if `random_state` is a number.""",
    "kmp_resume": """resume : bool or path, default=False
        Whether `fit` continues an earlier fit to the same data. True keeps the atoms of the model and takes more, up to
        a larger `n_atoms`. A path names a file to which each step is appended: after a crash, a kill or an interrupt
        the same call continues with its steps; a file of other data or parameters is refused. Known atoms cost no pass
        over the data. The model is that of one long fit, with three exceptions.
        With ``weakness`` below 1 the new atoms may differ, each as good as `weakness` asks. With `candidates`, atoms
        drawn after True are the same only if `random_state` is a number. With another loss than the squared one and
        ``alpha="auto"``, True keeps the ridge of the first fit.""",
    "selection": """selection : {"rayleigh", "diagonal", "random"}, default="rayleigh"
        How the next point is chosen. "rayleigh" takes the point that most lowers the sum of squared distances of all
        points to the span. "diagonal" takes the point farthest from the span (pivoted Cholesky, P-greedy). "random"
        draws a point with probability proportional to its squared distance (randomly pivoted Cholesky). The last two
        compute the kernel columns of the chosen points only.""",
    "one_kernel": """kernel : str, callable or (str, dict), default="rbf"
        A positive semidefinite kernel: a name of ``sklearn.metrics.pairwise``, a function of two matrices (as for SVC)
        or of two rows (as for KernelRidge), or "precomputed", with the kernel matrix as X. A pair such as
        ``("rbf", {"gamma": 0.5})`` has parameters of its own.""",
    "class_weight": """class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with those of the rows: a dictionary, or "balanced" for equal total weights.
        Classes not named in the dictionary have weight 1. The sum of all weights does not change. Class weights change
        the cost of errors, not the amount of evidence: ``n_atoms="auto"``, the ridge and the probabilities count rows.
        """,
    "path_": """path_ : Path
        Record of the pursuit: a `Step` for each atom taken, and why it ended.""",
    "n_features_in_": """n_features_in_ : int
        Number of columns of X in `fit`.""",
    "feature_names_in_": """feature_names_in_ : ndarray of str
        Names of the columns of X, where it has them.""",
    "classes_": """classes_ : ndarray of shape (n_classes,)
        The classes, sorted.""",
    "support_kernels_": """support_kernels_ : ndarray of shape (k,)
        Index of each atom's kernel in a list of kernels; -1 for a column of a function.""",
    "support_vectors_": """support_vectors_ : {ndarray, CSR array} of shape (k, n_features)
        The centres of the chosen kernel functions. Empty for a precomputed kernel.""",
    "gamma_": """gamma_ : float, list or None
        The value of `gamma` that was used. None for a kernel without gamma; a list for several kernels.""",
    "alpha_": """alpha_ : float
        The ridge that was used.""",
    "target_alpha_": """alpha_ : float or ndarray of shape (n_targets,)
        The ridge that was used. With ``alpha="auto"``, several targets and another loss than the squared one it is a
        NumPy array with the ridge of each target.""",
    "kernels": """kernel : str, callable, pair or list of these, default="rbf"
        A name of ``sklearn.metrics.pairwise``, a function of two matrices (as for SVC) or of two rows (as for
        KernelRidge), or "precomputed", with the kernel matrix as X. A pair such as ``("poly", {"degree": 2})`` or
        ``(function, {"width": 0.1})`` has parameters of its own. A list offers atoms of several kernels or widths. It
        may also hold ``columns(function)`` of `kernelpursuit.parameters`: functions of X whose columns join the atoms,
        such as known terms, trends or the inputs themselves. The kernel need not be positive definite.""",
    "class_kernels": """kernel : str, callable or list, default="rbf"
        A name of ``sklearn.metrics.pairwise``, a function of two matrices (as for SVC) or of two rows (as for
        KernelRidge), or "precomputed", with the kernel matrix as X. A pair such as ``("rbf", {"gamma": 0.5})`` has
        parameters of its own. A list offers atoms of several kernels or widths.""",
    "value_loss": """loss : {"squared_error", "huber", "absolute_error", "poisson"} or Loss, default="squared_error"
        The loss to minimise. "huber" grows linearly beyond 1.345 times a robust estimate of the spread of each target,
        so that outliers count less; ``losses.huber(delta)`` has another threshold. "absolute_error" estimates medians
        and ``losses.quantile(0.9)`` other quantiles. Both are smoothed near 0, over at most a twentieth of the spread
        of the residuals, less as the fit improves; the losses in `path_` are the smoothed ones.
        ``losses.quantile(share, width)`` has a fixed width. "poisson" is for counts and other non-negative targets: the
        expansion is the logarithm of the mean, `predict` returns the mean, and the loss is the deviance.""",
    "class_loss": """loss : {"squared_error", "log_loss", "exponential", "tanh", "doom2", "squared_hinge", "huber"} \
or Loss, default="squared_error"
        The loss to minimise. "log_loss" and "exponential" estimate probabilities; for the others probabilities are
        calibrated, see `predict_proba`. "tanh" is the squared error of tanh(f) against ±0.65, "doom2" is 1 - tanh of
        the margin, and "huber" grows linearly beyond a residual of 1 (another threshold: ``losses.huber(delta)``).""",
    "parameter_groups": """The number of terms, the kernel and its width matter most. Parameters from `loss` on describe
    the task, from `variant` on the pursuit, and from `candidates` on help with large data.""",
    "chosen_support_": """support_ : ndarray of shape (k,)
        Atoms in the order chosen: indices of training rows, or of `centers` if those were given. Indices of kernel i of
        a list begin at ``i * n_centers``, those of columns of functions after the last kernel.""",
    "labels": """labels : {"centred", "raw"}, default="centred"
        How the classes are coded. "centred" maximises the Fisher ratio. "raw" codes them as ±1, which is the published
        formula; the two agree for classes of equal size.""",
    "scatter_alpha": """alpha : float, default=1e-8
        Ridge on the scatter within the classes: atom t adds alpha times the mean scatter along the features of the
        first t atoms. Larger values prefer smooth functions.""",
    "candidates_seed": """random_state : int, RandomState or None, default=None
        Seed for `candidates`.""",
    "fit_seed": """random_state : int, RandomState or None, default=None
        Seed for `centers`, `candidates` and the held-out rows.""",
    "target_dual_coef_": """dual_coef_ : ndarray of shape (k,) or (k, n_targets)
        Weights of the atoms.""",
    "target_intercept_": """intercept_ : float or ndarray of shape (n_targets,)
        Constant term.""",
    "class_intercept_": """intercept_ : float or ndarray of shape (n_classes,)
        Constant term.""",
}
_NAME = re.compile(r"^(\w+)$", re.MULTILINE)


def described(cls: Class) -> Class:
    """Class decorator that replaces names alone on a line of the docstring by their descriptions.

    Examples
    --------
    >>> @described
    ... class Example:
    ...     '''Something.
    ...
    ...     memory
    ...     '''
    >>> "Bytes that the fit may take" in Example.__doc__
    True
    """
    doc = cleandoc(cls.__doc__ or "")
    cls.__doc__ = _NAME.sub(lambda match: DESCRIPTIONS.get(match[1], match[1]).replace("\n        ", "\n    "), doc)
    return cls

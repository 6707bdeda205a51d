"""Descriptions of the parameters and attributes that several estimators have in common, each written once.

In the docstring of a class a line that holds nothing but such a name stands for its description.
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
        Parameter of the kernel; for the Gaussian kernel the larger, the narrower. "scale" is
        ``1 / (n_features * X.var())`` and "auto" is ``1 / n_features``.""",
    "centers": """centers : None, int or array-like of shape (n_centers, n_features), default=None
        Where the kernel functions may sit. None allows every training row, a number so many rows drawn at random, and
        an array points of your own.""",
    "candidates": """candidates : None, int, (epsilon, quantile) or "growing", default=None
        How many atoms each step looks at, drawn at random anew. None looks at all of them. The best of s atoms is among
        the best share g of all with probability at least ``1 - (1 - g)**s``, whatever the data. A pair asks for the
        number with which the best is above that quantile with probability 1 - epsilon: (0.05, 0.95) is 59. "growing"
        begins with 59 and adds 1.7 in each step, because late atoms are harder to find. Samples need no matrix; those
        of more than a fiftieth of the atoms take longer than None.""",
    "weakness": """weakness : float, default=1
        How good an atom must be, as a share of the best score of all atoms at that moment. 1 takes exactly the atoms of
        plain greedy choice. With 0.5 most passes over the data are saved. ``path_.steps[i].weakness`` certifies what
        each atom reached.""",
    "alpha": """alpha : float or "auto", default="auto"
        Ridge penalty: ``alpha * cᵀ K c`` is added to the loss, with c the weights of the chosen atoms and K their
        kernel matrix (``alpha * c²`` for a column of a function, and for all atoms where the kernel matrix has
        eigenvalues below zero, as K is no penalty then). With all atoms this is kernel ridge regression.
        "auto" chooses the atoms without a ridge, and then the ridge under which y is most probable given these atoms:
        in closed form, on all rows (``docs/evidence/ridge_rules.md``). 0 is least squares. Other losses take the ridge
        of the squared one, in the proportion of the curvatures at its fit; in a regressor each target has its own. The
        basic variant and ``stop="bound"`` take "auto" for 0. The losses "tanh" and "doom2" become flat where values are
        large, and only a ridge keeps these small: with the basic variant give a number.""",
    "fit_intercept": """fit_intercept : bool, default=True
        Whether the model has a constant term. The penalty does not apply to it.""",
    "memory": """memory : int, optional
        Bytes that the fit may take. The kernel matrix is kept if it fits; otherwise its values are computed again, tile
        by tile, at each pass over the data. By default the matrix may take a quarter of the memory that is free where X
        is, and none is kept where only some columns are looked at. 0 never keeps it. Not counted is
        what atoms that are tried out at once take: half of it again at most, and, however little `memory` is, their
        inner products and as many numbers again (9 MB for 1,000 rows and 70 MB for 9,000, in
        `SparseKernelCCA`; less in others).""",
    "verbose": """verbose : int, default=0
        1 prints how the atoms are held, a line at 1, 2, 5, 10, 20, ... steps and why it stopped. 2 prints a line for
        every step.""",
    "resume": """resume : bool or path, default=False
        Whether `fit` goes on where an earlier fit to the same data ended. True takes the atoms that the model has, and
        goes on to a larger `n_atoms`. A path names a file to which each step is appended: after a crash, a kill or an
        interrupt the same call goes on with its steps. A file of other data or parameters is refused. Atoms that are
        known cost no pass over the data. The model is that of one long fit, but for two things. With ``weakness`` below
        1 the new atoms may be others, each as good as `weakness` asks. Where random draws are made, those after True
        are the same only if `random_state` is a number.""",
    "kmp_resume": """resume : bool or path, default=False
        Whether `fit` goes on where an earlier fit to the same data ended. True takes the atoms that the model has, and
        goes on to a larger `n_atoms`. A path names a file to which each step is appended: after a crash, a kill or an
        interrupt the same call goes on with its steps. A file of other data or parameters is refused. Atoms that are
        known cost no pass over the data. The model is that of one long fit, but for three things. With ``weakness``
        below 1 the new atoms may be others, each as good as `weakness` asks. With `candidates` those after True are the
        same only if `random_state` is a number. And with a loss other than the squared one and ``alpha="auto"``, True
        keeps the ridge of the first fit.""",
    "selection": """selection : {"rayleigh", "diagonal", "random"}, default="rayleigh"
        Which point comes next. "rayleigh" takes the one that brings the others closest to the span, summed over the
        squared distances. "diagonal" takes the one farthest from the span (pivoted Cholesky, P-greedy). "random" draws
        one with probability proportional to its squared distance (randomly pivoted Cholesky). The last two look at the
        kernel columns of the chosen points only.""",
    "one_kernel": """kernel : str, callable or (str, dict), default="rbf"
        A positive semidefinite kernel: a name of ``sklearn.metrics.pairwise``, a function of two matrices (as for SVC)
        or of two rows (as for KernelRidge), or "precomputed", with the kernel matrix as X. A pair such as
        ``("rbf", {"gamma": 0.5})`` has parameters of its own.""",
    "class_weight": """class_weight : dict, "balanced" or None, default=None
        Weights of the classes, times those of the rows: a dictionary, or "balanced" for weights with which all classes
        count alike. Classes that it does not name have weight 1. The sum of all weights stays what it was. They say how
        much an error matters and make no rows: ``n_atoms="auto"``, the ridge and the probabilities count a rare class
        as the rows that it has.""",
    "path_": """path_ : Path
        Record of the pursuit: a `Step` for each atom taken, and why it ended.""",
    "n_features_in_": """n_features_in_ : int
        Number of columns of X in `fit`.""",
    "feature_names_in_": """feature_names_in_ : ndarray of str
        Names of the columns of X, where it has them.""",
    "classes_": """classes_ : ndarray of shape (n_classes,)
        The classes, sorted.""",
    "support_kernels_": """support_kernels_ : ndarray of shape (k,)
        Number of the kernel that each atom belongs to, for a list of kernels; -1 for a column of a function.""",
    "support_vectors_": """support_vectors_ : {ndarray, CSR array} of shape (k, n_features)
        The points that the chosen kernel functions sit on. Empty for a precomputed kernel.""",
    "gamma_": """gamma_ : float, list or None
        The number that `gamma` came to. None for a kernel without one; a list for several.""",
    "alpha_": """alpha_ : float
        The ridge: the number that `alpha` came to.""",
    "target_alpha_": """alpha_ : float or ndarray of shape (n_targets,)
        The ridge: the number that `alpha` came to. For several targets and a loss
        other than the squared one "auto" comes to an array, NumPy's, of the ridge of each target.""",
    "kernels": """kernel : str, callable, pair or list of these, default="rbf"
        A name of ``sklearn.metrics.pairwise``, a function of two matrices (as for SVC) or of two rows (as for
        KernelRidge), or "precomputed", with the kernel matrix as X. A pair such as ``("poly", {"degree": 2})`` or
        ``(function, {"width": 0.1})`` has parameters of its own. A list offers atoms of several kernels or widths. It
        may also hold ``columns(function)`` of `kernelpursuit.parameters`: functions of X whose columns join the atoms,
        terms you know of, trends, the inputs themselves. The kernel need not be positive definite.""",
    "class_kernels": """kernel : str, callable or list, default="rbf"
        A name of ``sklearn.metrics.pairwise``, a function of two matrices (as for SVC) or of two rows (as for
        KernelRidge), or "precomputed", with the kernel matrix as X. A pair such as ``("rbf", {"gamma": 0.5})`` has
        parameters of its own. A list offers atoms of several kernels or widths.""",
    "value_loss": """loss : {"squared_error", "huber", "absolute_error", "poisson"} or Loss, default="squared_error"
        What is minimised. "huber" grows linearly from 1.345 times a robust estimate of the spread of each target on,
        so that outliers count less; ``losses.huber(delta)`` has a threshold of your own. "absolute_error" estimates
        medians and ``losses.quantile(0.9)`` other quantiles. So that they can be minimised, both are rounded off within
        a twentieth of the spread of the residuals, or less, and narrow with these as the fit gets better; the losses in
        `path_` are the rounded ones. ``losses.quantile(share, width)`` has a fixed width of your own. "poisson" is for
        counts and other targets from 0 on: the expansion is the logarithm of the mean, `predict` returns the mean, and
        the loss is the deviance.""",
    "class_loss": """loss : {"squared_error", "log_loss", "exponential", "tanh", "doom2", "squared_hinge", "huber"} \
or Loss, default="squared_error"
        What is minimised. "log_loss" and "exponential" estimate probabilities; those of the others are calibrated, see
        `predict_proba`. "tanh" is the squared error of tanh(f) against ±0.65, "doom2" is 1 - tanh of the margin, and
        "huber" grows linearly from a residual of 1 on (``losses.huber`` takes another number).""",
    "parameter_groups": """The number of terms, the kernel and its width matter most. Then come the parameters of the
    task (from `loss` on), of the pursuit itself (from `variant` on) and of large data (from `candidates` on).""",
    "chosen_support_": """support_ : ndarray of shape (k,)
        Atoms in the order chosen: indices of training rows, or of `centers` if those were given. Kernel i of a list
        counts from ``i * n_centers`` on, and the columns of functions come after the last kernel.""",
    "labels": """labels : {"centred", "raw"}, default="centred"
        How the classes are coded. "centred" maximises the Fisher ratio. "raw" takes the labels ±1 as they are, which is
        the formula as published; the two agree for classes of equal size.""",
    "scatter_alpha": """alpha : float, default=1e-8
        Ridge on the scatter within the classes: atom t adds alpha times the mean scatter along the features of the
        first t atoms. Larger values prefer smooth functions.""",
    "candidates_seed": """random_state : int, RandomState or None, default=None
        Seed for `candidates`.""",
    "fit_seed": """random_state : int, RandomState or None, default=None
        Seed for `centers`, `candidates` and the rows held out.""",
    "target_dual_coef_": """dual_coef_ : ndarray of shape (k,) or (k, n_targets)
        Weights of the atoms.""",
    "target_intercept_": """intercept_ : float or ndarray of shape (n_targets,)
        Constant term.""",
    "class_intercept_": """intercept_ : float or ndarray of shape (n_classes,)
        Constant term.""",
}
_NAME = re.compile(r"^(\w+)$", re.MULTILINE)


def described(cls: Class) -> Class:
    """Write the descriptions into the docstring of a class, where their names stand alone on a line.

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

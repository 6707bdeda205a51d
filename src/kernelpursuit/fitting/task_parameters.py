"""Constructors of kernel matching pursuit, for classes and for values."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from kernelpursuit._sklearn import Interval, StrOptions
from kernelpursuit.fitting.parameters import (
    GOING_ON,
    KERNEL_CONSTRAINTS,
    PURSUIT_CONSTRAINTS,
    STOP_CONSTRAINTS,
    OwnConstructor,
)

CLASS_CONSTRAINTS: dict[str, list] = {"class_weight": [StrOptions({"balanced"}), dict, None]}
VALUE_CONSTRAINTS: dict[str, list] = {"quantile": [Interval(Real, 0, 1, closed="neither")]}
FIT_CONSTRAINTS = STOP_CONSTRAINTS | PURSUIT_CONSTRAINTS | KERNEL_CONSTRAINTS | GOING_ON


class ClassPursuitParameters(OwnConstructor):
    """Constructor of a pursuit for classes."""

    _parameter_constraints: ClassVar[dict[str, Any]] = FIT_CONSTRAINTS | CLASS_CONSTRAINTS

    def __init__(
        self,
        n_atoms="auto",
        *,
        gamma="scale",
        alpha="auto",
        loss="squared",
        class_weight=None,
        kernel="rbf",
        degree=3,
        coef0=1,
        kernel_params=None,
        functions=None,
        centers=None,
        variant="prefit",
        refit_every=1,
        shrinkage=1.0,
        fit_intercept=True,
        tol=1e-10,
        stop=None,
        validation_fraction=0.2,
        patience=10,
        candidates=None,
        weakness=1.0,
        memory=None,
        resume=False,
        random_state=None,
        verbose=0,
    ):
        self.n_atoms = n_atoms
        self.gamma = gamma
        self.alpha = alpha
        self.loss = loss
        self.class_weight = class_weight
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.functions = functions
        self.centers = centers
        self.variant = variant
        self.refit_every = refit_every
        self.shrinkage = shrinkage
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.stop = stop
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.candidates = candidates
        self.weakness = weakness
        self.memory = memory
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose


class ValuePursuitParameters(OwnConstructor):
    """Constructor of a pursuit for values."""

    _parameter_constraints: ClassVar[dict[str, Any]] = FIT_CONSTRAINTS | VALUE_CONSTRAINTS

    def __init__(
        self,
        n_atoms="auto",
        *,
        gamma="scale",
        alpha="auto",
        loss="squared",
        quantile=0.5,
        kernel="rbf",
        degree=3,
        coef0=1,
        kernel_params=None,
        functions=None,
        centers=None,
        variant="prefit",
        refit_every=1,
        shrinkage=1.0,
        fit_intercept=True,
        tol=1e-10,
        stop=None,
        validation_fraction=0.2,
        patience=10,
        candidates=None,
        weakness=1.0,
        memory=None,
        resume=False,
        random_state=None,
        verbose=0,
    ):
        self.n_atoms = n_atoms
        self.gamma = gamma
        self.alpha = alpha
        self.loss = loss
        self.quantile = quantile
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.functions = functions
        self.centers = centers
        self.variant = variant
        self.refit_every = refit_every
        self.shrinkage = shrinkage
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.stop = stop
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.candidates = candidates
        self.weakness = weakness
        self.memory = memory
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose

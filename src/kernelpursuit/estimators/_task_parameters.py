"""Constructors with what only classes have, or only values."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from kernelpursuit._sklearn import Interval, StrOptions
from kernelpursuit.estimators._parameters import PursuitParameters, SearchParameters

CLASS_CONSTRAINTS: dict[str, list] = {"class_weight": [StrOptions({"balanced"}), dict, None]}
VALUE_CONSTRAINTS: dict[str, list] = {"quantile": [Interval(Real, 0, 1, closed="neither")]}


class ClassPursuitParameters(PursuitParameters):
    """The same for classes."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {**PursuitParameters._parameter_constraints, **CLASS_CONSTRAINTS}

    def __init__(
        self,
        n_atoms="auto",
        *,
        variant="prefit",
        loss="squared",
        class_weight=None,
        refit_every=1,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1,
        kernel_params=None,
        functions=None,
        centers=None,
        candidates=None,
        weakness=1.0,
        alpha="auto",
        shrinkage=1.0,
        fit_intercept=True,
        tol=1e-10,
        stop=None,
        validation_fraction=0.2,
        patience=10,
        warm_start=False,
        checkpoint=None,
        memory=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            n_atoms,
            variant=variant,
            loss=loss,
            refit_every=refit_every,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
            functions=functions,
            centers=centers,
            candidates=candidates,
            weakness=weakness,
            alpha=alpha,
            shrinkage=shrinkage,
            fit_intercept=fit_intercept,
            tol=tol,
            stop=stop,
            validation_fraction=validation_fraction,
            patience=patience,
            warm_start=warm_start,
            checkpoint=checkpoint,
            memory=memory,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight


class ValuePursuitParameters(PursuitParameters):
    """The same for values."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {**PursuitParameters._parameter_constraints, **VALUE_CONSTRAINTS}

    def __init__(
        self,
        n_atoms="auto",
        *,
        variant="prefit",
        loss="squared",
        quantile=0.5,
        refit_every=1,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1,
        kernel_params=None,
        functions=None,
        centers=None,
        candidates=None,
        weakness=1.0,
        alpha="auto",
        shrinkage=1.0,
        fit_intercept=True,
        tol=1e-10,
        stop=None,
        validation_fraction=0.2,
        patience=10,
        warm_start=False,
        checkpoint=None,
        memory=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            n_atoms,
            variant=variant,
            loss=loss,
            refit_every=refit_every,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
            functions=functions,
            centers=centers,
            candidates=candidates,
            weakness=weakness,
            alpha=alpha,
            shrinkage=shrinkage,
            fit_intercept=fit_intercept,
            tol=tol,
            stop=stop,
            validation_fraction=validation_fraction,
            patience=patience,
            warm_start=warm_start,
            checkpoint=checkpoint,
            memory=memory,
            random_state=random_state,
            verbose=verbose,
        )
        self.quantile = quantile


class ClassSearchParameters(SearchParameters):
    """The same for classes."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {**SearchParameters._parameter_constraints, **CLASS_CONSTRAINTS}

    def __init__(
        self,
        max_atoms=100,
        *,
        gammas=None,
        alphas=None,
        cv=None,
        scoring=None,
        n_jobs=None,
        one_standard_error=False,
        variant="prefit",
        loss="squared",
        class_weight=None,
        refit_every=1,
        kernel="rbf",
        degree=3,
        coef0=1,
        kernel_params=None,
        functions=None,
        centers=None,
        candidates=None,
        weakness=1.0,
        alpha="auto",
        shrinkage=1.0,
        fit_intercept=True,
        tol=1e-10,
        memory=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            max_atoms,
            gammas=gammas,
            alphas=alphas,
            cv=cv,
            scoring=scoring,
            n_jobs=n_jobs,
            one_standard_error=one_standard_error,
            variant=variant,
            loss=loss,
            refit_every=refit_every,
            kernel=kernel,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
            functions=functions,
            centers=centers,
            candidates=candidates,
            weakness=weakness,
            alpha=alpha,
            shrinkage=shrinkage,
            fit_intercept=fit_intercept,
            tol=tol,
            memory=memory,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight


class ValueSearchParameters(SearchParameters):
    """The same for values."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {**SearchParameters._parameter_constraints, **VALUE_CONSTRAINTS}

    def __init__(
        self,
        max_atoms=100,
        *,
        gammas=None,
        alphas=None,
        cv=None,
        scoring=None,
        n_jobs=None,
        one_standard_error=False,
        variant="prefit",
        loss="squared",
        quantile=0.5,
        refit_every=1,
        kernel="rbf",
        degree=3,
        coef0=1,
        kernel_params=None,
        functions=None,
        centers=None,
        candidates=None,
        weakness=1.0,
        alpha="auto",
        shrinkage=1.0,
        fit_intercept=True,
        tol=1e-10,
        memory=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            max_atoms,
            gammas=gammas,
            alphas=alphas,
            cv=cv,
            scoring=scoring,
            n_jobs=n_jobs,
            one_standard_error=one_standard_error,
            variant=variant,
            loss=loss,
            refit_every=refit_every,
            kernel=kernel,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
            functions=functions,
            centers=centers,
            candidates=candidates,
            weakness=weakness,
            alpha=alpha,
            shrinkage=shrinkage,
            fit_intercept=fit_intercept,
            tol=tol,
            memory=memory,
            random_state=random_state,
            verbose=verbose,
        )
        self.quantile = quantile

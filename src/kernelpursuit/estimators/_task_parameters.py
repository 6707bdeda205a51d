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
        warm_start=False,
        checkpoint=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            n_atoms,
            gamma=gamma,
            alpha=alpha,
            loss=loss,
            kernel=kernel,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
            functions=functions,
            centers=centers,
            variant=variant,
            refit_every=refit_every,
            shrinkage=shrinkage,
            fit_intercept=fit_intercept,
            tol=tol,
            stop=stop,
            validation_fraction=validation_fraction,
            patience=patience,
            candidates=candidates,
            weakness=weakness,
            memory=memory,
            warm_start=warm_start,
            checkpoint=checkpoint,
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
        warm_start=False,
        checkpoint=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            n_atoms,
            gamma=gamma,
            alpha=alpha,
            loss=loss,
            kernel=kernel,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
            functions=functions,
            centers=centers,
            variant=variant,
            refit_every=refit_every,
            shrinkage=shrinkage,
            fit_intercept=fit_intercept,
            tol=tol,
            stop=stop,
            validation_fraction=validation_fraction,
            patience=patience,
            candidates=candidates,
            weakness=weakness,
            memory=memory,
            warm_start=warm_start,
            checkpoint=checkpoint,
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
        alpha="auto",
        alphas=None,
        loss="squared",
        class_weight=None,
        cv=None,
        scoring=None,
        one_standard_error=False,
        n_jobs=None,
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
        candidates=None,
        weakness=1.0,
        memory=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            max_atoms,
            gammas=gammas,
            alpha=alpha,
            alphas=alphas,
            loss=loss,
            cv=cv,
            scoring=scoring,
            one_standard_error=one_standard_error,
            n_jobs=n_jobs,
            kernel=kernel,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
            functions=functions,
            centers=centers,
            variant=variant,
            refit_every=refit_every,
            shrinkage=shrinkage,
            fit_intercept=fit_intercept,
            tol=tol,
            candidates=candidates,
            weakness=weakness,
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
        alpha="auto",
        alphas=None,
        loss="squared",
        quantile=0.5,
        cv=None,
        scoring=None,
        one_standard_error=False,
        n_jobs=None,
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
        candidates=None,
        weakness=1.0,
        memory=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            max_atoms,
            gammas=gammas,
            alpha=alpha,
            alphas=alphas,
            loss=loss,
            cv=cv,
            scoring=scoring,
            one_standard_error=one_standard_error,
            n_jobs=n_jobs,
            kernel=kernel,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
            functions=functions,
            centers=centers,
            variant=variant,
            refit_every=refit_every,
            shrinkage=shrinkage,
            fit_intercept=fit_intercept,
            tol=tol,
            candidates=candidates,
            weakness=weakness,
            memory=memory,
            random_state=random_state,
            verbose=verbose,
        )
        self.quantile = quantile

"""Parameters of the estimators: their defaults, and what scikit-learn checks them against."""

from __future__ import annotations

from numbers import Integral, Real
from os import PathLike
from types import FunctionType
from typing import Any, ClassVar

from kernelpursuit._sklearn import Interval, StrOptions
from kernelpursuit.criteria.base import VARIANTS
from kernelpursuit.kernels.kernels import KERNEL_NAMES

_AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
# Parameters of every estimator here, with what scikit-learn checks them against.
KERNEL_CONSTRAINTS: dict[str, list] = {
    "kernel": [StrOptions(set(KERNEL_NAMES) | {"precomputed"}), callable, list, tuple, None],
    "gamma": [Interval(Real, 0, None, closed="left"), StrOptions({"scale", "auto"})],
    "degree": [Interval(Real, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "kernel_params": [dict, None],
    "functions": [list, tuple, None],
    "centers": [_AT_LEAST_ONE, "array-like", "sparse matrix", None],
}
PURSUIT_CONSTRAINTS: dict[str, list] = {
    "variant": [StrOptions(set(VARIANTS))],
    "refit_every": [_AT_LEAST_ONE, None],
    "candidates": [_AT_LEAST_ONE, StrOptions({"growing"}), tuple, None],
    "weakness": [Interval(Real, 0, 1, closed="right")],
    "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    "shrinkage": [Interval(Real, 0, 1, closed="right")],
    "fit_intercept": ["boolean"],
    "tol": [Interval(Real, 0, None, closed="left")],
    "memory": [Interval(Integral, 0, None, closed="left"), None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}
GOING_ON: dict[str, list] = {"resume": ["boolean", str, PathLike]}
STOP_CONSTRAINTS: dict[str, list] = {
    "n_atoms": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],  # 0: a constant, as of truncate(0)
    "stop": [StrOptions({"bound", "certificate", "gcv", "leave_one_out", "validation"}), callable, None],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "patience": [_AT_LEAST_ONE],
}


class OwnConstructor:
    """Gives a class the constructor that it inherits under its own name, so that errors name the class."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            return
        inherited: Any = cls.__init__
        own = FunctionType(
            inherited.__code__, inherited.__globals__, "__init__", inherited.__defaults__, inherited.__closure__
        )
        own.__kwdefaults__, own.__doc__ = inherited.__kwdefaults__, inherited.__doc__
        own.__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__ = own  # type: ignore[method-assign]


class RankingParameters(OwnConstructor):
    """Constructor of the ranker: no constant changes an order, and losses are those of pairs."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **STOP_CONSTRAINTS,
        **GOING_ON,
        **{name: rule for name, rule in (PURSUIT_CONSTRAINTS | KERNEL_CONSTRAINTS).items() if name != "fit_intercept"},
        "loss": [StrOptions({"squared", "logistic"})],
        "stop": [StrOptions({"certificate", "gcv", "leave_one_group_out", "validation"}), callable, None],
    }

    def __init__(
        self,
        n_atoms="auto",
        *,
        gamma="scale",
        alpha="auto",
        loss="squared",
        kernel="rbf",
        degree=3,
        coef0=1,
        kernel_params=None,
        functions=None,
        centers=None,
        variant="prefit",
        refit_every=1,
        shrinkage=1.0,
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
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.functions = functions
        self.centers = centers
        self.variant = variant
        self.refit_every = refit_every
        self.shrinkage = shrinkage
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

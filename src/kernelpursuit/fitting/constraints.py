"""Constraints of parameters that several estimators share, as scikit-learn checks them."""

from __future__ import annotations

from numbers import Integral, Real
from os import PathLike

from kernelpursuit._sklearn import Interval, StrOptions
from kernelpursuit.kernels.kernels import KERNEL_NAMES
from kernelpursuit.parameters import basic, bound, certificate, gcv, leave_one_out, tolerance, validation

AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
ONE_KERNEL: list = [StrOptions(set(KERNEL_NAMES) | {"precomputed"}), callable, tuple]
KERNEL_CONSTRAINTS: dict[str, list] = {
    "kernel": [*ONE_KERNEL, list],
    "gamma": [NOT_NEGATIVE, StrOptions({"scale", "auto"})],
    "centers": [AT_LEAST_ONE, "array-like", "sparse matrix", None],
}
PURSUIT_CONSTRAINTS: dict[str, list] = {
    "candidates": [AT_LEAST_ONE, StrOptions({"growing"}), tuple, None],
    "weakness": [Interval(Real, 0, 1, closed="right")],
    "memory": [Interval(Integral, 0, None, closed="left"), None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}
RESUME_CONSTRAINTS: dict[str, list] = {"resume": ["boolean", str, PathLike]}
CLASS_CONSTRAINTS: dict[str, list] = {"class_weight": [StrOptions({"balanced"}), dict, None]}
KMP_CONSTRAINTS: dict[str, list] = {
    "n_atoms": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],  # 0: a constant, as of truncate(0)
    "alpha": [NOT_NEGATIVE, StrOptions({"auto"})],
    "variant": [StrOptions({"prefit", "backfit", "basic"}), basic],
    "stop": [
        StrOptions({"bound", "certificate", "gcv", "leave_one_out", "validation"}),
        bound,
        certificate,
        gcv,
        leave_one_out,
        tolerance,
        validation,
        callable,
        None,
    ],
    "fit_intercept": ["boolean"],
    **KERNEL_CONSTRAINTS,
    **PURSUIT_CONSTRAINTS,
    **RESUME_CONSTRAINTS,
}

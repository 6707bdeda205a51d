"""Kernels: functions of two data matrices, made from plain parameters; the Gaussian kernel has a fast form."""

from kernelpursuit.kernels.kernels import Kernel, make_kernel, scale_gamma

__all__ = ["Kernel", "make_kernel", "scale_gamma"]

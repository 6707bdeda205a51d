"""DᵀV of a Gaussian kernel on a CUDA device in one fused loop: no tile of the matrix ever leaves the registers.

Tensor cores read 11 bits of a float32, so each number is stored as the sum of two such numbers and a product is three;
that is faster than Triton's "tf32x3", which splits on the fly (0.075 against 0.113 s on an eighth of 551,012 points).
Triton compiles the loop when it is first needed. Without Triton, or where it fails, the plain tile loop does the same
work at a third of the speed.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from math import log2
from typing import Any, NamedTuple

import numpy as np

from kernelpursuit.arrays import Array, gather, namespace
from kernelpursuit.kernels.gaussian import GaussianPoints, gaussian_float64

tl: Any = None  # triton.language: the compiler looks the name up here

PADDING = 256  # rows and centres are padded to a multiple of it, so that no block needs a mask
MOST_VECTORS = 64
MOST_FEATURES = 253  # 256 with the three that are added
FLUSH = 4096  # rows whose float32 sums are added to float64 ones
LONGEST = 1e6  # γ|x|² above this is 0 for all pairs that are not both far, and would cost digits
FAR_PAIR = 2.0**14  # subtracted from the exponent of two far points: exactly 0, and added in float64 afterwards


class Config(NamedTuple):
    """Blocks of the fused loop: centres and rows of a tile, warps, stages of the load pipeline."""

    centres: int
    rows: int
    warps: int
    stages: int


# The fastest first; the later ones are for many features or vectors and for devices with less shared memory.
CONFIGS = (
    Config(128, 64, 8, 3),
    Config(128, 64, 8, 2),
    Config(64, 64, 4, 2),
    Config(64, 32, 4, 2),
    Config(64, 32, 4, 1),
)


def fitting_config(features: int, vectors: int, shared_memory: int) -> Config | None:
    """The first of `CONFIGS` whose blocks of centres, rows and vectors fit the shared memory of a multiprocessor.

    Examples
    --------
    >>> fitting_config(64, 16, 232448)
    Config(centres=128, rows=64, warps=8, stages=3)
    >>> fitting_config(512, 16, 232448) is None
    True
    """
    for config in CONFIGS:
        numbers = config.centres * features + config.stages * config.rows * (features + vectors)
        if 8 * numbers <= shared_memory:  # two numbers of 4 bytes for each
            return config
    return None


class FusedPass:
    """out = K(Z, X) V for points of a Gaussian kernel, float32 on a CUDA device.

    Parameters
    ----------
    X, Z : GaussianPoints
    config : Config, optional
        Default: the first that fits the device.
    """

    def __init__(self, X: GaussianPoints, Z: GaussianPoints, config: Config | None = None):
        self.X, self.Z, self.config = X, Z, config
        self._layouts: Any = None
        self._works = True

    @classmethod
    def for_points(cls, X: Any, Z: Any) -> FusedPass | None:
        """A fused pass where one is possible: a torch tensor in float32 on a CUDA device, with Triton at hand."""
        if not isinstance(X, GaussianPoints) or getattr(X.rows, "is_cuda", False) is not True:
            return None
        few_far = 8 * len(X.far_rows) * len(Z.far_rows) <= X.shape[0] * Z.shape[0]
        single = X.rows.dtype == namespace(X.rows).float32
        narrow = X.shape[1] <= MOST_FEATURES
        return cls(X, Z) if single and narrow and few_far and find_spec("triton") else None

    def __call__(self, V: Array) -> Array | None:
        """(n_atoms, V.shape[1]), float64 on the device; None where the loop does not compile or run."""
        if not self._works:
            return None
        torch = import_module("torch")
        try:
            with torch.cuda.device(V.device):
                parts = [self._run(torch, V[:, i : i + MOST_VECTORS]) for i in range(0, V.shape[1], MOST_VECTORS)]
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            self._works = False
            warnings.warn(f"the fused pass is not available, tiles are used: {error!r}", RuntimeWarning, stacklevel=2)
            return None
        out = torch.cat(parts, dim=1)
        _add_far_pairs(out, self.X, self.Z, V)
        return out

    def _run(self, torch: Any, V: Array) -> Array:
        """One launch for at most `MOST_VECTORS` vectors."""
        if self._layouts is None:
            self._layouts = layout(torch, self.X, side="rows"), layout(torch, self.Z, side="centres")
        (xh, xl), (zh, zl) = self._layouts
        n, m, b = xh.shape[0], zh.shape[0], V.shape[1]
        vectors = torch.zeros((max(16, power_of_two(b)), n), dtype=torch.float32, device=V.device)
        vectors[:b, : V.shape[0]] = V.T
        vh, vl = split_bits(torch, vectors)
        device = torch.cuda.get_device_properties(V.device)
        shared = getattr(device, "shared_memory_per_block_optin", 2**16)
        config = self.config or fitting_config(xh.shape[1], vectors.shape[0], shared)
        if config is None:
            raise ValueError(f"{self.X.shape[1]} features are too many for the shared memory of this device")
        grid = m // config.centres
        # Few centres: the rows are cut into parts, so that each multiprocessor has several programs to run.
        processors = device.multi_processor_count
        span = PADDING * -(-n // (PADDING * min(n // PADDING, -(-8 * processors // grid))))
        parts = -(-n // span)
        out = torch.empty((parts, m, vectors.shape[0]), dtype=torch.float64, device=V.device)
        compiled_loop()[(grid, parts)](
            zh, zl, xh, xl, vh, vl, out, n, m, span,
            D=xh.shape[1], B=vectors.shape[0], BLOCK_M=config.centres, BLOCK_N=config.rows, CHUNK=FLUSH,
            num_warps=config.warps, num_stages=config.stages,
        )  # fmt: skip
        return torch.sum(out, dim=0)[: self.Z.shape[0], :b]


def power_of_two(k: int) -> int:
    """Smallest power of two that is at least `k`.

    Examples
    --------
    >>> power_of_two(57), power_of_two(64)
    (64, 64)
    """
    return 1 << (k - 1).bit_length()


def layout(torch: Any, points: GaussianPoints, side: str) -> tuple[Array, Array]:
    """Points as the loop reads them: features padded to a power of two, rows to `PADDING`, split in two numbers.

    A row times a centre is log2(e) times the exponent. One more feature makes pairs of far points 0.
    """
    n, d = points.shape
    far = torch.zeros(n, dtype=torch.float32, device=points.rows.device)
    if points.far is not None:
        far = torch.asarray(points.far, dtype=torch.float32, device=points.rows.device)
    height = -points.rows[:, d]
    scale = torch.where(height > LONGEST, 0.0, 1.0)[:, None]
    padded = torch.zeros(
        (PADDING * -(-n // PADDING), max(16, power_of_two(d + 3))), dtype=torch.float32, device=points.rows.device
    )
    padded[:n, :d] = points.rows[:, :d] * scale
    norm, one, flag = (d, d + 1, -FAR_PAIR * far) if side == "rows" else (d + 1, d, far)
    padded[:n, norm] = -torch.clamp(height, max=LONGEST)
    padded[:n, one] = 1.0
    padded[:n, d + 2] = flag
    return split_bits(torch, padded * log2(np.e) if side == "rows" else padded)


def split_bits(torch: Any, x: Array) -> tuple[Array, Array]:
    """`x` as a sum of two numbers, the first with the 11 leading bits that tensor cores read of a float32."""
    high = (x.view(torch.int32) & -8192).view(torch.float32)
    return high, x - high


def _add_far_pairs(out: Array, X: GaussianPoints, Z: GaussianPoints, V: Array) -> None:
    """Add to `out` what the loop left out: products of far points with far centres, some centres at a time."""
    xp, rows, centres = namespace(V), X.far_rows, Z.far_rows
    if not len(rows) or not len(centres):
        return
    points, vectors = X[rows], xp.astype(gather(V, rows), xp.float64)
    size = max(1, 2**26 // len(rows))
    for J in (centres[i : i + size] for i in range(0, len(centres), size)):
        values = xp.astype(gaussian_float64(Z[J], points), xp.float64)
        out[xp.asarray(J, device=out.device), :] += values @ vectors


_LOOP: list[Any] = []


def compiled_loop() -> Any:  # pragma: no cover - needs a CUDA device
    """The loop as a Triton function, made at the first call."""
    if not _LOOP:
        globals()["tl"] = import_module("triton.language")
        _LOOP.append(import_module("triton").jit(_fused_loop))
    return _LOOP[0]


def _fused_loop(  # pragma: no cover - compiled by Triton
    ZH, ZL, XH, XL, VH, VL, OUT, n, m, span,
    D: tl.constexpr, B: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """OUT[part] = exp2(Z X.T) V.T over the rows of a part; X is (n, D), Z (m, D), V (B, n), OUT (parts, m, B)."""
    centre = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    part = tl.program_id(1)
    feature = tl.arange(0, D)
    vector = tl.arange(0, B)
    step = tl.arange(0, BLOCK_N)
    at_z = centre.to(tl.int64)[:, None] * D + feature[None, :]
    zh = tl.load(ZH + at_z)
    zl = tl.load(ZL + at_z)
    first = part * span
    last = tl.minimum(first + span, n)
    total = tl.zeros((BLOCK_M, B), dtype=tl.float64)
    for chunk in range(first, last, CHUNK):
        end = tl.minimum(chunk + CHUNK, last)
        acc = tl.zeros((BLOCK_M, B), dtype=tl.float32)
        for start in range(chunk, end, BLOCK_N):
            row = (start + step).to(tl.int64)
            at_x = row[None, :] * D + feature[:, None]  # (D, BLOCK_N): features lie together
            at_v = row[:, None] + vector.to(tl.int64)[None, :] * n  # (BLOCK_N, B): rows lie together
            xh = tl.load(XH + at_x)
            xl = tl.load(XL + at_x)
            vh = tl.load(VH + at_v)
            vl = tl.load(VL + at_v)
            exponent = tl.dot(zl, xh, input_precision="tf32")  # small terms first
            exponent = tl.dot(zh, xl, exponent, input_precision="tf32")
            exponent = tl.dot(zh, xh, exponent, input_precision="tf32")
            k = tl.exp2(exponent)
            kh = (k.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
            kl = k - kh
            acc = tl.dot(kl, vh, acc, input_precision="tf32")
            acc = tl.dot(kh, vl, acc, input_precision="tf32")
            acc = tl.dot(kh, vh, acc, input_precision="tf32")
        total += acc.to(tl.float64)
    at_out = (part.to(tl.int64) * m + centre.to(tl.int64)[:, None]) * B + vector[None, :]
    tl.store(OUT + at_out, total)

"""A step of a descent on an NVIDIA GPU, recorded once and replayed: to launch kernels takes longer than to run them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def recorded(state_after: Callable[..., Any], state: Any, first: Any) -> Callable[..., Any]:
    """``state_after(state, data, rows, rate)`` as a CUDA graph. It works in place, on `state`.

    Parameters
    ----------
    state_after : callable
        Of the same signature as what is returned; made of operations on tensors alone.
    state : named tuple of tensors
        Where it starts; each call changes it.
    first : named tuple of tensors or None
        A batch of the size that all have, which is copied: each call fills the copy with ``data.rows(rows)``.
    """
    torch = import_module("torch")
    data = type(first)(*(None if part is None else part.clone() for part in first))
    everything, rate = slice(0, data.X.shape[0]), torch.zeros((), dtype=data.X.dtype, device=data.X.device)
    kept = [part.clone() for part in state]

    def in_place() -> None:
        for part, new in zip(state, state_after(state, data, everything, rate), strict=True):
            part.copy_(new)

    again = _captured(in_place, data.X.device)
    for part, old in zip(state, kept, strict=True):
        part.copy_(old)

    def replay(state: Any, source: Any, rows: slice, now: float) -> Any:
        for part, new in zip(data, source.rows(rows), strict=True):
            if part is not None:
                part.copy_(new)
        rate.fill_(now)
        again()
        return state

    return replay


def _captured(work: Callable[[], None], device: Any) -> Callable[[], None]:
    """What repeats the kernels that `work` launches. It is run once, or more often, on the way."""
    torch = import_module("torch")
    aside = torch.cuda.Stream(device)
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside):  # libraries set themselves up, which cannot be recorded
        work()
    torch.cuda.current_stream(device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        work()
    return graph.replay

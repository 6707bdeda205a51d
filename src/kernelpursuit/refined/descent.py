"""Any loss, any number of rows: coefficients and atoms move together, by Adam on mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from kernelpursuit._sklearn import usable_threads
from kernelpursuit.arrays import Array, from_host, gather, namespace, to_host
from kernelpursuit.atoms.threads import one_blas_thread, spans
from kernelpursuit.losses import LOSSES
from kernelpursuit.refined.moving_atoms import Atoms, atom_values, pull_back

CHUNK = 256  # rows that one thread works on; fixed, so that results do not depend on the number of threads
FIRST, SECOND, TINY = 0.9, 0.99, 1e-12  # of Adam
WARM_UP, FIRST_RATE = 0.2, 0.1  # share of the steps in which the rate rises, and what it rises from
FARTHEST = 9.0  # of the logarithm of a width or a weight from 0: beyond it float32 exponents lose their digits


class Model(NamedTuple):
    """Coefficients on atoms.

    Attributes
    ----------
    coef : array of shape (k, q)
    intercept : array of shape (q,)
    atoms : Atoms
    """

    coef: Array
    intercept: Array
    atoms: Atoms

    def like(self, x: Array) -> Model:
        """A copy of the model in the namespace, on the device and with the dtype of `x`, from one on the host."""
        return Model(from_host(self.coef, x), from_host(self.intercept, x), self.atoms.like(x))

    def on_host(self) -> Model:
        """A copy of the model whose arrays are NumPy's, in float64."""
        return Model(to_host(self.coef), to_host(self.intercept), Atoms(*(to_host(part) for part in self.atoms)))


class Rates(NamedTuple):
    """Largest step of Adam in each group of parameters."""

    coef: float = 0.3
    centers: float = 0.015
    widths: float = 0.02
    weights: float = 0.02


def slope(loss: str, Y: Array, values: Array) -> Array:
    """Derivative of the loss of each row in its values, (n, q).

    "squared_error" is half the squared error; "log_loss" takes ±1 targets, each column a problem of its own; "softmax"
    takes an indicator of the class.
    """
    if loss == "squared_error":
        return values - Y
    if loss == "log_loss":
        return LOSSES["log_loss"].gradient(Y, values)
    if loss == "softmax":
        return softmax(values) - Y
    raise ValueError(f"loss must be 'squared_error', 'log_loss' or 'softmax', got {loss!r}")


def softmax(values: Array) -> Array:
    """Probabilities of the classes, from one value for each.

    Examples
    --------
    >>> softmax(np.array([[1000.0, 1000.0], [0.0, np.log(3)]]))
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """
    xp = namespace(values)
    raised = xp.exp(values - xp.max(values, axis=1, keepdims=True))
    return raised / xp.sum(raised, axis=1, keepdims=True)


def row_losses(loss: str, Y: Array, values: Array) -> Array:
    """What `slope` is the derivative of, (n,)."""
    xp = namespace(values)
    if loss == "squared_error":
        return xp.sum((values - Y) ** 2, axis=1) / 2
    if loss == "log_loss":
        return xp.sum(LOSSES["log_loss"].value(Y, values), axis=1)
    top = xp.max(values, axis=1)
    return xp.log(xp.sum(xp.exp(values - top[:, None]), axis=1)) + top - xp.sum(values * Y, axis=1)


def batch_loss(loss: str, Y: Array, values: Array, weights: Array | None = None) -> float:
    """Weighted mean over the rows of their losses."""
    xp, rows = namespace(values), row_losses(loss, Y, values)
    total = xp.sum(rows if weights is None else rows * weights)
    return float(total) / (values.shape[0] if weights is None else float(xp.sum(weights)))


def best_slope(loss: str, Y: Array, values: Array, weights: Array | None = None) -> tuple[float, float]:
    """Factor of the values that makes their mean loss lowest, and that loss: 1 for the squared loss."""
    if loss == "squared_error":
        return 1.0, batch_loss(loss, Y, values, weights)
    found = minimize_scalar(
        lambda log_slope: batch_loss(loss, Y, float(np.exp(log_slope)) * values, weights),
        bounds=(-4, 4),
        method="bounded",
    )
    return float(np.exp(found.x)), float(found.fun)


def gradient(model: Model, X: Array, Y: Array, weights: Array | None, loss: str, penalty: float) -> Model:
    """Gradient of the sum over rows of weight times loss, plus the number of rows times ``penalty / 2 ‖coef‖²``."""
    phi, rows = atom_values(model.atoms, X)
    by_values = slope(loss, Y, phi @ model.coef + model.intercept)
    if weights is not None:
        by_values = by_values * weights[:, None]
    by_atoms = pull_back(model.atoms, X, rows, (by_values @ model.coef.T) * phi)
    by_coef = phi.T @ by_values + penalty * X.shape[0] * model.coef
    return Model(by_coef, namespace(X).sum(by_values, axis=0), by_atoms)


class _Flat:
    """All parameters of a model as one vector, so that Adam is a handful of operations whatever their number."""

    def __init__(self, model: Model):
        parts = (model.coef, model.intercept, *model.atoms)
        self.shapes = [tuple(part.shape) for part in parts]
        self.ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes]).tolist()

    def join(self, model: Model) -> Array:
        parts = (model.coef, model.intercept, *model.atoms)
        xp = namespace(parts[0])
        return xp.concat([part if part.ndim == 1 else xp.reshape(part, (-1,)) for part in parts])

    def split(self, vector: Array) -> Model:
        parts = [vector[a:b] for a, b in zip([0, *self.ends], self.ends, strict=False)]
        for part in (0, 2):  # the others are vectors
            parts[part] = namespace(vector).reshape(parts[part], self.shapes[part])
        return Model(parts[0], parts[1], Atoms(*parts[2:]))


def descend(
    model: Model,
    rows: Any,
    *,
    loss: str,
    epochs: int = 60,
    batch: int = 1024,
    rates: Rates = Rates(),  # noqa: B008
    penalty: float = 1e-6,
    jitter: float = 0.0,
    rng: np.random.Generator,
    begun: int = 0,
    report: Callable[[int, Model], bool] | None = None,
    stages: Any = None,
) -> tuple[Model, bool]:
    """Lower the mean loss by Adam with a rate that rises once and falls to 0.

    Parameters
    ----------
    model : Model
        Start, on the host.
    rows : Batch
        Or remote rows with the attributes and methods of a `Batch`.
    loss : {"squared_error", "log_loss", "softmax"}
    epochs, batch : int
    rates : Rates
    penalty : float
        Of ``‖coef‖² / 2``, beside the mean loss.
    jitter : float
        Standard deviation of noise that is added to the inputs, new in each epoch: what rows near each other differ by
        is not to be learned.
    rng : numpy.random.Generator
        Shuffles the rows, and draws the noise.
    begun : int
        Epochs that are left out at the beginning: a model that has descended before only needs the last.
    report : callable, optional
        ``report(epoch, model)`` after each epoch; a true answer ends the descent.
    stages : Stages, optional
        Hears of each epoch, and keeps each tenth of them. Of those that it has there is only a report at the end.

    Returns
    -------
    model : Model
        On the host.
    interrupted : bool
        Whether an interrupt (Ctrl-C) ended it; the model is that of the last step then.
    """
    n = rows.n_rows
    steps = -(-n // batch)  # of an epoch, all of one size; fewer rows than steps are left over in each epoch
    batch = n // steps
    flat, adam = _Flat(model), _Adam(rates, epochs * steps)
    here = adam.start(flat, model.like(rows.like))
    interrupted, tenth, last = False, max(1, epochs // 10), epochs
    for epoch in range(begun - begun % tenth + tenth, epochs + 1, tenth):
        found = None if stages is None else stages.read(f"epoch {epoch} of {epochs}, {flat.shapes}")
        if found is None:
            break
        state, rng.bit_generator.state = found
        here, begun = State(*(from_host(part, here.theta) for part in state)), epoch
        if report is not None and report(epoch, flat.split(here.theta)):
            last = epoch
            break
    adam.taken = begun * steps

    with rows.mean_gradients() as mean_gradient:
        try:
            for epoch in range(begun + 1, last + 1):
                shuffled = rows.shuffled(rng, jitter)
                with nullcontext() if stages is None else stages.with_callbacks(f"epoch {epoch} of {epochs}"):
                    for part in spans(0, batch * steps, batch):
                        gradient = mean_gradient(shuffled, flat, here.theta, (loss, penalty), part)
                        here = adam.after(here, gradient, adam.rate())
                if stages is not None and epoch % tenth == 0:
                    state = [to_host(part) for part in here]
                    stages.write(f"epoch {epoch} of {epochs}, {flat.shapes}", [state, rng.bit_generator.state])
                if report is not None and report(epoch, flat.split(here.theta)):
                    break
        except KeyboardInterrupt:
            interrupted = True
    return flat.split(here.theta).on_host(), interrupted


class Batch(NamedTuple):
    """The rows of a descent.

    Attributes
    ----------
    X : array of shape (n, d)
        Centred, of order 1; its dtype is the precision of the descent.
    Y : array of shape (n, q)
    weights : array of shape (n,), optional
        Of mean 1.
    """

    X: Array
    Y: Array
    weights: Array | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    @property
    def like(self) -> Array:
        """An array of the library, the device and the precision of the descent."""
        return self.X

    def gather(self, J: np.ndarray) -> Batch:
        """Rows in another order."""
        return Batch(*(None if part is None else gather(part, J) for part in self))

    def shuffled(self, rng: np.random.Generator, jitter: float) -> Batch:
        """The rows of an epoch: in a new order, with noise in their inputs."""
        rows = self.gather(rng.permutation(self.n_rows))
        return rows if jitter == 0 else rows._replace(X=rows.X + jitter * normal(rows.X, rng))

    @contextmanager
    def mean_gradients(self) -> Iterator[Callable[..., Array]]:
        """``mean_gradient(shuffled, flat, theta, how, part)``, the mean over a part of the rows of an epoch.

        NumPy takes chunks on all cores, other libraries the whole part. `how` is the loss and the penalty.
        """
        if not isinstance(self.X, np.ndarray):
            yield _mean_gradient
        elif (threads := usable_threads()) == 1:
            yield partial(_mean_gradient_by_chunks, map)
        else:
            with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
                yield partial(_mean_gradient_by_chunks, pool.map)


def flat_gradient(flat: _Flat, theta: Array, data: Batch, loss: str, penalty: float, rows: slice) -> Array:
    """Sum over some rows."""
    weights = None if data.weights is None else data.weights[rows]
    return flat.join(gradient(flat.split(theta), data.X[rows, :], data.Y[rows, :], weights, loss, penalty))


def _mean_gradient(shuffled: Batch, flat: _Flat, theta: Array, how: tuple[str, float], part: slice) -> Array:
    return flat_gradient(flat, theta, shuffled, *how, part) / (part.stop - part.start)


def _mean_gradient_by_chunks(
    run: Callable, shuffled: Batch, flat: _Flat, theta: Array, how: tuple[str, float], part: slice
) -> Array:
    if part.stop - part.start <= CHUNK:
        return _mean_gradient(shuffled, flat, theta, how, part)
    chunks = list(run(partial(flat_gradient, flat, theta, shuffled, *how), spans(part.start, part.stop, CHUNK)))
    return np.sum(chunks, axis=0) / (part.stop - part.start)


class State(NamedTuple):
    """Parameters as one vector, and the running means of their gradient and its square."""

    theta: Array
    first: Array
    second: Array


class _Adam:
    """Adam. The rate of each group of parameters follows `one_cycle`; widths and weights are held within bounds."""

    def __init__(self, rates: Rates, steps: int):
        self._groups = (rates.coef, rates.coef, rates.centers, rates.widths, rates.weights)
        self.taken, self._steps = 0, steps

    def start(self, flat: _Flat, model: Model) -> State:
        theta = flat.join(model)
        sizes = np.diff([0, *flat.ends])
        room = np.repeat([np.inf, np.inf, np.inf, FARTHEST, FARTHEST], sizes)
        self._rates = from_host(np.repeat(self._groups, sizes), theta)
        self._lowest, self._highest = from_host(-room, theta), from_host(room, theta)
        xp = namespace(theta)
        return State(theta, xp.zeros_like(theta), xp.zeros_like(theta))

    def rate(self) -> float:
        """Rate of the next step as a share of the largest, corrected for running means that start at 0."""
        self.taken += 1
        return one_cycle(self.taken / self._steps) * (1 - SECOND**self.taken) ** 0.5 / (1 - FIRST**self.taken)

    def after(self, state: State, gradient: Array, rate: Any) -> State:
        xp = namespace(gradient)
        first = FIRST * state.first + (1 - FIRST) * gradient
        second = SECOND * state.second + (1 - SECOND) * (gradient * gradient)
        moved = state.theta - self._rates * (rate * first / (xp.sqrt(second) + TINY))
        return State(xp.minimum(xp.maximum(moved, self._lowest), self._highest), first, second)


def normal(X: Array, rng: np.random.Generator) -> Array:
    """Standard normal numbers of the shape of X, drawn where it lives."""
    if isinstance(X, np.ndarray) or not hasattr(X, "normal_"):
        return from_host(rng.standard_normal(tuple(X.shape), dtype=np.float32), X)
    torch = import_module("torch")
    drawn = torch.Generator(device=X.device).manual_seed(int(rng.integers(2**62)))
    return torch.empty_like(X).normal_(generator=drawn)


def on_cuda(X: Array) -> bool:
    """Whether it is a tensor on an NVIDIA GPU."""
    return bool(getattr(X, "is_cuda", False))


def one_cycle(share: float) -> float:
    """Share of the largest rate after a share of all steps: up in a straight line, down along a cosine to 0.

    Examples
    --------
    >>> [round(one_cycle(share), 3) for share in (0.0, 0.2, 0.6, 1.0)]
    [0.1, 1.0, 0.5, 0.0]
    """
    if share < WARM_UP:
        return FIRST_RATE + (1 - FIRST_RATE) * share / WARM_UP
    return 0.5 * (1 + float(np.cos(np.pi * (share - WARM_UP) / (1 - WARM_UP))))

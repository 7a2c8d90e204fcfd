r"""The posterior at a few points on a CUDA device as one launch.

With few points a launch takes longer than the work that it starts. So all launches of a value and of its derivatives
are captured as one CUDA graph, for numbers of cached points and of points to predict rounded up to :func:`bucket`;
another factor, or other points, are copied into its buffers. The captured operations are those of
:mod:`mfbo_torch.ops.posterior.chunked`.

Before its first use a graph is compared with the operations that it was captured from; where it differs, or a capture
fails, the operations are called one by one, with a warning.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from botorch.exceptions import BotorchWarning
from torch import Tensor

from mfbo_torch.ops.cache import Cache, padded
from mfbo_torch.ops.posterior import chunked
from mfbo_torch.ops.prepared import Array, Prepared

MOST_POINTS, MOST_INPUTS = 64, 1024
"""Largest numbers of points to predict and of cached points with which launches take longer than their work."""
MOST_GRAPHS = 32
"""Largest number of graphs that a thread keeps, the last used."""
SAME = 4
"""Largest number of factors of the same sizes with buffers of their own."""
WARM = 3
"""Number of calls before a capture, in which libraries get their workspaces."""
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-4}
"""Largest difference of a graph from the operations it was captured from, in parts of the largest value."""

Found = TypeVar("Found")


def bucket(count: int, least: int) -> int:
    """The next power of two, at least ``least``: a capture takes longer than the work for the padding."""
    return max(least, 1 << max(count - 1, 0).bit_length())


def takes(cache: Cache, X: Tensor) -> bool:
    """Whether ``... x m x d`` points on a CUDA device are few enough, and the kernel's gradient can be captured."""
    if not X.is_cuda or not 0 < X.numel() <= MOST_POINTS * X.shape[-1]:
        return False
    batch = cache.batch_shape
    alike = all(a in (1, b) for a, b in zip(reversed(X.shape[:-2]), reversed(batch), strict=False))
    return alike and _small(cache)


def _small(cache: Cache) -> bool:
    return 0 < cache.num_points <= MOST_INPUTS and cache.kernel != "matern12"


def serves(cache: Cache) -> bool:
    """Whether :func:`moments` takes a factor: of one process, on a CUDA device, in double precision."""
    alone = not cache.batch_shape and not cache.differentiable and _small(cache)
    return alone and cache.inputs.is_cuda and cache.inputs.dtype is torch.double and graph(cache, 8, 0.0) is not None


def capture(work: Callable[[], Found]) -> tuple[Callable[[], None], Found]:
    """The launches of ``work`` as a graph, and what it writes to."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        found = work()
    return graph.replay, found


def _own(ready: Prepared) -> Prepared:
    """Buffers of the layout's shapes, with its numbers."""
    parts = {f.name: getattr(ready, f.name) for f in fields(ready)}
    copies: dict[str, Any] = {
        name: part.contiguous().clone() for name, part in parts.items() if isinstance(part, Tensor)
    }
    return replace(ready, **copies, blocks=tuple(block.contiguous().clone() for block in ready.blocks))


def _fill(buffers: Prepared, ready: Prepared) -> None:
    """The numbers of a layout into the buffers of another one."""
    for f in fields(ready):
        target, source = getattr(buffers, f.name), getattr(ready, f.name)
        if isinstance(source, Tensor):
            target.copy_(source)
    for target, source in zip(buffers.blocks, ready.blocks, strict=True):
        target.copy_(source)


class Slopes(NamedTuple):
    """Derivatives of mean and variance in their points, ``B x m x d`` each, for the backward pass."""

    mean: Tensor
    variance: Tensor


class Derivatives(NamedTuple):
    """Mean ``b``, variance ``b`` of at least zero, and their derivatives in the points, ``b x d`` each."""

    mean: Array
    variance: Array
    by_mean: Array
    by_variance: Array

    def gradient(self, by_mean: Array | float, by_variance: Array) -> Array:
        """As :func:`mfbo_torch.ops.posterior.fused.gradient`."""
        return np.reshape(by_mean, (-1, 1)) * self.by_mean + np.reshape(by_variance, (-1, 1)) * self.by_variance


def _derivatives(kernel: str, ready: Prepared, X: Tensor, floor: float) -> Tensor:
    """Mean, variance and their derivatives, ``B x m x (2 + 2 d)``."""
    mean, variance, kept = chunked._forward(kernel, ready, X, floor)
    none, one = torch.zeros_like(mean), torch.ones_like(mean)
    by_variance = chunked._backward(kernel, ready, kept, none, one, floor)
    weights = torch.zeros_like(kept.fall)
    weights[..., : ready.alpha.shape[-1]] = ready.alpha_back
    by_mean = chunked._through(kernel, ready, kept, weights)
    return torch.cat([mean.unsqueeze(-1), variance.unsqueeze(-1), by_mean, by_variance], -1)


class Graph:
    """The captured posterior at ``B x points x d`` points, of one factor at a time, at first ``cache``."""

    def __init__(self, cache: Cache, points: int, floor: float) -> None:
        self.n, self.points, self.kernel, self.floor = bucket(cache.num_points, 32), points, cache.kernel, floor
        self.ready = _own(padded(cache, self.n).prepared)
        self.owner = weakref.ref(cache)
        self.X = cache.inputs.new_zeros(*self.ready.batch_shape, points, cache.inputs.shape[-1])
        self._replay, self.found = capture(self._work)
        self._check(cache)

    def _work(self) -> Tensor:
        return _derivatives(self.kernel, self.ready, self.X, self.floor)

    def _check(self, cache: Cache) -> None:
        wanted = self._work()
        self._replay()
        scale = torch.stack([cache.outputscale.max(), cache.constant.abs().max(), wanted.abs().max()]).max()
        apart = ((wanted - self.found).abs().max() / scale).item()
        if not apart <= CLOSE[self.X.dtype]:
            raise RuntimeError(f"a graph differs by {apart:.1e} from what it was captured from")

    def load(self, cache: Cache) -> None:
        """Have the numbers of a factor in the buffers."""
        if self.owner() is not cache:
            _fill(self.ready, padded(cache, self.n).prepared)
            self.owner = weakref.ref(cache)

    def at(self, cache: Cache, X: Tensor) -> Tensor:
        """Mean, variance and their derivatives, ``B x m x (2 + 2 d)``, at ``B x m x d`` points, also from another
        device."""
        m = X.shape[-2]
        self.load(cache)
        self.X[..., :m, :].copy_(X)
        self._replay()
        return self.found[..., :m, :]


class _Graphs(threading.local):
    """The graphs of a thread, by sizes and factor, the last used at the end; and what could not be captured."""

    def __init__(self) -> None:
        self.kept: dict[Any, list[Graph]] = {}
        self.unable: set[Any] = set()


_graphs = _Graphs()


def _key(cache: Cache, points: int, floor: float) -> Any:
    inputs = cache.inputs
    stream = torch.cuda.current_stream(inputs.device).cuda_stream if inputs.is_cuda else None
    sizes = cache.batch_shape, bucket(cache.num_points, 32), points, inputs.shape[-1]
    return (cache.kernel, inputs.dtype, inputs.device, stream, floor, *sizes)


def graph(cache: Cache, m: int, floor: float) -> Graph | None:
    """The graph for ``m`` points and a factor; ``None`` where nothing can be captured."""
    points = bucket(m, 8)
    key = _key(cache, points, floor)
    if key in _graphs.unable:
        return None
    kept = _graphs.kept.pop(key, [])
    _graphs.kept[key] = kept
    found = next((one for one in kept if one.owner() is cache), None)
    if found is None and len(kept) < SAME and not any(one.owner() is None for one in kept):
        try:
            found = Graph(cache, points, floor)
        except RuntimeError as error:
            _graphs.unable.add(key)
            warnings.warn(f"Posteriors at a few points are launched one by one: {error}", BotorchWarning, stacklevel=2)
            return None
    elif found is None:
        found = next((one for one in kept if one.owner() is None), kept[0])
        kept.remove(found)
    else:
        kept.remove(found)
    kept.append(found)
    while sum(map(len, _graphs.kept.values())) > MOST_GRAPHS:
        oldest = next(iter(_graphs.kept))
        _graphs.kept[oldest].pop(0)
        if not _graphs.kept[oldest]:
            del _graphs.kept[oldest]
    return found


def evaluate(cache: Cache, X: Tensor, floor: float) -> tuple[Tensor, Tensor, Slopes] | None:
    """As :func:`mfbo_torch.ops.posterior.chunked.evaluate`; ``None`` where nothing can be captured."""
    folded, lead = chunked._folded(cache, X)
    graphed = graph(cache, folded.shape[-2], floor)
    if graphed is None:
        return None
    found = graphed.at(cache, folded.expand(*cache.batch_shape, *folded.shape[-2:])).clone()
    mean, variance, *slopes = found.split((1, 1, X.shape[-1], X.shape[-1]), -1)
    if not cache.batch_shape:
        return mean.view(X.shape[:-1]), variance.view(X.shape[:-1]), Slopes(*slopes)
    mean, variance = (chunked._unfold(part.squeeze(-1), lead, X.shape[-2], -1) for part in (mean, variance))
    return mean, variance, Slopes(*slopes)


def moments(cache: Cache, X: Array) -> Derivatives:
    """Mean, variance and derivatives of a process that :func:`serves` takes, at ``b x d`` points."""
    d = X.shape[-1]
    found = np.empty((len(X), 2 + 2 * d))
    for points, rows in zip(*(torch.from_numpy(part).split(MOST_POINTS) for part in (X, found)), strict=True):
        graphed = graph(cache, len(points), 0.0)
        if graphed is None:
            rows.copy_(_derivatives(cache.kernel, cache.prepared, points.to(cache.inputs), 0.0))
        else:
            rows.copy_(graphed.at(cache, points))
    return Derivatives(found[:, 0], found[:, 1], found[:, 2 : 2 + d], found[:, 2 + d :])


def backward(cache: Cache, X: Tensor, grad_mean: Tensor, grad_variance: Tensor, kept: Slopes) -> Tensor:
    """As :func:`mfbo_torch.ops.posterior.chunked.backward`, with the derivatives of the forward pass."""
    if not cache.batch_shape:
        by_mean, by_variance = grad_mean.reshape(-1, 1), grad_variance.reshape(-1, 1)
        return torch.addcmul(by_mean * kept.mean, by_variance, kept.variance).view(X.shape)
    _, lead = chunked._folded(cache, X)
    by_mean, by_variance = (chunked._fold(part, lead, -1).unsqueeze(-1) for part in (grad_mean, grad_variance))
    gradient = torch.addcmul(by_mean * kept.mean, by_variance, kept.variance)
    return chunked._unfold(gradient, lead, X.shape[-2], -2).sum_to_size(X.shape)

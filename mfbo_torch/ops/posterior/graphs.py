r"""The posterior at a few points on a CUDA device as one launch.

With few points a launch takes longer than the work that it starts. So all launches of a value, and all of its
gradient, are captured as CUDA graphs, for numbers of cached points and of points to predict rounded up to
:func:`bucket`; another factor, or other points, are copied into their buffers. The captured operations are those of
:mod:`mfbo_torch.ops.posterior.chunked`.

Not measured on a CUDA device. Before its first use a graph is compared with the operations that it was captured from;
where it differs, or a capture fails, the operations are called one by one, with a warning.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from botorch.exceptions import BotorchWarning
from torch import Tensor

from mfbo_torch.ops.cache import Cache, padded
from mfbo_torch.ops.posterior import chunked
from mfbo_torch.ops.prepared import Prepared

MOST_POINTS, MOST_INPUTS = 64, 1024
"""Largest numbers of points to predict and of cached points with which launches take longer than their work."""
MOST_GRAPHS = 32
"""Largest number of graphs that a thread keeps, the last used."""
SAME = 4
"""Largest number of factors of the same sizes with buffers of their own."""
WARM = 3
"""Number of calls before a capture, in which libraries get their workspaces."""
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-4}
"""Largest difference of a graph from the operations it was captured from, in parts of the prior's scale."""

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
    return alike and 0 < cache.num_points <= MOST_INPUTS and cache.kernel != "matern12"


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


@dataclass(frozen=True)
class Token:
    """A forward pass, for its backward pass: the graph that computed it, and which of its passes it was."""

    graph: Graph
    serial: int


class Graph:
    """The captured posterior at ``B x points x d`` points, of one factor at a time, at first ``cache``."""

    def __init__(self, cache: Cache, points: int, floor: float) -> None:
        self.n, self.points, self.serial = bucket(cache.num_points, 32), points, 0
        self.ready = _own(padded(cache, self.n).prepared)
        self.owner = weakref.ref(cache)
        batch = self.ready.batch_shape
        self.X = torch.zeros(
            *batch, points, cache.inputs.shape[-1], dtype=cache.inputs.dtype, device=cache.inputs.device
        )
        self.by = self.X.new_zeros(2, *batch, points)
        kernel, ready = cache.kernel, self.ready

        def values() -> tuple[Tensor, Tensor, chunked.Saved]:
            return chunked._forward(kernel, ready, self.X, floor)

        self._forward, (self.mean, self.variance, kept) = capture(values)

        def slopes() -> Tensor:
            return chunked._backward(kernel, ready, kept, self.by[0], self.by[1], floor)

        self._forward()
        self._backward, self.gradient = capture(slopes)
        self._check(values()[:2], cache)

    def _check(self, wanted: tuple[Tensor, Tensor], cache: Cache) -> None:
        self._forward()
        limit = CLOSE[self.X.dtype] * cache.outputscale.max().clamp_min(cache.constant.abs().max()).item()
        apart = max((a - b).abs().max().item() for a, b in zip(wanted, (self.mean, self.variance), strict=True))
        if not apart <= limit:
            raise RuntimeError(f"a graph differs by {apart:.1e} from what it was captured from")

    def load(self, cache: Cache) -> None:
        """Have the numbers of a factor in the buffers."""
        if self.owner() is not cache:
            _fill(self.ready, padded(cache, self.n).prepared)
            self.owner = weakref.ref(cache)

    def values(self, cache: Cache, X: Tensor) -> tuple[Tensor, Tensor, Token]:
        """Mean and variance ``B x m`` at ``B x m x d`` points."""
        m = X.shape[-2]
        self.load(cache)
        self.X[..., :m, :].copy_(X)
        self._forward()
        self.serial += 1
        return self.mean[..., :m].clone(), self.variance[..., :m].clone(), Token(self, self.serial)

    def slopes(self, cache: Cache, X: Tensor, grad_mean: Tensor, grad_variance: Tensor, serial: int) -> Tensor:
        """Gradient ``B x m x d`` of a pass; computed again where others came after it."""
        m = X.shape[-2]
        if serial != self.serial or self.owner() is not cache:
            self.values(cache, X)
        self.by[0, ..., :m].copy_(grad_mean)
        self.by[1, ..., :m].copy_(grad_variance)
        self._backward()
        return self.gradient[..., :m, :].clone()


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


def evaluate(cache: Cache, X: Tensor, floor: float) -> tuple[Tensor, Tensor, Token] | None:
    """As :func:`mfbo_torch.ops.posterior.chunked.evaluate`; ``None`` where nothing can be captured."""
    folded, lead = chunked._folded(cache, X)
    found = graph(cache, folded.shape[-2], floor)
    if found is None:
        return None
    mean, variance, token = found.values(cache, folded.expand(*cache.batch_shape, *folded.shape[-2:]))
    if not cache.batch_shape:
        return mean.view(X.shape[:-1]), variance.view(X.shape[:-1]), token
    mean, variance = (chunked._unfold(part, lead, X.shape[-2], -1) for part in (mean, variance))
    return mean, variance, token


def backward(cache: Cache, X: Tensor, grad_mean: Tensor, grad_variance: Tensor, token: Token) -> Tensor:
    """As :func:`mfbo_torch.ops.posterior.chunked.backward`, of the pass of a token."""
    folded, lead = chunked._folded(cache, X)
    folded = folded.expand(*cache.batch_shape, *folded.shape[-2:])
    if not cache.batch_shape:
        by = grad_mean.reshape(-1), grad_variance.reshape(-1)
        return token.graph.slopes(cache, folded, *by, token.serial).view(X.shape)
    by = chunked._fold(grad_mean, lead, -1), chunked._fold(grad_variance, lead, -1)
    gradient = token.graph.slopes(cache, folded, *by, token.serial)
    return chunked._unfold(gradient, lead, X.shape[-2], -2).sum_to_size(X.shape)

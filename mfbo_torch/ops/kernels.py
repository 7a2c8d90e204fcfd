"""Stationary correlations as functions of the scaled distance, and how to read them off GPyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from botorch.exceptions import UnsupportedError
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor
from torch.utils.checkpoint import checkpoint

ROOTS = {"rbf": 1.0, "matern12": 1.0, "matern32": math.sqrt(3), "matern52": math.sqrt(5)}
"""What a distance in lengthscales is multiplied by before :func:`with_fall`."""
FALLS = {"rbf": 1.0, "matern12": 1.0, "matern32": 1.0, "matern52": 3.0}
"""What the fall of :func:`with_fall` has to be divided by."""
CORRELATIONS = tuple(ROOTS)
MATERNS = {0.5: "matern12", 1.5: "matern32", 2.5: "matern52"}
"""Names of the Matérn correlations by their smoothness ``ν``."""
EXACT = "donot_use_mm_for_euclid_dist"
"""Distances from differences, so that near-duplicates keep their digits."""
MANY_PAIRS = 2**18
"""Number of pairs of points from which on a launch for each dimension costs less than ``cdist`` on a CUDA device."""
CHUNK_BYTES, GRAPH_BYTES = 2**24, 2**26
"""Most bytes of covariances at a time, without and with a gradient."""


def correlation(kind: str, distance: Tensor) -> Tensor:
    r"""Correlation at a distance ``r`` measured in lengthscales: ``rbf`` :math:`e^{-r^2/2}`, ``matern12``
    :math:`e^{-r}`, ``matern32`` :math:`(1 + \sqrt3 r) e^{-\sqrt3 r}`, ``matern52``
    :math:`(1 + \sqrt5 r + 5r^2/3) e^{-\sqrt5 r}`."""
    if kind == "rbf":
        return torch.exp(-0.5 * distance.square())
    if kind == "matern12":
        return torch.exp(-distance)
    if kind == "matern32":
        scaled = math.sqrt(3) * distance
        return (1 + scaled) * torch.exp(-scaled)
    if kind == "matern52":
        scaled = math.sqrt(5) * distance
        return (1 + scaled + scaled.square() / 3) * torch.exp(-scaled)
    raise UnsupportedError(f"kernel = {kind!r}: must be one of {', '.join(CORRELATIONS)}")


def with_fall(kind: str, distance: Tensor) -> tuple[Tensor, Tensor]:
    r"""Correlation ``k`` and its fall :math:`f = -c k'(s) / s` at a distance ``s`` in units of :data:`ROOTS`.

    ``rbf``: :math:`f = e^{-s^2/2}`; ``matern32``: :math:`f = e^{-s}`; ``matern52``: :math:`f = (1 + s) e^{-s}` with
    ``c = 3``, see :data:`FALLS`. That of ``matern12`` has a pole at zero; in its place stands
    :math:`f = -k'(s) = e^{-s}`. May overwrite ``distance``: fresh memory takes about as long as the computation.
    """
    if kind == "rbf":
        value = distance.square_().mul_(-0.5).exp_()
        return value, value
    decay = torch.neg(distance).exp_()
    if kind == "matern12":
        return decay, decay
    first = torch.addcmul(decay, distance, decay)
    if kind == "matern32":
        return first, decay
    return torch.addcmul(first, distance.square_(), decay, value=1 / 3), first


def distances(A: Tensor, B: Tensor) -> Tensor:
    """Distances ``... x m x n`` of ``... x m x d`` and ``... x n x d`` points, by differences. On a CUDA device, where
    ``cdist`` takes a group of threads for each pair, those of many pairs are summed dimension by dimension, without a
    gradient."""
    if not A.is_cuda or A.shape[-2] * B.shape[-2] < MANY_PAIRS:
        return torch.cdist(A, B, compute_mode=EXACT)
    total, difference = torch.zeros((2, *A.shape[:-1], B.shape[-2]), dtype=A.dtype, device=A.device)
    for a, b in zip(A.unbind(-1), B.unbind(-1), strict=True):
        torch.sub(a.unsqueeze(-1), b.unsqueeze(-2), out=difference)
        total.addcmul_(difference, difference)
    return total.sqrt_()


def cross_correlation(kind: str, A: Tensor, B: Tensor) -> Tensor:
    """Correlations between ``... x m x d`` and ``... x n x d`` points divided by their lengthscales. Distances come
    from differences, not from inner products, so that near-duplicates keep their digits."""
    return correlation(kind, torch.cdist(A, B, compute_mode=EXACT))


def describe(kernel: Kernel, dim: int) -> tuple[str, Tensor, Tensor]:
    """The correlation's name, its ``d`` lengthscales and its output scale; an ``UnsupportedError`` where the kernel is
    not one of :data:`CORRELATIONS`, scaled or not."""
    base = kernel.base_kernel if plain(kernel, ScaleKernel) else kernel
    if plain(base, RBFKernel):
        kind = "rbf"
    elif plain(base, MaternKernel) and base.nu in MATERNS:
        kind = MATERNS[base.nu]
    else:
        raise UnsupportedError(f"kernel = {type(base).__name__}: must be RBF or Matérn 1/2, 3/2, 5/2, scaled or not")
    for part in (kernel, base):
        if part.active_dims is not None and part.active_dims.tolist() != list(range(dim)):
            raise UnsupportedError(f"active_dims = {part.active_dims.tolist()}: must be all {dim} inputs")
    lengthscale = base.lengthscale.reshape(-1)
    if len(lengthscale) not in (1, dim):
        raise UnsupportedError(f"lengthscale of {type(base).__name__}: {len(lengthscale)} numbers, must be 1 or {dim}")
    scale = lengthscale.new_ones(()) if kernel is base else kernel.outputscale.reshape(())
    return kind, lengthscale.expand(dim), scale


def plain(kernel: Kernel, kind: type[Kernel]) -> bool:
    """Whether a kernel computes what its class does, not something of a subclass's own."""
    return isinstance(kernel, kind) and type(kernel).forward is kind.forward


def gram(kernel: Kernel, A: Tensor, B: Tensor) -> Tensor:
    """Covariances ``... x m x n`` of any GPyTorch kernel; those of :data:`CORRELATIONS` from exact differences."""
    try:
        kind, lengthscale, outputscale = describe(kernel, A.shape[-1])
    except UnsupportedError:
        return kernel(A, B).to_dense()
    return outputscale * cross_correlation(kind, A / lengthscale, B / lengthscale)


def gram_columns(kernel: Kernel, X: Tensor) -> Callable[[int], Tensor]:
    """The function from ``j`` to the ``n`` covariances of ``n x d`` points with the ``j``-th of them."""
    try:
        kind, lengthscale, outputscale = describe(kernel, X.shape[-1])
    except UnsupportedError:
        return lambda j: kernel(X, X[j : j + 1]).to_dense().squeeze(-1)
    scaled = X / lengthscale
    return lambda j: (outputscale * cross_correlation(kind, scaled, scaled[j : j + 1])).squeeze(-1)


def gram_product(kernel: Kernel, A: Tensor, B: Tensor, M: Tensor) -> Tensor:
    """``gram(kernel, A, B) @ M`` of ``... x m x d``, ``n x d`` and ``... x n x c``, in bounded memory for any ``m``;
    with a gradient the covariances are computed again in the backward pass."""
    size = max(len(B) * A.shape[:-2].numel() * A.element_size(), 1)
    graph = torch.is_grad_enabled() and any(t.requires_grad for t in (A, M, *kernel.parameters()))
    step = max((GRAPH_BYTES if graph else CHUNK_BYTES) // size, 1)
    if A.shape[-2] <= step:
        return gram(kernel, A, B) @ M

    def product(part: Tensor) -> Tensor:
        return gram(kernel, part, B) @ M

    parts = A.split(step, -2)
    return torch.cat([checkpoint(product, part, use_reentrant=False) if graph else product(part) for part in parts], -2)

r"""The factor of one or several Gaussian processes, from which all posteriors follow."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions import UnsupportedError
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from mfbo_torch.ops.kernels import cross_correlation
from mfbo_torch.ops.prepared import Prepared, PreparedProcess, prepare

AXES = {
    "inputs": 2, "mask": 1, "inverse": 2, "alpha": 1, "lengthscale": 1,
    "outputscale": 0, "constant": 0, "noise": 0, "center": 1,
}  # fmt: skip
"""Number of axes of each tensor of a :class:`Cache` behind those of the batch."""


@dataclass(frozen=True)
class Cache:
    r"""Factors of ``...`` Gaussian processes with up to ``n`` points each.

    With ``K`` the prior covariance of the points and ``S`` the diagonal noise, :math:`K + S = L L^\top`, ``inverse`` is
    :math:`L^{-1}` and ``alpha`` is :math:`(K + S)^{-1} (y - c)` [Rasmussen2006gpml]_ (Algorithm 2.1). Processes with
    fewer points are padded; a padded point has no covariance with anything. Detached from any model; can be pickled and
    saved.
    """

    kernel: str  # name of the correlation, the same for all
    inputs: Tensor  # ... x n x d points less ``center``, divided by the lengthscales
    mask: Tensor  # ... x n, one where there is a point, zero where there is padding
    inverse: Tensor  # ... x n x n
    alpha: Tensor  # ... x k, k <= n: points that came by :func:`extend` are behind the first k and have no weight
    lengthscale: Tensor  # ... x d
    outputscale: Tensor  # ...
    constant: Tensor  # ..., the prior mean
    noise: Tensor  # ... noise variances given to points that come by :func:`extend`
    center: Tensor  # ... x d, the mean of the points: far from zero a difference of scaled points has fewer digits

    @property
    def num_points(self) -> int:
        return self.inputs.shape[-2]

    @property
    def batch_shape(self) -> torch.Size:
        return self.prepared.batch_shape

    @cached_property
    def differentiable(self) -> bool:
        """Whether the factor itself has a gradient, as a fantasy's may."""
        return any(tensor.requires_grad for tensor in self.tensors().values())

    @cached_property
    def prepared(self) -> Prepared:
        """The layout for fast posteriors. Without a gradient: only for a factor that has none."""
        with torch.inference_mode(False), torch.no_grad():
            tensors = self.tensors()
            del tensors["noise"]
            return prepare(self.kernel, **tensors)

    @cached_property
    def alone(self) -> PreparedProcess | None:
        """The only process as arrays; ``None`` where there are several, or it is not on the processor in double
        precision."""
        plain = self.inverse.dtype is torch.double and self.inverse.is_cpu
        return self.prepared.processes[0] if plain and not self.batch_shape else None

    @cached_property
    def layouts(self) -> dict[str, Any]:
        """Layouts of this factor for other implementations, by name."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that it consists of, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "kernel"}

    def to(self, *args: Any, **kwargs: Any) -> Cache:
        """This factor on another device or in another precision; arguments as for ``Tensor.to``."""
        return Cache(self.kernel, **{name: tensor.to(*args, **kwargs) for name, tensor in self.tensors().items()})

    def __getstate__(self) -> dict[str, Any]:
        return {"kernel": self.kernel, **self.tensors()}

    def scaled(self, X: Tensor) -> Tensor:
        """``... x m x d`` points in the units of ``inputs``."""
        return (X - self.center.unsqueeze(-2)) / self.lengthscale.unsqueeze(-2)

    def cross_covariance(self, X: Tensor) -> Tensor:
        """Prior covariance ``... x m x n`` between ``... x m x d`` points and the cached ones."""
        scale = self.outputscale[..., None, None] * self.mask.unsqueeze(-2)
        return scale * cross_correlation(self.kernel, self.scaled(X), self.inputs)


def inverse_factor(covariance: Tensor) -> Tensor:
    r""":math:`L^{-1}` of :math:`L L^\top =` ``... x n x n`` covariances."""
    factor = psd_safe_cholesky(covariance)
    eye = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    return torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)


def factorize(
    kernel: str,
    X: Tensor,
    residuals: Tensor,
    noise: Tensor,
    lengthscale: Tensor,
    outputscale: Tensor,
    constant: Tensor,
    mask: Tensor,
    further: Tensor | None = None,
) -> Cache:
    """Factor ``...`` Gaussian processes of ``... x n x d`` points, in double precision whatever that of ``X``, which
    the factor gets. Arguments are those of :class:`Cache`; ``residuals`` are ``... x n`` observations minus the prior
    mean, ``noise`` their ``... x n`` variances, ``further`` ``... x n x n`` covariances on top of the kernel's."""
    dtype = X.dtype
    parts = (X, residuals, noise, lengthscale, outputscale, constant, mask)
    X, residuals, noise, lengthscale, outputscale, constant, mask = (part.double() for part in parts)
    count = mask.sum(-1).clamp_min(1)
    center = ((X * mask.unsqueeze(-1)).sum(-2) / count.unsqueeze(-1)).detach().to(dtype).double()
    scaled = (X - center.unsqueeze(-2)) / lengthscale.unsqueeze(-2)
    pairs = mask.unsqueeze(-1) * mask.unsqueeze(-2)
    covariance = outputscale[..., None, None] * pairs * cross_correlation(kernel, scaled, scaled)
    covariance = covariance + torch.diag_embed(torch.where(mask > 0, noise, torch.ones_like(noise)))
    if further is not None:
        covariance = covariance + further.double()
    inverse = inverse_factor(covariance) if X.shape[-2] else covariance
    weighted = inverse @ (residuals * mask).unsqueeze(-1)
    alpha = (inverse.mT @ weighted).squeeze(-1)
    mean_noise = (noise * mask).sum(-1) / count
    return Cache(kernel, scaled, mask, inverse, alpha, lengthscale, outputscale, constant, mean_noise, center).to(dtype)


def grown(inverse: Tensor, cross: Tensor, corner: Tensor) -> Tensor:
    r"""The inverse of a lower factor after its matrix has got ``p`` more rows.

    With :math:`V = L^{-1} k(X_{old}, X)` and :math:`L_p L_p^\top = K_{XX} - V^\top V`, the new rows are
    :math:`[-L_p^{-1} V^\top L^{-1}, L_p^{-1}]`; ``inverse`` is :math:`L^{-1}`, ``... x n x n``, ``cross`` the
    covariances of new rows with old ones, ``... x p x n``, and ``corner`` is :math:`K_{XX}`, ``... x p x p``, noise
    included.
    """
    V = cross @ inverse.mT
    own = inverse_factor(corner - V @ V.mT)
    left = -own @ V @ inverse
    zeros = inverse.new_zeros(*inverse.shape[:-1], corner.shape[-1])
    return torch.cat([torch.cat([inverse, zeros], -1), torch.cat([left, own], -1)], -2)


def extend(cache: Cache, X: Tensor, mask: Tensor) -> Cache:
    """Add pending ``... x p x d`` points to the processes where ``mask``, ``... x p``, is one, not where it is zero:
    the deviations shrink, the means stay."""
    return _with_rows(cache, X, mask, cache.noise.unsqueeze(-1))


def grow(cache: Cache, X: Tensor, residuals: Tensor, noise: Tensor) -> Cache:
    """Add observations at ``p x d`` points to one process all of whose ``n`` points have a value, in ``O(p n^2)`` where
    :func:`factorize` takes ``O(n^3)``. ``residuals`` are ``n + p`` observations minus the prior mean, of all points, as
    the former ones may have changed; ``noise`` is ``p`` variances."""
    n = cache.num_points
    more = _with_rows(cache, X, noise.new_ones(len(X)), noise) if len(X) else cache
    alpha = more.inverse.mT @ (more.inverse @ residuals)
    mean_noise = (n * cache.noise + noise.sum()) / max(n + len(X), 1)
    return replace(more, alpha=alpha, noise=mean_noise)


def _with_rows(cache: Cache, X: Tensor, mask: Tensor, noise: Tensor) -> Cache:
    """A factor with further points, which have no weight yet, see :func:`grown`."""
    scaled = cache.scaled(X)
    cross = cache.cross_covariance(X) * mask.unsqueeze(-1)
    pairs = mask.unsqueeze(-1) * mask.unsqueeze(-2)
    prior = cache.outputscale[..., None, None] * pairs * cross_correlation(cache.kernel, scaled, scaled)
    diagonal = torch.where(mask > 0, noise, 1.0)
    return replace(
        cache,
        inputs=torch.cat([cache.inputs, scaled.expand(*cache.inputs.shape[:-2], *scaled.shape[-2:])], -2),
        mask=torch.cat([cache.mask, mask.to(cache.mask).expand(*cache.mask.shape[:-1], mask.shape[-1])], -1),
        inverse=grown(cache.inverse, cross, prior + torch.diag_embed(diagonal)),
    )


def stack(caches: list[Cache]) -> Cache:
    """Factors of several processes as one batch, padded to the largest; an ``UnsupportedError`` where their kernels are
    of different kinds."""
    kinds = {cache.kernel for cache in caches}
    if len(kinds) > 1:
        raise UnsupportedError(f"kernels = {sorted(kinds)}: must be of one kind for all fidelities")
    n = max(cache.num_points for cache in caches)
    parts = [padded(cache, n).tensors() for cache in caches]
    batch = torch.broadcast_shapes(*(cache.alpha.shape[:-1] for cache in caches))

    def joined(name: str, axes: int) -> Tensor:
        wide = [part[name].expand(batch + part[name].shape[part[name].dim() - axes :]) for part in parts]
        return torch.stack(wide, dim=len(batch)) if len(wide) > 1 else wide[0].unsqueeze(len(batch))

    return Cache(kinds.pop(), **{name: joined(name, axes) for name, axes in AXES.items()})


def padded(cache: Cache, n: int) -> Cache:
    """A factor with points that have no covariance with anything added up to ``n``, all of them with a value."""
    pad, more = torch.nn.functional.pad, n - cache.num_points
    if n == cache.num_points == cache.alpha.shape[-1]:
        return cache
    return replace(
        cache,
        inputs=pad(cache.inputs, (0, 0, 0, more)),
        mask=pad(cache.mask, (0, more)),
        inverse=pad(cache.inverse, (0, more, 0, more)),
        alpha=pad(cache.alpha, (0, n - cache.alpha.shape[-1])),
    )


def grouped(caches: list[Cache]) -> tuple[Cache, ...]:
    """All processes as one batch, or each as its own where padding would be most of the work."""
    sizes = [cache.num_points for cache in caches]
    if len(caches) * max(sizes) ** 2 > 4 * sum(n**2 for n in sizes) + 128**2:
        return tuple(stack([cache]) for cache in caches)
    return (stack(caches),)


def truncate(cache: Cache, n: int) -> Cache:
    """Undo :func:`extend`: the factor of the first ``n`` points, of at least those with a value, bit for bit."""
    if n == cache.num_points:
        return cache
    inverse = cache.inverse[..., :n, :n]
    return replace(cache, inputs=cache.inputs[..., :n, :], mask=cache.mask[..., :n], inverse=inverse)

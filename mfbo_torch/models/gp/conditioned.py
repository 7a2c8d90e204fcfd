"""Models conditioned on pending points: points that are queried already and whose values are not known yet.

A pending point shrinks posterior deviations, as an observation there would, and leaves posterior means as they are.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from mfbo_torch.models.gp.base import SingleOutputModel
from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.posterior import graphs
from mfbo_torch.ops.posterior.fused import Outputs, plain


class Extension(NamedTuple):
    """A ``factor`` extended by ``size`` pending points, made from ``free``, the factor of the data alone."""

    free: Any
    size: int
    factor: Any


class ConditionedModel(SingleOutputModel):
    """A model of one output with a factor of its data, made when it is first needed, that pending points extend.

    A subclass says what is forgotten in training mode or when the model moves (:meth:`_forget`), which points may
    be pending (:meth:`_checked_pending`) and how they extend a factor (:meth:`_extended`). It gets its factor
    (:meth:`_free`) with the pending points from :meth:`_with_pending`; without a factor it conditions its joint
    posterior (:func:`given`).
    """

    _pending: Tensor | None = None
    _extension: Extension | None = None
    _shared = False
    """Whether another model has the same parts."""

    @property
    @abstractmethod
    def _anchor(self) -> Tensor | None:
        """Data whose device and precision are those of the model; ``None`` where they are not known."""

    @abstractmethod
    def _forget(self, moved: bool = False) -> None:
        """Drop what follows from the hyper-parameters; all that is computed if the model moves or is loaded."""

    @abstractmethod
    def _free(self) -> Any:
        """The factor of the data alone, made if there is none; ``None`` where the model can have none."""

    @abstractmethod
    def _checked_pending(self, X: Tensor) -> Tensor:
        """``p`` points that may be pending, or an error."""

    def _extended(self, factor: Any, X: Tensor) -> Any:
        """A factor also conditioned on further pending points."""
        raise NotImplementedError

    def _shortened(self, extension: Extension, size: int) -> Extension | None:
        """An extension by the first ``size`` points alone; ``None`` where it is made anew."""
        return None

    def hallucinate(self, X_pending: Tensor | None, former: Self | None = None) -> Self:
        """This model with deviations also conditioned on ``p`` pending points like those of the data. The means stay.

        ``former`` is this model with other pending points: where ``X_pending`` begins with them, only the further ones
        cost anything, and the factor follows the order in which they came, to its last digit. A
        ``BotorchTensorDimensionError`` says that points have another shape, an ``InputDataError`` NaN, infinity or an
        unknown fidelity.
        """
        if X_pending is None or X_pending.shape[-2:-1] == (0,):
            return self
        pending = self._checked_pending(X_pending).detach().clone()
        self.eval()._free()  # once for all that are made from here
        clone, source = self._twin(), self if former is None else former
        clone._pending = pending if self._pending is None else torch.cat([self._pending, pending.to(self._pending)])
        made = source._extension
        if made is not None and made.size > (same := _shared_start(source._pending, clone._pending)):
            made = self._shortened(made, same) if same else None
        clone._extension = made
        return clone

    def _with_pending(self, free: Any) -> Any:
        """A factor of the data, extended by the pending points that its last extension lacks."""
        if self._pending is None or free is None:
            return free
        made = self._extension
        if made is None or made.free is not free:
            made = Extension(free, 0, free)
        if made.size < len(self._pending):
            factor = self._extended(made.factor, self._pending[made.size :])
            self._extension = made = Extension(free, len(self._pending), factor)
        return made.factor

    def factors(self) -> tuple[Cache, ...] | None:
        """The factors, pending points included, from which :meth:`outputs` at points in the user's units follow in
        closed form; ``None`` where there are none."""
        return None

    def outputs(self, caches: tuple[Cache, ...]) -> Outputs | None:
        """The outputs that follow from :meth:`factors`, with their gradients on arrays; ``None`` where the factors are
        not in double precision, have a gradient themselves, or are on a CUDA device and no graph takes them."""
        if all(map(graphs.serves, caches)):
            return Outputs(caches)
        if not all(plain(cache.inverse) and not cache.differentiable for cache in caches):
            return None
        return Outputs([process for cache in caches for process in cache.prepared.processes])

    def _twin(self) -> Self:
        """Another model of the same data and parts."""
        clone = copy.copy(self)
        clone.__dict__.update(_modules=dict(self._modules), _buffers=dict(self._buffers))
        self._shared = clone._shared = True
        return clone

    def train(self, mode: bool = True) -> Self:
        if mode:
            self._forget()
        return torch.nn.Module.train(self, mode)

    def eval(self) -> Self:
        return self.train(False)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        # BoTorch's acquisition functions move their model at every call, nearly always to where it is
        anchor = self._anchor
        if anchor is not None and fn(anchor) is anchor and (anchor.is_cuda or not anchor.is_shared()):
            return self  # every tensor on a CUDA device says that it is shared
        self._forget(moved=True)
        return super()._apply(fn, recurse)

    def _own(self) -> None:
        """Copies of the data, which may be the caller's, and of the parts if another model has them too."""
        modules = copy.deepcopy(self._modules) if self._shared else self._modules
        buffers = {name: None if tensor is None else tensor.clone() for name, tensor in self._buffers.items()}
        self.__dict__.update(_modules=modules, _buffers=buffers, _shared=False)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self._own()
        self._forget(moved=True)
        return super().load_state_dict(*args, **kwargs)


def _shared_start(A: Tensor | None, B: Tensor) -> int:
    """Number of points that two lists have in common at their start."""
    if A is None:
        return 0
    k = min(len(A), len(B))
    return int((A[:k] == B[:k].to(A)).all(-1).long().cumprod(0).sum())


def given(
    joint: Callable[[Tensor], tuple[Tensor, Tensor]], X: Tensor, pending: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean ``... x q`` as it is, and covariance ``... x q x q`` conditioned on ``p x (d + 1)`` pending points with
    ``p`` noise variances; ``joint`` gives mean and covariance at ``... x q x (d + 1)`` points without them."""
    q, pending = X.shape[-2], pending.to(X)
    mean, covariance = joint(torch.cat([X, pending.expand(*X.shape[:-2], *pending.shape)], -2))
    corner = covariance[..., q:, q:] + torch.diag_embed(noise)
    return mean[..., :q], conditioned(covariance[..., :q, :q], covariance[..., q:, :q], corner)


def conditioned(covariance: Tensor, cross: Tensor, corner: Tensor) -> Tensor:
    r"""Covariance ``... x q x q`` given ``p`` noisy values, :math:`\Sigma_{XX} - \Sigma_{XP} C^{-1} \Sigma_{PX}`, where
    ``cross`` is :math:`\Sigma_{PX}` and ``corner`` is ``C``, the covariance of the values with their noise."""
    explained = torch.linalg.solve_triangular(psd_safe_cholesky(corner), cross, upper=False)
    return covariance - explained.mT @ explained

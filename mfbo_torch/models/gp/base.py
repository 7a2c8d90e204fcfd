"""What the models share: a factor that is made when it is needed, and pending points that extend it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, NamedTuple, Self

import torch
from botorch.models.model import Model
from torch import Tensor


class Extension(NamedTuple):
    """A factor extended by pending points.

    Args:
        free: That of the data alone, which it was made from.
        size: How many pending points it has.
        factor: The extended one.
    """

    free: Any
    size: int
    factor: Any


class Factored(Model):
    """A model of one output whose posteriors come from a factor of its data, made when it is first needed.

    A subclass says what is forgotten in training mode or when the model moves (:meth:`_forget`), which points may
    be pending (:meth:`_checked_pending`) and how they extend a factor (:meth:`_extended`); it uses its own
    (:meth:`_free`) through :meth:`_with_pending`.
    """

    _pending: Tensor | None = None
    _extension: Extension | None = None

    @property
    def num_outputs(self) -> int:
        return 1

    @property
    @abstractmethod
    def _anchor(self) -> Tensor | None:
        """Data that tell by where they are where the model is; ``None`` where that is not known."""

    @abstractmethod
    def _forget(self, moved: bool = False) -> None:
        """Drop what follows from the hyper-parameters; all that is computed if the model moves or is loaded."""

    @abstractmethod
    def _free(self) -> Any:
        """The factor of the data alone, made if there is none; ``None`` where the model can have none."""

    @abstractmethod
    def _checked_pending(self, X: Tensor) -> Tensor:
        """``p`` points that may be pending, or an error."""

    @abstractmethod
    def _extended(self, factor: Any, X: Tensor) -> Any:
        """A factor with deviations also conditioned on further points."""

    def _shortened(self, extension: Extension, size: int) -> Extension | None:
        """An extension by the first points alone; ``None`` where it is made anew."""
        return None

    def hallucinate(self, X_pending: Tensor | None, former: Self | None = None) -> Self:
        """This model with deviations also conditioned on points whose values are still out. The means stay.

        Args:
            X_pending: ``p`` points like those of the data, or ``None``.
            former: This model with other pending points. Where ``X_pending`` begins with them, only the
                further ones cost anything; the factor follows the order in which they came, to its last digit.

        Raises:
            BotorchTensorDimensionError: Points of another shape.
            InputDataError: NaN or infinity, or a fidelity that does not exist.
        """
        if X_pending is None or X_pending.shape[-2:-1] == (0,):
            return self
        pending = self._checked_pending(X_pending).detach().clone()
        self.eval()._free()  # once for all that are made from here
        clone, source = self._twin(), self if former is None else former
        clone._pending = pending if self._pending is None else torch.cat([self._pending, pending.to(self._pending)])
        made = source._extension
        if made is not None and made.size > (same := _alike(source._pending, clone._pending)):
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

    def _twin(self) -> Self:
        """Another model of the same data and parts."""
        clone = copy.copy(self)
        clone.__dict__.update(_modules=dict(self._modules), _buffers=dict(self._buffers))
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
        if anchor is not None and fn(anchor) is anchor and not anchor.is_shared():
            return self
        self._forget(moved=True)
        return super()._apply(fn, recurse)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self._forget(moved=True)
        return super().load_state_dict(*args, **kwargs)


def _alike(A: Tensor | None, B: Tensor) -> int:
    """How many points two lists begin with alike."""
    if A is None:
        return 0
    k = min(len(A), len(B))
    return int((A[:k] == B[:k].to(A)).all(-1).long().cumprod(0).sum())

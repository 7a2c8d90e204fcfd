r"""Selection of several points of a finite set."""

from __future__ import annotations

from typing import NamedTuple

import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor

from mfbo_torch.ops import _dispatch
from mfbo_torch.ops.cache import Cache
from mfbo_torch.ops.greedy import lazy as lazily
from mfbo_torch.ops.greedy import reference
from mfbo_torch.utils.validation import number, whole

__all__ = ["Selection", "first_equal", "greedy"]


class Selection(NamedTuple):
    """Picks of a finite set: ``q`` indices in the order of selection, and the number of variances computed."""

    indices: Tensor
    num_variances: int


def greedy(
    cache: Cache, X: Tensor, width: float | Tensor, q: int, backend: str = "auto", *, lazy: bool = True
) -> Selection:
    r"""Select ``q`` of ``m x d`` candidates one after another by hallucinated upper confidence bound.

    Pick ``t`` maximises :math:`\mu(x) + w \sigma_t(x)`, where :math:`\sigma_t` is also conditioned on the picks before,
    as if they had been observed with the noise of the process, and :math:`\mu` is not [Desautels2012gpbucb]_ (Eq. 4).
    Points that are pending already belong into the cache (:func:`mfbo_torch.ops.cache.extend`). Of equal candidates the
    first is picked; one can be picked again.

    Args:
        cache: The factor of one process.
        X: ``m x d`` candidates.
        width: Weight ``w`` of the deviation: :math:`\beta^{1/2}` of UCB.
        q: Number of picks, at least 1.
        backend: ``"torch"``, ``"triton"`` or ``"auto"``: by the device of ``X``.
        lazy: Compute only the variances that may matter, for the same picks; on a CUDA device all are quicker. On the
            CPU memory is bounded but for a few numbers a candidate; elsewhere it is ``(n + q) m`` numbers.

    Raises:
        BotorchTensorDimensionError: ``X`` of another shape, or without candidates.
        SettingError: ``q`` below 1 or a width that is negative or not finite.
        UnsupportedError: A batch of processes, an unknown backend, or Triton where it cannot run.
    """
    chosen = _dispatch.choose(backend, X)
    if cache.batch_shape:
        raise UnsupportedError(f"cache of {tuple(cache.batch_shape)} processes: must be of one")
    if X.dim() != 2 or X.shape[-1] != cache.inputs.shape[-1] or len(X) == 0:
        wanted = f"m x {cache.inputs.shape[-1]}, m at least 1"
        raise BotorchTensorDimensionError(f"X of shape {tuple(X.shape)}: must be {wanted}")
    q, X = whole("q", q), X.to(cache.inputs.dtype)
    if not isinstance(width, Tensor) or not width.is_cuda:
        width = number("width", float(width), 0)
    if chosen == "triton" or X.is_cuda:
        at_once = _dispatch.kernels("greedy") if chosen == "triton" else reference
        return Selection(at_once.select(cache, X, width, q), q * len(X))
    picks, computed = lazily.select(cache, X, float(width), q, lazy)
    return Selection(torch.tensor([first_equal(X, pick) for pick in picks]), computed)


def first_equal(X: Tensor, pick: int) -> int:
    """The first candidate that is the same point as a pick: rounding must not distinguish equal points."""
    same = (X[: pick + 1, 0] == X[pick, 0]).nonzero().squeeze(-1)
    return int(same[(X[same] == X[pick]).all(-1)][0])

r"""Acquisitions of designs and a continuous fidelity: at one fidelity, and which fidelity to query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from mfbo_torch.acquisition.fused import Fused, fused
from mfbo_torch.models.gp.cached import CachedGP
from mfbo_torch.models.multi_fidelity.base import at_every_fidelity, at_fidelity
from mfbo_torch.ops.posterior.fused import Moments, Outputs
from mfbo_torch.ops.prepared import Array
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number

WORTHWHILE = 0.9
"""Largest cost of a fidelity that is queried instead of the target, as a share of the target's cost."""


@dataclass(frozen=True)
class _Slice(Outputs):
    """Outputs where the last column of the points is one number, ``value``."""

    value: float = 1.0

    @cached_property
    def dim(self) -> int:
        return self.processes[0].center.shape[-1] - 1

    def moments(self, X: Array, gradient: bool = False) -> tuple[Array, Array, list[Moments]]:
        return super().moments(np.column_stack([X, np.full(len(X), self.value)]), gradient)

    def gradient(self, found: list[Moments], by_mean: Array | float, by_variance: Array) -> Array:
        return np.ascontiguousarray(super().gradient(found, by_mean, by_variance)[:, :-1])


class AtFidelity(AcquisitionFunction):
    """Another acquisition of ``b x 1 x (d + 1)`` points, with the last column, the fidelity, fixed at ``value``."""

    def __init__(self, acquisition: AcquisitionFunction, value: float) -> None:
        super().__init__(acquisition.model)
        self.acquisition, self.value = acquisition, float(value)

    def fused(self) -> Fused | None:
        """The fused form of the other acquisition on designs; ``None`` where it has none."""
        inner = fused(self.acquisition)
        if inner is None or not isinstance(of := inner.outputs, Outputs):
            return None
        return Fused(_Slice(of.processes, of.weights, of.offsets, self.value), inner.head)

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """Values ``b`` at ``b x 1 x d`` designs."""
        return self.acquisition(at_fidelity(X, self.value))


def information_gaps(model: CachedGP, x: Tensor, values: Tensor) -> Tensor:
    r"""Information gaps of ``L`` fidelities to the last of them, the target,
    :math:`\xi(z) = (1 - \phi_Z(z, z_\bullet)^2)^{1/2}`, where :math:`\phi_Z` is the model's correlation between
    :math:`(x, z)` and :math:`(x, z_\bullet)` at a ``1 x d`` design, which for a product kernel depends on the
    fidelities alone [Kandasamy2017boca]_ (Sec. 3)."""
    points = _at_fidelities(model, x, values)
    with torch.no_grad():
        prior = model.model.covar_module(model.cache_points(points)).to_dense()
    correlation = prior[:, -1] / (prior.diagonal() * prior[-1, -1]).sqrt()
    return (1 - correlation.square()).clamp_min(0.0).sqrt()


def select_value(
    model: CachedGP,
    x: Tensor,
    values: Tensor,
    costs: Sequence[float],
    *,
    factor: float = 1.0,
    X_pending: Tensor | None = None,
) -> int:
    r"""The index of the cheapest fidelity whose deviation at ``x`` is large against its information gap, else of the
    target.

    The cheapest ``z`` with :math:`\lambda(z) < \lambda(z_\bullet)` and :math:`\tau(z, x) > \gamma(z)`,

    .. math:: \gamma(z) = g \, \kappa_0^{1/2} \, \xi(z) \, (\lambda(z) / \lambda(z_\bullet))^q,
        \qquad q = 1 / (p + d + 2),

    where :math:`\tau` is the posterior deviation, :math:`\kappa_0` the prior variance, :math:`\xi` the information gap
    and ``p = 1``; else :math:`z_\bullet`
    [Kandasamy2017boca]_ (Algorithm 1, with the ``q`` of a squared exponential kernel). The algorithm also skips
    fidelities next to the target, whose gap is below :math:`\max_z \xi(z) / \beta_t^{1/2}`; as in the authors'
    experiments, fidelities that would save less than a tenth of the target's cost are skipped instead, and
    :math:`\gamma` has a positive ``factor`` ``g`` that follows the share of queries at the target. The model is a GP of
    ``d`` parameters and the fidelity, ``x`` a ``1 x d`` design, ``values`` are ``L`` fidelities, the target last, with
    ``L`` costs at this design, and ``X_pending`` is ``p x (d + 1)``; a ``SettingError`` or
    ``BotorchTensorDimensionError`` says what is not so.
    """
    g = number("factor", factor, above=0)
    if len(costs) != len(values):
        raise SettingError("costs", list(costs), f"{len(values)} numbers, one a fidelity")
    points = _at_fidelities(model, x, values)
    ratios = points.new_tensor(costs) / costs[-1]
    with torch.no_grad():
        deviations = model.hallucinate(X_pending).posterior(points.unsqueeze(-2)).variance.reshape(-1).sqrt()
        prior = model.model.covar_module(model.cache_points(points[-1:])).diagonal()
    q = 1 / (1 + x.shape[-1] + 2)
    thresholds = g * prior.sqrt() * information_gaps(model, x, values) * ratios**q
    able = ((deviations > thresholds) & (ratios <= WORTHWHILE)).nonzero().flatten()
    return int(able[ratios[able].argmin()]) if len(able) else len(values) - 1


def _at_fidelities(model: CachedGP, x: Tensor, values: Tensor) -> Tensor:
    """``L x (d + 1)`` points: one design at every fidelity."""
    if x.shape != (1, model.dim - 1):
        raise BotorchTensorDimensionError(f"x of shape {tuple(x.shape)}: must be 1 x {model.dim - 1}")
    return at_every_fidelity(x, values).squeeze(0)

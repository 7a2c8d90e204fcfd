r"""Upper confidence bounds from several fidelities, and the fidelity to query."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from mfbo_torch.acquisition.fused import FLOOR, Fused, LastOutputs, affine, bound, deviation, least_bound
from mfbo_torch.models.multi_fidelity.fidelity_column import target_of, with_fidelities
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number


class MultiFidelityUpperConfidenceBound(AcquisitionFunction):
    r"""The tightest upper bound on the target that any fidelity gives.

    .. math:: \varphi(x) = \min_m \mu^{(m)}(x) + \beta^{1/2} \sigma^{(m)}(x) + \zeta^{(m)}

    [Kandasamy2016mfgpucb]_ (Eq. 3), or the target's own bound alone where ``zeta`` is ``None``. Maximised over designs:
    ``X`` is ``b x 1 x d`` and has no fidelity. :func:`select_fidelity` chooses the fidelity to query at the maximiser.

    Args:
        model: A model of ``M`` fidelities: one of this package, or :class:`~mfbo_torch.acquisition.FidelityColumn` of
            any exact GP whose last column is the fidelity; a ``SingleTaskMultiFidelityGP`` becomes one by itself.
        beta: Squared width of the confidence band.
        zeta: ``M`` bounds on ``|f^(M) - f^(m)|`` in the targets' units, the last one 0; ``None`` for the target's bound
            alone, which is what the recursive link needs.
        X_pending: ``p x (d + 1)`` pending points. They condition the deviations and leave the means.

    Raises:
        SettingError: A negative ``beta`` or ``zeta``, another number of ``zeta`` than fidelities, a last ``zeta`` that
            is not 0, or a model whose fidelities are not known.
        UnsupportedError: A model that is not an exact GP or has several outputs.
    """

    def __init__(
        self, model: Model, beta: float, zeta: Sequence[float] | None = None, X_pending: Tensor | None = None
    ) -> None:
        model = with_fidelities(model)
        super().__init__(model=model)
        self.beta = number("beta", beta, 0)
        if zeta is not None:
            zeta = [float(z) for z in zeta]
            if len(zeta) != model.num_fidelities or zeta[-1] != 0 or not all(z >= 0 for z in zeta):
                raise SettingError("zeta", zeta, f"{model.num_fidelities} numbers from 0 on, the last one 0")
        self.zeta = zeta
        self._outputs = LastOutputs()
        self._pending: Tensor | None = None
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Set the pending points, in place of the former ones: ``p x (d + 1)``, the last column the fidelity; or
        ``p x d`` designs, of which those that were pending before, in the same place, stay at their fidelity, the
        others count as pending at the target; or ``None`` for no point."""
        if X_pending is not None:
            X_pending = X_pending.detach().clone()
            if X_pending.dim() == 2 and X_pending.shape[-1] == self.model.dim:
                X_pending = self._with_fidelities(X_pending)
        self._hallucinated = self.model.hallucinate(X_pending)
        self._pending = X_pending

    @property
    def X_pending(self) -> Tensor | None:
        """The pending designs, ``p x d`` like the candidates BoTorch's optimisers append."""
        return None if self._pending is None else self._pending[..., :-1]

    def _with_fidelities(self, X: Tensor) -> Tensor:
        """``p x d`` designs with the fidelity at which they are pending."""
        fidelity = torch.full_like(X[:, :1], target_of(self.model))
        if self._pending is not None:
            k = min(len(X), len(self._pending))
            same = (X[:k] == self._pending[:k, :-1]).all(dim=-1, keepdim=True)
            fidelity[:k] = torch.where(same, self._pending[:k, -1:].to(X), fidelity[:k])
        return torch.cat([X, fidelity], dim=-1)

    def bounds(self, X: Tensor) -> Tensor:
        """The upper bound each fidelity gives, ``... x q x M`` at ``... x q x d`` designs."""
        mean, variance = self._hallucinated.mean_variance(X)
        bounds = mean + math.sqrt(self.beta) * deviation(variance)
        return bounds if self.zeta is None else bounds + bounds.new_tensor(self.zeta)

    def fused(self) -> Fused | None:
        """The bound and its gradient on arrays; ``None`` where the model has no such form."""
        outputs = self._outputs(self._hallucinated)
        if outputs is None:
            return None
        width = math.sqrt(self.beta)
        if self.zeta is None:
            return Fused(outputs.last, bound(width, FLOOR))
        return Fused(outputs, least_bound(width, FLOOR, np.array(self.zeta)))

    def forward(self, X: Tensor) -> Tensor:
        """``φ`` at ``b x 1 x d`` designs, shape ``b``."""
        fused = self.fused()
        return fused.at(X) if fused is not None and fused.takes(X) else self._through_torch(X)

    @t_batch_mode_transform(expected_q=1)
    def _through_torch(self, X: Tensor) -> Tensor:
        bounds = self.bounds(X).squeeze(-2)
        return bounds[..., -1] if self.zeta is None else bounds.amin(dim=-1)


def select_fidelity(
    model: Model, x: Tensor, beta: float, gamma: Sequence[float], X_pending: Tensor | None = None
) -> int:
    r"""The lowest fidelity that is still uncertain at a ``1 x d`` design ``x``, else the target.

    The smallest ``m`` with :math:`\beta^{1/2} \sigma^{(m)}(x) \ge \gamma^{(m)}`, or ``M - 1``
    [Kandasamy2016mfgpucb]_ (Algorithm 1, step 2), with ``M - 1`` thresholds ``gamma`` in the targets' units and
    ``p x (d + 1)`` pending points.

    Raises:
        SettingError: A negative ``beta`` or another number of thresholds.
        BotorchTensorDimensionError: ``x`` of another shape.
    """
    beta, model = number("beta", beta, 0), with_fidelities(model)
    if len(gamma) != model.num_fidelities - 1:
        raise SettingError("gamma", list(gamma), f"{model.num_fidelities - 1} thresholds, none for the target")
    if x.shape != (1, model.dim):
        raise BotorchTensorDimensionError(f"x of shape {tuple(x.shape)}: must be 1 x {model.dim}")
    with torch.no_grad():
        _, variance = model.hallucinate(X_pending).mean_variance(x)
    widths = (beta * variance[0]).sqrt().tolist()
    return next((m for m, threshold in enumerate(gamma) if widths[m] >= threshold), len(gamma))


def cost_thresholds(
    model: Model,
    x: Tensor,
    beta: float,
    costs: Sequence[float],
    growth: Sequence[float] | None = None,
    X_pending: Tensor | None = None,
) -> list[float]:
    r"""Thresholds ``γ`` that send a query to the fidelity which explains enough for its cost.

    With :math:`c_m` the weight of :math:`f^{(m)}` in :math:`f^{(M)}` at ``x`` (:meth:`PerFidelityGP.slopes_at`),
    fidelity ``m`` explains the share :math:`c_m^2 \sigma^{2(m)}` of the target's variance. Its cost pays where
    :math:`c_m^2 \sigma^{2(m)}(x) / \lambda^{(m)} \ge g_m \sigma^{2(M)}(x) / \lambda^{(M)}`, so
    :math:`\gamma^{(m)} = (g_m \beta \lambda^{(m)} / \lambda^{(M)})^{1/2} \sigma^{(M)}(x) / |c_m|`.

    Args:
        model: A model of ``M`` fidelities.
        x: ``1 x d`` design.
        beta: Squared width of the confidence band, not negative, or a ``SettingError`` is raised.
        costs: ``M`` increasing costs; another number raises a ``SettingError``.
        growth: ``M - 1`` factors ``g_m``, by default 1; larger ones leave a fidelity sooner.
        X_pending: ``p x (d + 1)`` pending points.

    Returns:
        ``M - 1`` thresholds in the targets' units, for :func:`select_fidelity`; infinite where a fidelity explains
        nothing, and all of them where nothing is left to explain.
    """
    model = with_fidelities(model)
    if len(costs) != model.num_fidelities:
        raise SettingError("costs", list(costs), f"{model.num_fidelities} numbers, one a fidelity")
    with torch.no_grad():
        narrowed = model.hallucinate(X_pending)
        _, variance = narrowed.mean_variance(x)
        slopes = narrowed.slopes_at(x).abs().tolist()
    width = math.sqrt(number("beta", beta, 0) * variance[0, -1].item())
    growth = [1.0] * (len(costs) - 1) if growth is None else growth
    return [
        width * math.sqrt(g * cost / costs[-1]) / slope if width * slope > 0 else math.inf
        for g, cost, slope in zip(growth, costs[:-1], slopes[:-1], strict=True)
    ]


def explained_variance(
    model: Model,
    x: Tensor,
    X_pending: Tensor | None = None,
    noise: Tensor | None = None,
    expected: Tensor | None = None,
) -> Tensor:
    r"""What each fidelity explains of the target's variance at a ``1 x d`` design, ``M`` numbers
    :math:`c_m^2 \sigma^{2(m)}(x)`, the last one that variance: see :func:`cost_thresholds`.

    With ``noise``, ``M`` variances :math:`\tau^2` of an observation, by how much one observation reduces it:
    :math:`c_m^2 \sigma^{4(m)} / (\sigma^{2(m)} + \tau_m^2)`. With ``expected``, ``M`` weights in place of those of the
    model, beside which the target keeps its own :math:`\sigma^{2(M)} - c_{M-1}^2 \sigma^{2(M-1)}`.
    """
    narrowed = with_fidelities(model).hallucinate(X_pending)
    with torch.no_grad():
        _, variance = narrowed.mean_variance(x)
        return explained(narrowed.slopes_at(x), variance[0], noise, expected)


def explained(slopes: Tensor, variance: Tensor, noise: Tensor | None = None, expected: Tensor | None = None) -> Tensor:
    """:func:`explained_variance` of weights ``M`` and variances ``... x M``, of their shape."""
    found = slopes.square() * variance
    if expected is not None and len(expected) > 1:
        own, below = found[..., -1] - found[..., -2], (expected.square() * variance)[..., :-1]
        found = torch.cat([below, (own + below[..., -1]).unsqueeze(-1)], -1)
    return found if noise is None else found * variance / deviation(variance + noise).square()


def lowest_paying(explained: Sequence[float], costs: Sequence[float]) -> int:
    """The lowest fidelity that explains as much for its cost as the target; the target where nothing is left to
    explain.

    Args:
        explained: ``M`` parts of the target's variance, see :func:`explained_variance`.
        costs: ``M`` costs.
    """
    least = explained[-1] / costs[-1]
    parts = enumerate(zip(explained, costs, strict=True))
    return next((m for m, (part, cost) in parts if part / cost >= least > 0), len(costs) - 1)


class StandardizedBound(AcquisitionFunction):
    """The bound in standardised units, as the tolerances of an optimiser are absolute."""

    def __init__(self, bound: MultiFidelityUpperConfidenceBound) -> None:
        super().__init__(bound.model)
        self.bound = bound

    def forward(self, X: Tensor) -> Tensor:
        return (self.bound(X) - self.model.shift[-1]) / self.model.scale[-1]

    def mean(self, X: Tensor) -> float:
        """The target's mean at a ``1 x d`` design."""
        with torch.no_grad():
            mean, _ = self.model.mean_variance(X)
        return float((mean[0, -1] - self.model.shift[-1]) / self.model.scale[-1])

    def fused(self) -> Fused | None:
        """As that of the bound."""
        inner, scale = self.bound.fused(), self.model.scale[-1].item()
        return None if inner is None else affine(inner, 1 / scale, -self.model.shift[-1].item() / scale)

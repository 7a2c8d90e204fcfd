r"""One Gaussian process per fidelity, independent or chained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import FantasizeMixin
from botorch.models.transforms.input import InputTransform
from botorch.utils.datasets import SupervisedDataset
from gpytorch.kernels import Kernel
from gpytorch.models.gp import GP
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from mfbo_torch.models.gp.conditioned import given
from mfbo_torch.models.gp.hyperparameters import Hyperparameters
from mfbo_torch.models.input_checks import check_data, check_fidelities, most_of, of_dataset
from mfbo_torch.models.multi_fidelity.base import FidelityModel, at_fidelity, levels
from mfbo_torch.models.multi_fidelity.chain import couplings, gathered, links, mean_below, mean_noise, summed, units
from mfbo_torch.models.multi_fidelity.level import NOISE_FLOOR, Level
from mfbo_torch.ops.cache import Cache, extend, grouped
from mfbo_torch.ops.posterior import cross_covariance, mean_covariance, mean_variance
from mfbo_torch.ops.posterior.fused import Outputs
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import one_of, whole

LINKS = ("recursive", "independent")
FIT_POINTS = 256
"""Largest number of observations of a fidelity to which its hyper-parameters are fitted."""


class PerFidelityGP(FidelityModel, FantasizeMixin, GP):
    r"""A Gaussian process for each fidelity ``0 .. M-1`` of one objective.

    ``link="independent"`` conditions fidelity ``m`` on its own observations alone [Kandasamy2016mfgpucb]_ (Eq. 1).
    ``link="recursive"`` chains them,

    .. math:: f^{(m)} = c_m + \rho_m f^{(m-1)} + \delta_m,

    with one process per residual :math:`\delta_m` [Kennedy2000multifidelity]_, so that
    :math:`\mu^{(m)} = c_m + \rho_m \mu^{(m-1)} + \mu_{\delta_m}` and
    :math:`\sigma^{2(m)} = \rho_m^2 \sigma^{2(m-1)} + \sigma^2_{\delta_m}` [LeGratiet2014recursive]_ (Eqs. 9, 10). Where
    the designs are nested and noise-free this is the joint process exactly; elsewhere the residual is taken against the
    posterior mean of the fidelity below. A fidelity without data, or above one without data, is not linked.

    Targets are standardised per fidelity inside; everything handed in and out is in their own units.

    Args:
        train_X: ``n x (d + 1)`` designs, best in the unit cube, the last column the fidelity.
        train_Y: ``n x 1`` observations.
        train_Yvar: ``n x 1`` known noise variances, 0 for none. Inferred per fidelity if omitted.
        num_fidelities: ``M``, which may also come third; fidelities without data are allowed. One more than the largest
            in the data if omitted.
        link: ``"recursive"`` or ``"independent"``.
        covar_modules: ``M`` kernels over the ``d`` designs (RBF or Matérn, scaled or not). By default RBF with a
            lengthscale per dimension; or for each of ``groups``, the numbers of the dimensions' lengthscales.
        input_transform: A transform of the ``d + 1`` columns that leaves the last one alone.
        outcome_transform: None: targets are standardised here, others are refused.

    Raises:
        BotorchTensorDimensionError: Wrong shapes.
        InputDataError: No data, NaN or infinite data, or fidelities that are not whole numbers in ``0..M-1``.
        SettingError: An unknown link, ``num_fidelities`` below 1, or a wrong number of kernels.
    """

    train_X: Tensor
    train_Y: Tensor
    train_Yvar: Tensor | None
    shift: Tensor
    scale: Tensor

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | int | None = None,
        num_fidelities: int | Tensor | None = None,
        *,
        link: str = "recursive",
        covar_modules: Sequence[Kernel] | None = None,
        input_transform: InputTransform | None = None,
        outcome_transform: None = None,
        groups: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        one_of("link", link, LINKS)
        if train_Yvar is not None and not isinstance(train_Yvar, Tensor):  # the number of fidelities third
            train_Yvar, num_fidelities = num_fidelities, train_Yvar
        if train_Yvar is not None and not isinstance(train_Yvar, Tensor):
            raise SettingError("train_Yvar", train_Yvar, "an n x 1 tensor")
        if outcome_transform is not None:
            wanted = "left out: targets are standardised per fidelity inside, and handed out in their own units"
            raise UnsupportedError(f"outcome_transform = {type(outcome_transform).__name__}: must be {wanted}")
        num_fidelities = whole("num_fidelities", most_of(train_X) if num_fidelities is None else num_fidelities)
        if covar_modules is not None and len(covar_modules) != num_fidelities:
            raise SettingError("covar_modules", f"{len(covar_modules)} kernels", f"one a fidelity ({num_fidelities})")
        check_data(train_X, train_Y, train_Yvar, num_fidelities)
        if input_transform is not None and input_transform.is_one_to_many:
            raise UnsupportedError(f"input_transform = {type(input_transform).__name__}: must make one point of one")
        self.num_fidelities, self.link, self.groups = num_fidelities, link, groups
        self.register_buffer("train_X", train_X)
        self.register_buffer("train_Y", train_Y.to(train_X))
        self.register_buffer("train_Yvar", None if train_Yvar is None else train_Yvar.to(train_X))
        if input_transform is not None:
            self.input_transform = input_transform.to(train_X)
        kernels = covar_modules or [None] * num_fidelities
        self.linked = links(self.train_X, num_fidelities, link)
        self.levels = torch.nn.ModuleList(
            Level(self.dim, linked * (num_fidelities - 1), train_Yvar is None, kernel, groups)
            for linked, kernel in zip(self.linked, kernels, strict=True)
        ).to(train_X)
        shift, scale = units(train_X, self.train_Y, self.linked, link)
        self.register_buffer("shift", shift)
        self.register_buffer("scale", scale)
        self._prepared_for = train_X.shape[-2]  # observations that links and units were made for
        self._own_kernels = covar_modules is not None
        self.transform_inputs(train_X)  # a transform that learns its bounds learns them from the data
        self._caches: tuple[Cache, ...] | None = None
        self._singles: list[Cache] | None = None  # the factors without pending points, one a fidelity
        self._former: list[Cache] | None = None  # those of the model this one has more observations than
        self._links: tuple[Tensor, Tensor] | None = None
        self._made_of = Hyperparameters(self)  # what these four follow from

    @property
    def dim(self) -> int:
        """Number of design inputs ``d``, the fidelity not counted."""
        return self.train_X.shape[-1] - 1

    @property
    def batch_shape(self) -> torch.Size:
        return self.train_X.shape[:-2]

    @property
    def train_inputs(self) -> tuple[Tensor]:
        return (self.train_X,)

    @property
    def train_targets(self) -> Tensor:
        return self.train_Y.squeeze(-1)

    @property
    def likelihood(self) -> torch.nn.Module:
        """The likelihood of the target fidelity."""
        return self._levels[-1].likelihood

    @property
    def _levels(self) -> list[Level]:
        return [level for level in self.levels if isinstance(level, Level)]

    def _level_data(self, m: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Designs, standardised targets, standardised noise and mask of fidelity ``m``, padded over the batch."""
        Y = ((self.train_Y - self.shift[m]) / self.scale[m]).squeeze(-1)
        if self.train_Yvar is None:
            noise = self._levels[m].likelihood.noise.detach().expand_as(Y)
        else:
            known = (self.train_Yvar / self.scale[m].square()).clamp_min(NOISE_FLOOR)
            noise = known.squeeze(-1).expand_as(Y)
        return gathered(self.train_X[..., -1] == m, self.transform_inputs(self.train_X)[..., :-1], Y, noise)

    def fit(self, **kwargs: Any) -> Self:
        """Fit the hyper-parameters of each fidelity in turn by marginal likelihood, the cheapest first.

        Links and units follow the data, also those that came by conditioning. A fidelity with more than
        :data:`FIT_POINTS` observations is fitted to that many of them, evenly spaced in the order of the data. The
        ``kwargs`` go to ``botorch.fit.fit_gpytorch_mll``.
        """
        if self.batch_shape:
            raise UnsupportedError(f"batch_shape = {tuple(self.batch_shape)}: must be empty to fit")
        self._forget()
        self._renew_levels()
        caches: list[Cache] = []
        for m, level in enumerate(self._levels):
            U, Y, noise, _ = self._level_data(m)
            if len(U):
                below = mean_below(self._levels, self.linked, caches, U, m)
                some = torch.linspace(0, len(U) - 1, min(len(U), FIT_POINTS), device=U.device).round().long()
                level.fit(U[some], Y[some], noise[some], below[some], **kwargs)
            caches.append(self._level_cache(m, caches))
        self.eval()._forget()
        self._singles = caches
        return self

    def custom_fit(self, mll: Any, closure: Any = None, closure_kwargs: Any = None, **kwargs: Any) -> Any:
        """What ``botorch.fit.fit_gpytorch_mll`` does with this model: :meth:`fit`, and gives ``mll`` back."""
        if closure is not None or closure_kwargs:
            raise UnsupportedError("closure: must be left out, each fidelity has a marginal likelihood of its own")
        self.fit(**{name: given for name, given in kwargs.items() if given is not None})
        return mll.eval()

    def _renew_levels(self) -> None:
        """Levels of this model's own, for the data it has now."""
        if self._shared:
            self._own()
        if self._prepared_for == self.train_X.shape[-2]:
            return
        self._prepared_for = self.train_X.shape[-2]
        former, self.linked = self.linked, links(self.train_X, self.num_fidelities, self.link)
        self.shift, self.scale = units(self.train_X, self.train_Y, self.linked, self.link)
        for m, linked in enumerate(self.linked):
            if linked != former[m]:
                kernel = self._levels[m].covar_module if self._own_kernels else None
                count, infers = linked * (self.num_fidelities - 1), self.train_Yvar is None
                self.levels[m] = Level(self.dim, count, infers, kernel, self.groups).to(self.train_X)

    def _level_cache(self, m: int, caches: list[Cache]) -> Cache:
        """The factor of the residual of fidelity ``m``, given those below."""
        U, Y, noise, mask = self._level_data(m)
        below = mean_below(self._levels, self.linked, caches, U, m)
        former = None if self._former is None else self._former[m]
        cache = self._levels[m].factor(U, Y, noise, below, mask, former)
        unseen = self.noise[m] / self.scale[m].square()  # for pending points where there are no data
        return replace(cache, noise=torch.where(mask.sum(-1) > 0, cache.noise, unseen))

    @property
    def caches(self) -> tuple[Cache, ...]:
        """The factors of the fidelities, pending points that are not :attr:`coupled` included: all in one batch
        ``... x M`` where that pays, else one batch ``... x 1`` a fidelity."""
        return self._with_pending(self._free())

    @property
    def singles(self) -> list[Cache]:
        """The factors without pending points, one a fidelity."""
        self._free()
        return self._singles or []

    def _free(self) -> tuple[Cache, ...]:
        if not self._made_of.unchanged():
            self._forget()
        if self._caches is None:
            with self._with_grad():
                caches = self._singles or []
                for m in range(len(caches), self.num_fidelities):
                    caches.append(self._level_cache(m, caches))
                self._caches, self._singles, self._former = grouped(caches), caches, None
        return self._caches

    def _with_grad(self) -> torch.set_grad_enabled:
        """Detached from the hyper-parameters; a fantasy's points and values may need gradients."""
        fantasy = self.train_X.requires_grad or self.train_Y.requires_grad
        return torch.set_grad_enabled(fantasy and torch.is_grad_enabled())

    def _extended(self, factor: tuple[Cache, ...], X: Tensor) -> tuple[Cache, ...]:
        X = X.to(self.train_X)
        mask = torch.stack([((X[..., -1] == m) & (not linked)).to(X) for m, linked in enumerate(self.linked)], -2)
        masks = mask.split([cache.outputscale.shape[-1] for cache in factor], dim=-2)
        with self._with_grad():
            U = self.transform_inputs(X)[..., :-1].unsqueeze(-3)
            return tuple(extend(cache, U, own) for cache, own in zip(factor, masks, strict=True))

    @property
    def coupled(self) -> Tensor | None:
        """Pending points at fidelities that follow others: observations of sums of processes, which they couple."""
        if self._pending is None:
            return None
        some = self._pending[torch.tensor(self.linked, device=self._pending.device)[levels(self._pending)]]
        return some if len(some) else None

    def mean_variance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of every fidelity at ``... x q x d`` designs, two ``... x q x M`` tensors in the
        units of the targets and their square. ``...`` is broadcast with :attr:`batch_shape`. Differentiable."""
        if X.shape[-1] != self.dim:
            raise BotorchTensorDimensionError(f"X of shape {tuple(X.shape)}: the last axis must be d = {self.dim}")
        points = X
        if "input_transform" in self._modules:
            self.eval()
            points = self.transform_inputs(torch.cat([X, torch.zeros_like(X[..., :1])], -1))[..., :-1]
        lead = X.shape[: -2 if self.batch_shape else 0]
        points = points.reshape(*lead, 1, X.shape[len(lead) : -1].numel(), points.shape[-1])
        parts = zip(*(mean_variance(cache, points) for cache in self.caches), strict=True)
        mean, variance = (torch.cat(part, -2) for part in parts)  # of the residuals, ... x M x m
        weights, offsets = self._weights()
        mean = mean.mT @ weights.mT + offsets
        variance = variance.mT @ weights.square().mT
        if (coupled := self.coupled) is not None:
            variance = (variance - self._explained_by(coupled, points)).clamp_min(0.0)
        shape = (*mean.shape[:-2], *X.shape[len(lead) : -1], self.num_fidelities)
        return mean.view(shape), variance.reshape(shape)

    def _explained_by(self, coupled: Tensor, points: Tensor) -> Tensor:
        """The variance at ``... x 1 x m x d`` transformed designs that coupled points explain, ``... x m x M``."""
        (weights, _), coupled, at = self._weights(), coupled.to(points), levels(coupled)
        U = self.transform_inputs(coupled)[..., :-1].unsqueeze(-3)
        residuals = torch.cat([cross_covariance(cache, U, points) for cache in self.caches], -3)  # ... x M x p x m
        cross = torch.einsum("pr,kr,...rpm->...kpm", weights[at], weights, residuals)
        corner = self._uncoupled(coupled)[1] + torch.diag_embed(self.noise[at])
        factor = psd_safe_cholesky(corner).unsqueeze(-3)
        return torch.linalg.solve_triangular(factor, cross, upper=False).square().sum(-2).mT

    def _weights(self) -> tuple[Tensor, Tensor]:
        if self._links is None:
            with torch.no_grad():
                self._links = couplings(self._levels, self.linked, self.shift, self.scale)
        return self._links

    @property
    def slopes(self) -> Tensor:
        r"""``M`` weights :math:`\prod_{j > m} \rho_j` with which each fidelity enters the target, the last one 1."""
        if not self._made_of.unchanged():
            self._forget()
        return self._weights()[0][-1] / self._weights()[0].diagonal()

    def slopes_at(self, x: Tensor) -> Tensor:
        """:attr:`slopes`, as they are the same at every design."""
        return self.slopes

    def factors(self) -> tuple[Cache, ...] | None:
        closed = not self.batch_shape and "input_transform" not in self._modules and self.coupled is None
        return self.caches if closed else None

    def outputs(self, caches: tuple[Cache, ...]) -> Outputs | None:
        residuals = super().outputs(caches)
        weights, offsets = (part.cpu().numpy() for part in self._weights())
        return None if residuals is None else Outputs(residuals.processes, weights, offsets[:, None])

    def _joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        coupled = self.coupled
        if coupled is None:
            return self._uncoupled(X)
        return given(self._uncoupled, X, coupled, self.noise[levels(coupled)])

    def _uncoupled(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The joint moments without the :attr:`coupled` points."""
        U = self.transform_inputs(X)[..., :-1]
        return summed([mean_covariance(cache, U.unsqueeze(-3)) for cache in self.caches], *self._weights(), levels(X))

    def every_fidelity(self, X: Tensor) -> tuple[Tensor, Tensor]:
        U = self.transform_inputs(at_fidelity(X, 0))[..., :-1].unsqueeze(-3)
        means, covariances = zip(*(mean_covariance(cache, U) for cache in self._free()), strict=True)
        weights, offsets = self._weights()
        joint = torch.einsum("mr,kr,rij->imjk", weights, weights, torch.cat(covariances))
        return torch.cat(means).mT @ weights.mT + offsets, joint

    def forward(self, X: Tensor) -> Any:
        """The joint normal of :meth:`posterior`."""
        return self.posterior(X).distribution

    @property
    def noise(self) -> Tensor:
        """``M`` noise variances in the targets' units squared (the mean ones, where known)."""
        if self.train_Yvar is None:
            return self.scale.square() * torch.stack([k.likelihood.noise.detach().reshape(()) for k in self._levels])
        return mean_noise(self.train_X[..., -1], self.train_Yvar.squeeze(-1), self.num_fidelities)

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **kwargs: Any) -> Self:
        """This model with ``b x q x (d + 1)`` more points and ``s x b x q x 1`` observations, whose extra leading axes
        are further batches, and the same hyper-parameters. ``noise`` is known noise variances like ``Y``; by default
        the mean of ``train_Yvar``, where that was given."""
        check_fidelities("X", X, self.dim + 1, self.num_fidelities)
        if noise is not None and self.train_Yvar is None:
            raise SettingError("noise", noise, "left out where a model was given no train_Yvar: it infers its noise")
        batch = torch.broadcast_shapes(Y.shape[:-2], X.shape[:-2], self.batch_shape)
        tracked = any(tensor.requires_grad for tensor in (X, Y, self.train_X))
        plain = not (batch or self.training or tracked) and X.dtype == torch.double
        former, clone = self.singles if plain else None, self._twin()

        def appended(old: Tensor, new: Tensor) -> Tensor:
            return torch.cat([old.expand(*batch, *old.shape[-2:]), new.expand(*batch, *new.shape[-2:])], -2)

        clone.train_X, clone.train_Y = appended(self.train_X, X), appended(self.train_Y, Y)
        if self.train_Yvar is not None:
            known = self.noise[levels(X)].unsqueeze(-1) if noise is None else noise
            clone.train_Yvar = appended(self.train_Yvar, known)
        clone._caches, clone._singles, clone._former = None, None, former
        return clone

    @property
    def _anchor(self) -> Tensor:
        return self.train_X

    def _forget(self, moved: bool = False) -> None:
        self._caches = self._singles = self._former = self._links = None
        self._made_of = Hyperparameters(self)

    @classmethod
    def construct_inputs(
        cls,
        training_data: SupervisedDataset,
        fidelity_features: Sequence[int] | None = None,
        num_fidelities: int | None = None,
        link: str = "recursive",
    ) -> dict[str, Any]:
        """Constructor arguments from a BoTorch dataset, see :func:`~mfbo_torch.models.input_checks.of_dataset`."""
        return {**of_dataset(training_data, fidelity_features, num_fidelities), "link": link}

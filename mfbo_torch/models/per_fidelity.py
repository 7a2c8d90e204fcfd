r"""One Gaussian process per fidelity, independent or chained.

References:

.. [Kandasamy2016mfgpucb]
    K. Kandasamy, G. Dasarathy, J. Oliva, J. Schneider, B. Póczos. Gaussian Process Bandit
    Optimisation with Multi-fidelity Evaluations. NeurIPS 2016.

.. [Kennedy2000multifidelity]
    M. C. Kennedy, A. O'Hagan. Predicting the output from a complex computer code when fast
    approximations are available. Biometrika 87(1), 2000.

.. [LeGratiet2014recursive]
    L. Le Gratiet, J. Garnier. Recursive co-kriging model for design of computer experiments with
    multiple levels of fidelity. International Journal for Uncertainty Quantification 4(5), 2014.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models.model import FantasizeMixin, Model
from botorch.models.transforms.input import InputTransform
from botorch.posteriors import GPyTorchPosterior, Posterior
from botorch.utils.datasets import SupervisedDataset
from gpytorch.kernels import Kernel
from linear_operator import to_linear_operator
from torch import Tensor

from mfbo_torch.errors import SettingError
from mfbo_torch.models.checks import check_observations, check_points
from mfbo_torch.models.level import Level
from mfbo_torch.models.normal import Normal
from mfbo_torch.models.units import units
from mfbo_torch.ops.cache import Cache, extend, factorize, grouped, grow
from mfbo_torch.ops.kernels import describe
from mfbo_torch.ops.posterior import mean_covariance, mean_variance

LINKS = ("recursive", "independent")
FIT_POINTS = 256
"""More observations than this change the hyper-parameters little and make fitting them slow."""


class PerFidelityGP(Model, FantasizeMixin):
    r"""A Gaussian process for each fidelity ``0 .. M-1`` of one objective.

    ``link="independent"`` conditions fidelity ``m`` on its own observations alone
    [Kandasamy2016mfgpucb]_ (Eq. 1). ``link="recursive"`` chains them,

    .. math:: f^{(m)} = c_m + \rho_m f^{(m-1)} + \delta_m,

    with one process per residual :math:`\delta_m` [Kennedy2000multifidelity]_, so that
    :math:`\mu^{(m)} = c_m + \rho_m \mu^{(m-1)} + \mu_{\delta_m}` and
    :math:`\sigma^{2(m)} = \rho_m^2 \sigma^{2(m-1)} + \sigma^2_{\delta_m}` [LeGratiet2014recursive]_
    (Eqs. 9, 10). Where the designs are nested and noise-free this is the joint process exactly;
    elsewhere the residual is taken against the posterior mean of the fidelity below. A fidelity
    without data, or above one without data, is not linked.

    Targets are standardised per fidelity inside; everything handed in and out is in their own
    units.

    Args:
        train_X: ``n x (d + 1)`` designs, best in the unit cube, the last column the fidelity.
        train_Y: ``n x 1`` observations.
        num_fidelities: ``M``; fidelities without data are allowed.
        train_Yvar: ``n x 1`` known noise variances. Inferred per fidelity if omitted.
        link: ``"recursive"`` or ``"independent"``.
        covar_modules: ``M`` kernels over the ``d`` designs (RBF or Matérn, scaled or not). By
            default RBF with a lengthscale per dimension.
        input_transform: A transform of the ``d + 1`` columns that leaves the last one alone.

    Raises:
        BotorchTensorDimensionError: Wrong shapes.
        InputDataError: No data, NaN or infinite data, or fidelities that are not whole numbers in
            ``0..M-1``.
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
        num_fidelities: int,
        train_Yvar: Tensor | None = None,
        *,
        link: str = "recursive",
        covar_modules: Sequence[Kernel] | None = None,
        input_transform: InputTransform | None = None,
    ) -> None:
        super().__init__()
        if link not in LINKS:
            raise SettingError("link", link, " or ".join(map(repr, LINKS)))
        if not isinstance(num_fidelities, int) or num_fidelities < 1:
            raise SettingError("num_fidelities", num_fidelities, "a whole number from 1 on")
        if covar_modules is not None and len(covar_modules) != num_fidelities:
            raise SettingError("covar_modules", f"{len(covar_modules)} kernels", f"one a fidelity ({num_fidelities})")
        _check_data(train_X, train_Y, train_Yvar, num_fidelities)
        if input_transform is not None and input_transform.is_one_to_many:
            raise UnsupportedError(f"input_transform = {type(input_transform).__name__}: must make one point of one")
        self.num_fidelities, self.link = num_fidelities, link
        self.register_buffer("train_X", train_X)
        self.register_buffer("train_Y", train_Y.to(train_X))
        self.register_buffer("train_Yvar", None if train_Yvar is None else train_Yvar.to(train_X))
        if input_transform is not None:
            self.input_transform = input_transform.to(train_X)
        kernels = covar_modules or [None] * num_fidelities
        self.linked = self._links_of_data()
        self.levels = torch.nn.ModuleList(
            Level(self.dim, linked, train_Yvar is None, kernel)
            for linked, kernel in zip(self.linked, kernels, strict=True)
        ).to(train_X)
        shift, scale = self._units()
        self.register_buffer("shift", shift)
        self.register_buffer("scale", scale)
        self._prepared_for = train_X.shape[-2]  # observations that links and units were made for
        self._own_kernels = covar_modules is not None
        self._shared = False  # whether another model has the same levels
        self.transform_inputs(train_X)  # a transform that learns its bounds learns them from the data
        self._caches: tuple[Cache, ...] | None = None
        self._singles: list[Cache] | None = None  # the factors without pending points, one a fidelity
        self._former: list[Cache] | None = None  # those of the model this one has more observations than
        self._links: tuple[Tensor, Tensor] | None = None
        self._pending: Tensor | None = None

    @property
    def dim(self) -> int:
        """Number of design inputs ``d``, the fidelity not counted."""
        return self.train_X.shape[-1] - 1

    @property
    def num_outputs(self) -> int:
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        return torch.broadcast_shapes(self.train_X.shape[:-2], self.train_Y.shape[:-2])

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

    def _counts(self) -> list[int]:
        """Observations per fidelity (the most of any batch)."""
        fidelities = self.train_X[..., -1].reshape(-1, self.train_X.shape[-2])
        return [int((fidelities == m).sum(-1).max()) for m in range(self.num_fidelities)]

    def _links_of_data(self) -> list[bool]:
        """Whether each fidelity follows the one below: both need data."""
        counts = self._counts()
        chained = self.link == "recursive"
        return [chained and m > 0 and min(counts[m - 1 : m + 1]) > 0 for m in range(self.num_fidelities)]

    def _units(self) -> tuple[Tensor, Tensor]:
        return units(self.train_X, self.train_Y, self.linked, self.link)

    def _level_data(self, m: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Designs, standardised targets, standardised noise and mask of fidelity ``m``, padded to
        its largest count over the batch."""
        X = self.transform_inputs(self.train_X)
        Y = ((self.train_Y - self.shift[m]) / self.scale[m]).squeeze(-1)
        if self.train_Yvar is None:
            noise = self._levels[m].likelihood.noise.detach().expand_as(Y)
        else:
            noise = (self.train_Yvar / self.scale[m].square()).squeeze(-1).expand_as(Y)
        mask = self.train_X[..., -1] == m
        count = self._counts()[m]
        order = torch.argsort(~mask, dim=-1, stable=True)[..., :count]
        U = X[..., :-1].gather(-2, order.unsqueeze(-1).expand(*order.shape, self.dim))
        wide = order.expand(*Y.shape[:-1], count)
        return U, Y.gather(-1, wide), noise.gather(-1, wide), mask.gather(-1, order).to(Y)

    def fit(self, **kwargs: Any) -> Self:
        """Fit the hyper-parameters of each fidelity in turn by marginal likelihood, the cheapest first.

        Links and units follow the data, also those that came by conditioning. A fidelity with more than
        :data:`FIT_POINTS` observations is fitted to that many of them, evenly spaced in the order of the data.

        Args:
            kwargs: Passed to ``botorch.fit.fit_gpytorch_mll``.
        """
        if self.batch_shape:
            raise UnsupportedError(f"batch_shape = {tuple(self.batch_shape)}: must be empty to fit")
        self._forget()
        self._renew_levels()
        caches: list[Cache] = []
        for m, level in enumerate(self._levels):
            U, Y, noise, _ = self._level_data(m)
            if len(U):
                below = self._mean_below(U, m, caches)
                some = torch.linspace(0, len(U) - 1, min(len(U), FIT_POINTS), device=U.device).round().long()
                level.fit(U[some], Y[some], noise[some], below[some], **kwargs)
            caches.append(self._level_cache(m, caches))
        self.eval()._forget()
        self._singles = caches
        return self

    def _renew_levels(self) -> None:
        """Levels of this model's own, for the data it has now."""
        if self._shared:
            self.__dict__.update(_modules=dict(self._modules), _buffers=dict(self._buffers))
            self.levels, self._shared = copy.deepcopy(self.levels), False
        if self._prepared_for == self.train_X.shape[-2]:
            return
        self._prepared_for = self.train_X.shape[-2]
        former, self.linked = self.linked, self._links_of_data()
        self.shift, self.scale = self._units()
        for m, linked in enumerate(self.linked):
            if linked != former[m]:
                kernel = self._levels[m].covar_module if self._own_kernels else None
                self.levels[m] = Level(self.dim, linked, self.train_Yvar is None, kernel).to(self.train_X)

    def _mean_below(self, U: Tensor, m: int, caches: list[Cache]) -> Tensor:
        """Standardised posterior mean of fidelity ``m - 1`` at designs of fidelity ``m``; zeros if not linked."""
        if not self.linked[m]:
            return torch.zeros_like(U[..., 0])
        mean = torch.zeros_like(U[..., 0])
        for k in range(m):
            own, _ = mean_variance(caches[k], U)
            mean = own + self._levels[k].rho.detach() * mean if self.linked[k] else own
        return mean

    def _level_cache(self, m: int, caches: list[Cache]) -> Cache:
        """The factor of the residual of fidelity ``m``, given those below."""
        level = self._levels[m]
        U, Y, noise, mask = self._level_data(m)
        constant = level.constant.detach()
        residuals = Y - constant - level.rho.detach() * self._mean_below(U, m, caches)
        former = None if self._former is None else self._former[m]
        if former is not None and former.num_points:
            return grow(former, U[former.num_points :], residuals, noise[former.num_points :])
        kind, lengthscale, outputscale = describe(level.covar_module, self.dim)
        cache = factorize(kind, U, residuals, noise, lengthscale.detach(), outputscale.detach(), constant, mask)
        unseen = self.noise[m] / self.scale[m].square()  # for pending points where there are no data
        return replace(cache, noise=torch.where(mask.sum(-1) > 0, cache.noise, unseen))

    @property
    def caches(self) -> tuple[Cache, ...]:
        """The factors of the fidelities, pending points included: all in one batch ``... x M`` where
        that pays, else one batch ``... x 1`` a fidelity."""
        if self._caches is None:
            # detached from the hyper-parameters; a fantasy's points and values may need gradients
            fantasy = self.train_X.requires_grad or self.train_Y.requires_grad
            with torch.set_grad_enabled(fantasy and torch.is_grad_enabled()):
                caches = self._singles or []
                for m in range(len(caches), self.num_fidelities):
                    caches.append(self._level_cache(m, caches))
                self._caches, self._singles, self._former = grouped(caches), caches, None
                if self._pending is not None:
                    self._caches = self._extended(self._caches, self._pending.to(self.train_X))
        return self._caches

    def _extended(self, caches: tuple[Cache, ...], X_pending: Tensor) -> tuple[Cache, ...]:
        fidelity = X_pending[..., -1]
        mask = torch.stack([(fidelity == m).to(X_pending) for m in range(self.num_fidelities)], dim=-2)
        U = self.transform_inputs(X_pending)[..., :-1].unsqueeze(-3)
        masks = mask.split([cache.outputscale.shape[-1] for cache in caches], dim=-2)
        return tuple(extend(cache, U, own) for cache, own in zip(caches, masks, strict=True))

    def hallucinate(self, X_pending: Tensor | None) -> PerFidelityGP:
        """This model with deviations also conditioned on points whose values are still out.

        The means stay as they are. A pending point conditions the process of its own fidelity.

        Args:
            X_pending: ``p x (d + 1)``, the last column the fidelity, or ``None``.

        Raises:
            BotorchTensorDimensionError: Another width.
            InputDataError: NaN, or a fidelity that does not exist.
        """
        if X_pending is None or X_pending.shape[-2:-1] == (0,):
            return self
        if X_pending.dim() != 2:
            raise BotorchTensorDimensionError(f"X_pending of shape {tuple(X_pending.shape)}: must be p x (d + 1)")
        check_points(X_pending, self.dim + 1, self.num_fidelities, "X_pending")
        self.eval()
        clone = self._twin()
        X_pending = X_pending.to(self.train_X)
        clone._caches = self._extended(self.caches, X_pending)
        clone._pending = X_pending if self._pending is None else torch.cat([self._pending, X_pending])
        return clone

    def _couplings(self) -> tuple[Tensor, Tensor]:
        """``M x M`` weights of the residuals in each fidelity, and ``M`` offsets, in the targets' units."""
        rows: list[Tensor] = []
        offsets: list[Tensor] = []
        for m, level in enumerate(self._levels):
            unit = torch.zeros(self.num_fidelities).to(self.scale)
            unit[m] = self.scale[m]
            offset = self.shift[m]
            if self.linked[m]:
                slope = level.rho.detach() * self.scale[m] / self.scale[m - 1]
                unit = unit + slope * rows[-1]
                offset = offset + slope * (offsets[-1] - self.shift[m - 1])
            rows.append(unit)
            offsets.append(offset)
        return torch.stack(rows), torch.stack(offsets)

    def mean_variance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of every fidelity at once.

        Args:
            X: ``... x d`` designs without a fidelity. Differentiable.

        Returns:
            Two ``... x M`` tensors, in the units of the targets and their square (a model with a
            batch shape gives ``batch_shape x ... x M``).
        """
        if X.shape[-1] != self.dim:
            raise BotorchTensorDimensionError(f"X of shape {tuple(X.shape)}: the last axis must be d = {self.dim}")
        points = X
        if "input_transform" in self._modules:
            self.eval()
            points = self.transform_inputs(torch.cat([X, torch.zeros_like(X[..., :1])], -1))[..., :-1]
        weights, offsets = self._weights()
        mean, variance = self._residuals(points.reshape(1, -1, self.dim))
        mean = mean.mT @ weights.mT + offsets
        variance = variance.mT @ weights.square().mT
        shape = (*mean.shape[:-2], *X.shape[:-1], self.num_fidelities)
        return mean.view(shape), variance.view(shape)

    def _residuals(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Standardised mean and variance of every residual, ``... x M x m``, at ``1 x m x d`` points."""
        parts = [mean_variance(cache, points) for cache in self.caches]
        if len(parts) == 1:
            return parts[0]
        means, variances = zip(*parts, strict=True)
        return torch.cat(means, -2), torch.cat(variances, -2)

    def _weights(self) -> tuple[Tensor, Tensor]:
        if self._links is None:
            with torch.no_grad():
                self._links = self._couplings()
        return self._links

    @property
    def slopes(self) -> Tensor:
        r"""``M`` weights :math:`\prod_{j > m} \rho_j` with which each fidelity enters the target, the last one 1."""
        weights, _ = self._weights()
        return weights[-1] / weights.diagonal()

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """Joint posterior at ``b x q x (d + 1)`` points of any mix of fidelities.

        Args:
            X: Designs, the last column the fidelity.
            output_indices: Not used: there is one output.
            observation_noise: Add the noise of each point's fidelity, or the given variances.
            posterior_transform: Applied to the posterior.
        """
        self.eval()
        check_points(X, self.dim + 1, self.num_fidelities, "X")
        U = self.transform_inputs(X)[..., :-1]
        fidelity = X[..., -1].round().long()
        weights, offsets = self._weights()
        means, covariances = zip(*(mean_covariance(cache, U.unsqueeze(-3)) for cache in self.caches), strict=True)
        mean, covariance = torch.cat(means, -2), torch.cat(covariances, -3)
        W = weights[fidelity].mT
        mean = (W * mean).sum(-2) + offsets[fidelity]
        covariance = (W.unsqueeze(-1) * W.unsqueeze(-2) * covariance).sum(-3)
        if isinstance(observation_noise, Tensor):
            covariance = covariance + torch.diag_embed(observation_noise.squeeze(-1).expand_as(mean))
        elif observation_noise:
            covariance = covariance + torch.diag_embed(self.noise[fidelity].expand_as(mean))
        # lazy: a dense one would be factored at once and fail where points repeat
        posterior = GPyTorchPosterior(Normal(mean, to_linear_operator(covariance)))
        return posterior_transform(posterior) if posterior_transform is not None else posterior

    def forward(self, X: Tensor) -> Any:
        """The joint normal of :meth:`posterior`."""
        return self.posterior(X).distribution

    @property
    def noise(self) -> Tensor:
        """``M`` noise variances in the targets' units squared (the mean ones, where known)."""
        if self.train_Yvar is None:
            levels = torch.stack([level.likelihood.noise.detach().reshape(()) for level in self._levels])
            return levels * self.scale.square()
        fidelity = self.train_X[..., -1]
        Yvar = self.train_Yvar.squeeze(-1).expand_as(fidelity)
        means = [Yvar[fidelity == m].mean() if (fidelity == m).any() else Yvar.mean() for m in range(len(self.levels))]
        return torch.stack(means)

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **kwargs: Any) -> Self:
        """This model with more observations and the same hyper-parameters.

        Args:
            X: ``b x q x (d + 1)`` designs and fidelities.
            Y: ``s x b x q x 1`` observations; extra leading axes are further batches.
            noise: Known noise variances like ``Y``; needed where ``train_Yvar`` was given, and by
                default its mean.
        """
        check_points(X, self.dim + 1, self.num_fidelities, "X")
        batch = torch.broadcast_shapes(Y.shape[:-2], X.shape[:-2], self.batch_shape)
        clone = self._twin()

        def appended(old: Tensor, new: Tensor) -> Tensor:
            return torch.cat([old.expand(*batch, *old.shape[-2:]), new.expand(*batch, *new.shape[-2:])], -2)

        clone.train_X, clone.train_Y = appended(self.train_X, X), appended(self.train_Y, Y)
        if self.train_Yvar is not None:
            known = self.noise[X[..., -1].round().long()].unsqueeze(-1) if noise is None else noise
            clone.train_Yvar = appended(self.train_Yvar, known)
        plain = not batch and X.dtype == torch.double and not self.training and not _tracked(X, Y, self.train_X)
        if plain and self._singles is None:
            _ = self.caches
        clone._caches, clone._singles, clone._former = None, None, self._singles if plain else None
        return clone

    def _twin(self) -> Self:
        """Another model of the same data and levels."""
        clone = copy.copy(self)
        clone.__dict__.update(_modules=dict(self._modules), _buffers=dict(self._buffers))
        self._shared = clone._shared = True
        return clone

    def _forget(self) -> None:
        self._caches = self._singles = self._former = self._links = None

    def train(self, mode: bool = True) -> Self:
        if mode:
            self._forget()
        return torch.nn.Module.train(self, mode)

    def eval(self) -> Self:
        return torch.nn.Module.train(self, False)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Self:
        # BoTorch's acquisition functions move their model at every call, nearly always to where it is
        if fn(self.train_X) is self.train_X and not self.train_X.is_shared():
            return self
        self._forget()
        return super()._apply(fn, *args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self._forget()
        return super().load_state_dict(*args, **kwargs)

    @classmethod
    def construct_inputs(
        cls,
        training_data: SupervisedDataset,
        fidelity_features: Sequence[int] | None = None,
        num_fidelities: int | None = None,
        link: str = "recursive",
    ) -> dict[str, Any]:
        """Constructor arguments from a BoTorch dataset.

        Args:
            training_data: One outcome; its last feature is the fidelity.
            fidelity_features: Index of the fidelity column; must be the last one.
            num_fidelities: ``M``; by default one more than the largest fidelity in the data.
            link: As in the constructor.
        """
        X = training_data.X
        if fidelity_features and [f % X.shape[-1] for f in fidelity_features] != [X.shape[-1] - 1]:
            raise SettingError("fidelity_features", list(fidelity_features), f"[{X.shape[-1] - 1}], the last column")
        inputs = {"train_X": X, "train_Y": training_data.Y, "link": link}
        inputs["num_fidelities"] = num_fidelities or int(X[..., -1].max()) + 1
        if training_data.Yvar is not None:
            inputs["train_Yvar"] = training_data.Yvar
        return inputs


def _tracked(*tensors: Tensor) -> bool:
    """Whether any has a gradient to keep."""
    return any(tensor.requires_grad for tensor in tensors)


def _check_data(X: Tensor, Y: Tensor, Yvar: Tensor | None, num_fidelities: int) -> None:
    if X.dim() != 2 or X.shape[-1] < 2:
        raise BotorchTensorDimensionError(f"train_X of shape {tuple(X.shape)}: must be n x (d + 1), d at least 1")
    check_observations(Y, Yvar, X, ("train_Y", "train_Yvar", "train_X"), "n")
    if len(X) == 0:
        raise InputDataError("train_X: must have at least one row, found none")
    check_points(X, X.shape[-1], num_fidelities, "train_X")

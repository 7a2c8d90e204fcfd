r"""Recursive co-kriging that knows what it does not know of its links."""

from __future__ import annotations

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from mfbo_torch.models.gp.conditioned import given
from mfbo_torch.models.multi_fidelity.base import FidelityModel, at_every_fidelity, levels
from mfbo_torch.models.multi_fidelity.per_fidelity import PerFidelityGP
from mfbo_torch.models.multi_fidelity.residual import averaged
from mfbo_torch.models.multi_fidelity.rungs import Root, RootView, Rung, RungView, between
from mfbo_torch.ops.evidence import log_evidence
from mfbo_torch.ops.kernels import describe

NEGLIGIBLE = 1e-10
"""Less variance of the fidelity below than this, in the unit of the one above, is none."""


class CoKrigingGP(FidelityModel):
    r"""A chain of fidelities whose links are integrated out and whose residuals are averaged.

    .. math:: f^{(m)} = c_m + \rho_m f^{(m-1)} + \delta_m

    as in :class:`~mfbo_torch.models.PerFidelityGP` [Kennedy2000multifidelity]_, of which it takes the lowest
    fidelity, and every one that follows none. Where there are few values, :math:`c_m` and :math:`\rho_m` are nearly
    free, and so is what the residual is like; estimates of them are too sure. Here the coefficients have a normal
    prior and are integrated out [LeGratiet2014recursive]_ (Sec. 3), and the hyper-parameters of :math:`\delta_m` are
    averaged over a grid, weighted by prior and evidence (:func:`~mfbo_torch.models.multi_fidelity.residual.averaged`):
    over the hypotheses ``h`` with weights ``w``,

    .. math::
        \mu^{(m)} = \sum_h w_h \mu_h, \qquad
        \sigma^{2(m)} = \sum_h w_h \bigl(\sigma_h^2 + (\mu_h - \mu^{(m)})^2\bigr)

    where :math:`\mu_h, \sigma_h^2` are those of universal kriging with the basis :math:`(1, \mu^{(m-1)}(x))` and the
    covariance :math:`k_h + E[\rho^2] C^{(m-1)}`, :math:`C^{(m-1)}` that of the fidelity below given its values: a value
    where the one below was not asked tells of both (:mod:`~mfbo_torch.models.multi_fidelity.rungs`). The unit
    of a fidelity is at least that of the one below, as values near an incumbent say little of the rest. Nothing is
    fitted: it is made of the observations and of the lowest fidelity's hyper-parameters.

    Args:
        chain: A fitted recursive model without a batch shape.

    Raises:
        UnsupportedError: One with a batch shape, or with pending points.
    """

    def __init__(self, chain: PerFidelityGP) -> None:
        super().__init__()
        if chain.batch_shape:
            raise UnsupportedError(f"batch_shape = {tuple(chain.batch_shape)}: must be empty for co-kriging")
        if chain._pending is not None:
            raise UnsupportedError("pending points of the chain: hallucinate the CoKrigingGP instead")
        self.chain = chain.eval()
        self.num_fidelities = chain.num_fidelities
        scales = chain.scale.clone()
        for m in range(1, self.num_fidelities):
            if chain.linked[m]:
                scales[m] = torch.maximum(scales[m], scales[m - 1])
        self.shift, self.scale = chain.shift, scales
        self._rungs: list[Root | Rung] = []
        with torch.no_grad():
            for m in range(self.num_fidelities):
                self._rungs.append(self._rung(m) if chain.linked[m] else self._root(m))

    def _data(self, m: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Designs of fidelity ``m`` as the kernels see them, their values and known noise variances in its unit."""
        own = self.chain.train_X[:, -1] == m
        Y = self._standardized(self.chain.train_Y[own].squeeze(-1), m)
        Yvar = self.chain.train_Yvar
        known = None if Yvar is None else Yvar[own].squeeze(-1) / self.scale[m].square()
        return self._inputs(self.chain.train_X[own][:, :-1]), Y, known

    def _root(self, m: int) -> Root:
        """Fidelity ``m``, that follows none, and the designs of those that follow it."""
        above: list[Tensor] = []
        for k in range(m + 1, self.num_fidelities):
            if not self.chain.linked[k]:
                break
            above.append(self._data(k)[0])
        return Root(self.chain.singles[m], torch.cat(above) if above else self.chain.train_X[:0, :-1])

    def _rung(self, m: int) -> Rung:
        """Fidelity ``m`` as it follows the one below: what is unknown of that is left out at first."""
        below, (U, Y, known) = self._rungs[m - 1], self._data(m)
        root = next(k for k in reversed(range(m)) if not self.chain.linked[k])
        kernel, usual = self.chain.levels[root].covar_module, self.chain.noise[root] / self.scale[root].square()
        there = below.seen_above
        mean, unknown = there.mean[: len(U)], there.covariance()[: len(U), : len(U)]
        residual = averaged(kernel, U, Y, mean, usual, known)
        slope, squared = residual.rho, residual.squared
        if squared * unknown.diagonal().max() > NEGLIGIBLE:
            residual = averaged(kernel, U, Y, mean, usual, known, squared * unknown)
        return Rung(below, residual, slope, squared, below.designs[len(U) :])

    @property
    def dim(self) -> int:
        return self.chain.dim

    @property
    def train_inputs(self) -> tuple[Tensor]:
        return self.chain.train_inputs

    @property
    def train_targets(self) -> Tensor:
        return self.chain.train_targets

    @property
    def noise(self) -> Tensor:
        found = [
            rung.residual.noise * self.scale[m].square() if isinstance(rung, Rung) else self.chain.noise[m]
            for m, rung in enumerate(self._rungs)
        ]
        return torch.stack(found)

    @property
    def slopes(self) -> Tensor:
        r"""``M`` weights :math:`\prod_{j > m} E[\rho_j]` of each fidelity in the target, the last one 1."""
        found = [self.scale.new_ones(())]
        for m in reversed(range(1, self.num_fidelities)):
            found.append(found[-1] * self._slope(m))
        return torch.stack(found[::-1])

    def slopes_at(self, x: Tensor) -> Tensor:
        r"""``M`` weights of each fidelity in the target at a ``1 x d`` design, the last one 1.

        :math:`\mathrm{Cov}(f^{(M)}(x), f^{(m)}(x)) / \sigma^{2(m)}(x)`: what is learned of the target there by a query
        of a fidelity; :attr:`slopes` where the designs are nested, less where the target was asked nearby and the
        fidelity was not. 0 where nothing is left to learn.
        """
        with torch.no_grad():
            _, joint = self._joint(at_every_fidelity(x, self.num_fidelities).squeeze(0))
        own = joint.diagonal()
        return torch.where(own > 0, joint[-1] / own.clamp_min(torch.finfo(own.dtype).tiny), 0.0)

    def _slope(self, m: int) -> Tensor:
        """``E[ρ_m]`` in the targets' units, 0 where fidelity ``m`` follows none."""
        rung = self._rungs[m]
        if not isinstance(rung, Rung):
            return self.scale.new_zeros(())
        return rung.residual.rho * self.scale[m] / self.scale[m - 1]

    @property
    def explained(self) -> Tensor:
        """``M`` shares of the target's prior variance that come from each fidelity and those below, the last one 1."""
        variance = [self._prior_variance(0)]
        for m in range(1, self.num_fidelities):
            rung = self._rungs[m]
            unit = self.scale[m].square()
            own = rung.residual.outputscale * unit if isinstance(rung, Rung) else self._prior_variance(m)
            variance.append(own + self._slope(m).square() * variance[-1])
        return self.slopes.square() * torch.stack(variance) / variance[-1]

    def _prior_variance(self, m: int) -> Tensor:
        """That of a fidelity that follows none."""
        outputscale = describe(self.chain.levels[m].covar_module, self.dim)[2].detach()
        return outputscale * self.chain.scale[m].square()

    def _inputs(self, X: Tensor) -> Tensor:
        """``... x d`` designs as the kernels see them."""
        return self.chain.transform_inputs(torch.cat([X, torch.zeros_like(X[..., :1])], -1))[..., :-1]

    @property
    def evidence(self) -> float:
        """The log marginal likelihood of the observations in the targets' units, given the lowest fidelity's
        hyper-parameters; of the fidelities above, averaged."""
        total = 0.0
        for m, rung in enumerate(self._rungs):
            U, Y, known = self._data(m)
            total -= len(Y) * self.scale[m].log().item()
            if isinstance(rung, Rung):
                total += rung.residual.evidence.item()
            elif len(Y):
                level = self.chain._levels[m]
                noise = level.likelihood.noise.expand_as(Y) if known is None else known
                parameters = describe(level.covar_module, self.dim)
                total += log_evidence(parameters[0], U, Y - level.constant, *parameters[1:], noise).item()
        return total

    def mean_variance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of every fidelity at once.

        Args:
            X: ``... x d`` designs without a fidelity. Differentiable.

        Returns:
            Two ``... x M`` tensors, in the units of the targets and their square.
        """
        points = X.reshape(-1, self.dim)
        if self._pending is None:
            mean, variance = self._chained(points)
        else:
            mean, covariance = self._joint(at_every_fidelity(points, self.num_fidelities))
            variance = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0.0)
        return mean.view(*X.shape[:-1], -1), variance.view(*X.shape[:-1], -1)

    def _chained(self, X: Tensor) -> tuple[Tensor, Tensor]:
        views = self._views(self._inputs(X))
        mean = torch.stack([view.mean for view in views], -1)
        variance = torch.stack([view.variance() for view in views], -1)
        return self.shift + self.scale * mean, self.scale.square() * variance

    def _views(self, U: Tensor) -> list[RootView | RungView]:
        """Every fidelity as seen from ``... x q x d`` points."""
        views: list[RootView | RungView] = []
        for rung in self._rungs:
            views.append(rung.at(U, views[-1]) if isinstance(rung, Rung) else rung.at(U))
        return views

    def _standardized(self, mean: Tensor, m: int) -> Tensor:
        return (mean - self.shift[m]) / self.scale[m]

    def _joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        if self._pending is None:
            return self._of_data(X)
        noise = self.noise[levels(self._pending)] + 1e-10 * self.scale[-1].square()
        return given(self._of_data, X, self._pending, noise)

    def _of_data(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The moments of the mixture given the data alone, ``b x q`` and ``b x q x q``."""
        fidelity = levels(X)
        views = self._views(self._inputs(X[..., :-1]))
        mean = torch.stack([view.mean for view in views], -1).gather(-1, fidelity.unsqueeze(-1)).squeeze(-1)
        rows, columns = fidelity.unsqueeze(-1), fidelity.unsqueeze(-2)
        total = torch.zeros_like(views[0].covariance())
        for (m, k), covariance in between(views).items():
            total = total + ((rows == m) & (columns == k)) * covariance
            if m != k:
                total = total + ((rows == k) & (columns == m)) * covariance.mT
        scale = self.scale[fidelity]
        return self.shift[fidelity] + scale * mean, scale.unsqueeze(-1) * scale.unsqueeze(-2) * total

    @property
    def _anchor(self) -> Tensor:
        return self.chain.train_X

    def _forget(self, moved: bool = False) -> None:
        """Nothing: all is made of the chain, once."""

    def _free(self) -> None:
        """Nothing: the joint posterior is conditioned instead."""

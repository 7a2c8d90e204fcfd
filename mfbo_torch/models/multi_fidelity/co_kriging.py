r"""Recursive co-kriging whose links and residuals are averaged over their posterior."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from mfbo_torch.models.gp.conditioned import given
from mfbo_torch.models.multi_fidelity.base import FidelityModel, at_every_fidelity, levels
from mfbo_torch.models.multi_fidelity.linked import BasePosterior, BaseProcess, LinkedPosterior, LinkedProcess, between
from mfbo_torch.models.multi_fidelity.linked_outputs import LinkedOutputs
from mfbo_torch.models.multi_fidelity.per_fidelity import PerFidelityGP
from mfbo_torch.models.multi_fidelity.residual import averaged
from mfbo_torch.ops.evidence import log_evidence
from mfbo_torch.ops.kernels import describe
from mfbo_torch.ops.posterior.fused import plain
from mfbo_torch.utils.errors import SettingError

NEGLIGIBLE_VARIANCE = 1e-10
"""Variance of the fidelity below up to which it counts as known, in the unit of the fidelity above squared."""


class CoKrigingGP(FidelityModel):
    r"""A chain of fidelities whose links are integrated out and whose residuals are averaged.

    .. math:: f^{(m)} = c_m + \rho_m f^{(m-1)} + \delta_m

    as in :class:`~mfbo_torch.models.PerFidelityGP` [Kennedy2000multifidelity]_, from which it takes the lowest
    fidelity, and every one that follows none. Where there are few values, point estimates of :math:`c_m`,
    :math:`\rho_m` and the residual's hyper-parameters are overconfident. Here the coefficients have a normal prior and
    are integrated out [LeGratiet2014recursive]_ (Sec. 3), and the hyper-parameters of :math:`\delta_m` averaged over a
    grid (:func:`~mfbo_torch.models.multi_fidelity.residual.averaged`) of hypotheses ``h`` with weights ``w``,

    .. math::
        \mu^{(m)} = \sum_h w_h \mu_h, \qquad
        \sigma^{2(m)} = \sum_h w_h \bigl(\sigma_h^2 + (\mu_h - \mu^{(m)})^2\bigr)

    where :math:`\mu_h, \sigma_h^2` are those of universal kriging with the basis :math:`(1, \mu^{(m-1)}(x))` and the
    covariance :math:`k_h + E[\rho^2] C^{(m-1)}`, :math:`C^{(m-1)}` that of the fidelity below given its values
    (:mod:`~mfbo_torch.models.multi_fidelity.linked`). The unit of a fidelity is at least that of the one below, since
    values near an incumbent vary less than the function. Nothing is fitted: the model follows from the observations and
    the lowest fidelity's hyper-parameters.

    The ``chain`` is a fitted recursive model; a batch shape or pending points raise an ``UnsupportedError``.
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
        self._processes: list[BaseProcess | LinkedProcess] = []
        with torch.no_grad():
            for m in range(self.num_fidelities):
                self._processes.append(self._linked(m) if chain.linked[m] else self._base(m))

    def __getattr__(self, name: str) -> Any:
        if name == "likelihood":  # what fit_gpytorch_mll is given
            raise AttributeError("CoKrigingGP has no likelihood: fit its chain, CoKrigingGP(PerFidelityGP(...).fit())")
        return super().__getattr__(name)

    def _data(self, m: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Designs of fidelity ``m`` as the kernels see them, their values and known noise variances in its unit."""
        own = self.chain.train_X[:, -1] == m
        Y = (self.chain.train_Y[own].squeeze(-1) - self.shift[m]) / self.scale[m]
        Yvar = self.chain.train_Yvar
        known = None if Yvar is None else Yvar[own].squeeze(-1) / self.scale[m].square()
        return self._inputs(self.chain.train_X[own][:, :-1]), Y, known

    def _base(self, m: int) -> BaseProcess:
        """Fidelity ``m``, which follows none, and the designs of those that follow it."""
        above: list[Tensor] = []
        for k in range(m + 1, self.num_fidelities):
            if not self.chain.linked[k]:
                break
            above.append(self._data(k)[0])
        return BaseProcess(self.chain.singles[m], torch.cat(above) if above else self.chain.train_X[:0, :-1])

    def _linked(self, m: int) -> LinkedProcess:
        """Fidelity ``m``, which follows the one below; its slope comes from a fit without the variance of that one."""
        below, (U, Y, known), links = self._processes[m - 1], self._data(m), self.num_fidelities - 1
        root = next(k for k in reversed(range(m)) if not self.chain.linked[k])
        kernel, usual = self.chain.levels[root].covar_module, self.chain.noise[root] / self.scale[root].square()
        there = below.at_upper
        mean, unknown = there.mean[: len(U)], there.covariance()[: len(U), : len(U)]
        residual = averaged(kernel, U, Y, mean, usual, links, known)
        slope, squared = residual.rho, residual.squared
        if squared * unknown.diagonal().max() > NEGLIGIBLE_VARIANCE:
            residual = averaged(kernel, U, Y, mean, usual, links, known, squared * unknown)
        return LinkedProcess(below, residual, slope, squared, below.designs[len(U) :])

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
        found = list(self.chain.noise)
        for m, process in enumerate(self._processes):
            if isinstance(process, LinkedProcess):
                found[m] = process.residual.noise * self.scale[m].square()
        return torch.stack(found)

    @property
    def slopes(self) -> Tensor:
        r"""``M`` weights :math:`\prod_{j > m} E[\rho_j]` of each fidelity in the target, the last one 1."""
        found = [self.scale.new_ones(())]
        for m in reversed(range(1, self.num_fidelities)):
            found.append(found[-1] * self._slope(m))
        return torch.stack(found[::-1])

    def slopes_at(self, x: Tensor) -> Tensor:
        r"""``M`` weights of each fidelity in the target at a ``1 x d`` design, the last one 1:
        :math:`\mathrm{Cov}(f^{(M)}(x), f^{(m)}(x)) / \sigma^{2(m)}(x)`, which is :attr:`slopes` where the designs are
        nested, less where the target was queried nearby and the fidelity was not; 0 for a fidelity without variance."""
        with torch.no_grad():
            _, joint = self._joint(at_every_fidelity(x, self.num_fidelities).squeeze(0))
        own = joint.diagonal()
        return torch.where(own > 0, joint[-1] / own.clamp_min(torch.finfo(own.dtype).tiny), 0.0)

    def _slope(self, m: int) -> Tensor:
        """``E[ρ_m]`` in the targets' units, 0 where fidelity ``m`` follows none."""
        process = self._processes[m]
        if not isinstance(process, LinkedProcess):
            return self.scale.new_zeros(())
        return process.residual.rho * self.scale[m] / self.scale[m - 1]

    @property
    def explained(self) -> Tensor:
        """``M`` shares of the target's prior variance that come from each fidelity and those below, the last one 1."""
        variance = [self._prior_variance(0)]
        for m in range(1, self.num_fidelities):
            process = self._processes[m]
            unit = self.scale[m].square()
            own = process.residual.outputscale * unit if isinstance(process, LinkedProcess) else self._prior_variance(m)
            variance.append(own + self._slope(m).square() * variance[-1])
        return self.slopes.square() * torch.stack(variance) / variance[-1]

    def _prior_variance(self, m: int) -> Tensor:
        """The prior variance of a fidelity that follows none, in the targets' units squared."""
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
        for m, process in enumerate(self._processes):
            U, Y, known = self._data(m)
            total -= len(Y) * self.scale[m].log().item()
            if isinstance(process, LinkedProcess):
                total += process.residual.evidence.item()
            elif len(Y):
                level = self.chain._levels[m]
                noise = level.likelihood.noise.expand_as(Y) if known is None else known
                parameters = describe(level.covar_module, self.dim)
                total += log_evidence(parameters[0], U, Y - level.constant, *parameters[1:], noise).value.item()
        return total

    def mean_variance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of every fidelity at ``... x d`` designs, two ``... x M`` tensors in the units of
        the targets and their square. Differentiable."""
        points = X.reshape(-1, self.dim)
        if self._pending is None:
            posteriors = self._posteriors(self._inputs(points))
            mean = self.shift + self.scale * torch.stack([one.mean for one in posteriors], -1)
            variance = self.scale.square() * torch.stack([one.variance() for one in posteriors], -1)
        else:
            mean, covariance = self._joint(at_every_fidelity(points, self.num_fidelities))
            variance = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0.0)
        shape = *X.shape[:-1], self.num_fidelities
        return mean.view(shape), variance.view(shape)

    def on_arrays(self) -> LinkedOutputs | None:
        """The target's mean and variance with their gradients on arrays; ``None`` where points are pending, inputs are
        transformed, or the model is not on the processor in double precision."""
        here = plain(self.chain.train_X) and "input_transform" not in self.chain._modules
        return self._outputs if here and self._pending is None else None

    @cached_property
    def _outputs(self) -> LinkedOutputs:
        return LinkedOutputs(self._processes, self.shift[-1].item(), self.scale[-1].item())

    def _posteriors(self, U: Tensor) -> list[BasePosterior | LinkedPosterior]:
        """The posterior of every fidelity at ``... x q x d`` points."""
        posteriors: list[BasePosterior | LinkedPosterior] = []
        for process in self._processes:
            posteriors.append(process.at(U, posteriors[-1]) if isinstance(process, LinkedProcess) else process.at(U))
        return posteriors

    def _joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        if self._pending is None:
            return self._of_data(X)
        noise = self.noise[levels(self._pending)] + 1e-10 * self.scale[-1].square()
        return given(self._of_data, X, self._pending, noise)

    def _of_data(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The moments of the mixture given the data alone, ``b x q`` and ``b x q x q``."""
        fidelity = levels(X)
        posteriors = self._posteriors(self._inputs(X[..., :-1]))
        means = torch.stack([posterior.mean for posterior in posteriors], -1)
        mean = means.gather(-1, fidelity.unsqueeze(-1)).squeeze(-1)
        rows, columns = fidelity.unsqueeze(-1), fidelity.unsqueeze(-2)
        total = torch.zeros_like(posteriors[0].covariance())
        for (m, k), covariance in between(posteriors).items():
            total = total + ((rows == m) & (columns == k)) * covariance
            if m != k:
                total = total + ((rows == k) & (columns == m)) * covariance.mT
        scale = self.scale[fidelity]
        return self.shift[fidelity] + scale * mean, scale.unsqueeze(-1) * scale.unsqueeze(-2) * total

    def every_fidelity(self, X: Tensor) -> tuple[Tensor, Tensor]:
        posteriors, count = self._posteriors(self._inputs(X)), self.num_fidelities
        mean = self.shift + self.scale * torch.stack([one.mean for one in posteriors], -1)
        joint = mean.new_zeros(len(X), count, len(X), count)
        for (m, k), covariance in between(posteriors).items():
            joint[:, m, :, k] = self.scale[m] * self.scale[k] * covariance
            if m != k:
                joint[:, k, :, m] = joint[:, m, :, k].mT
        return mean, joint

    @property
    def _anchor(self) -> Tensor:
        return self.chain.train_X

    def _forget(self, moved: bool = False) -> None:
        """Nothing: all is made of the chain, once. So another state or another place needs another model."""
        if moved:
            wanted = "made anew of its chain, once that has moved or has its state, as in CoKrigingGP(chain)"
            raise SettingError("model", type(self).__name__, wanted)

    def _free(self) -> None:
        """Nothing: the joint posterior is conditioned instead."""

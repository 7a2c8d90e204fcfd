r"""The fit of a marginal likelihood, and its loss in closed form, quicker than through GPyTorch's lazy tensors.

References:

.. [Rasmussen2006gpml]
    C. E. Rasmussen, C. K. I. Williams. Gaussian Processes for Machine Learning. MIT Press, 2006.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from botorch.exceptions import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.optim.closures import ForwardBackwardClosure
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import LogNormalPrior, NormalPrior
from gpytorch.priors.prior import Prior
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor

from mfbo_torch.ops.evidence import log_evidence
from mfbo_torch.ops.kernels import describe

NOISY = 1e-3
"""Noise variance, in the unit of the values squared, from which on a fit may have taken a quick function for noise."""
SHORTER = 4.0
"""How much shorter the lengthscales are from which the quick function is sought."""


def maximize(mll: ExactMarginalLogLikelihood, **kwargs: Any) -> None:
    """``fit_gpytorch_mll``, with a warning in place of an error where it fails."""
    try:
        fit_gpytorch_mll(mll, **kwargs)
    except (ModelFittingError, NanError, NotPSDError):
        message = "The marginal likelihood could not be maximised; the hyper-parameters stay as they were."
        warnings.warn(message, stacklevel=3)


def maximize_twice(mll: ExactMarginalLogLikelihood, closure: ForwardBackwardClosure | None, **kwargs: Any) -> None:
    """:func:`maximize`, and where it ends at noise of :data:`NOISY` or more, once more from lengthscales that are
    :data:`SHORTER`; the end of larger density is kept.

    Values may be a slow function and noise, or a quick function: the likelihood has a maximum for each
    [Rasmussen2006gpml]_ (section 5.4). The densities are those of the logarithms of lengthscales and noise: by its own
    density a noise of 1e-8 would always win. Without a ``closure`` of :func:`closed_form` it is fitted once.
    """
    if closure is None:
        maximize(mll, **kwargs)
        return
    begin = _kept(closure)
    maximize(mll, closure=closure, **kwargs)
    likelihood, found = mll.likelihood, _kept(closure)
    failed = all(torch.equal(found[name], begin[name]) for name in begin)
    if failed or not isinstance(likelihood, GaussianLikelihood) or likelihood.noise.item() < NOISY:
        return
    density = _log_density(mll, closure)
    _restore(closure, begin)
    kernel = getattr(mll.model.covar_module, "base_kernel", mll.model.covar_module)
    bound = kernel.raw_lengthscale_constraint
    shorter = (bound.transform(kernel.raw_lengthscale.detach()) / SHORTER).clamp_min(bound.lower_bound)
    kernel.initialize(raw_lengthscale=bound.inverse_transform(shorter))
    maximize(mll, closure=closure, **kwargs)
    if not _log_density(mll, closure) > density:
        _restore(closure, found)


def _kept(closure: ForwardBackwardClosure) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in closure.parameters.items()}


def _restore(closure: ForwardBackwardClosure, values: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in closure.parameters.items():
            parameter.copy_(values[name])


def _log_density(mll: ExactMarginalLogLikelihood, closure: ForwardBackwardClosure) -> float:
    """That of the data and of the hyper-parameters, by their logarithms where these are positive."""
    with torch.no_grad():
        density = -closure.forward() * mll.model.train_targets.numel()
        for _, module, prior, value, _ in mll.model.named_priors():
            density = density + (value(module).log().sum() if type(prior) is LogNormalPrior else 0.0)
    return density.item()


def closed_form(
    mll: ExactMarginalLogLikelihood,
    X: Tensor,
    kernel: Kernel,
    residuals: Callable[[], Tensor],
    noise: Callable[[], Tensor],
) -> ForwardBackwardClosure:
    """The closure of ``fit_gpytorch_mll``: minus the log marginal likelihood and the log priors of ``mll``, over ``n``,
    at ``n x d`` points. The kernel is RBF or Matérn, scaled or not, or an ``UnsupportedError`` is raised; ``residuals``
    gives the ``n`` observations minus their means, ``noise`` the ``n`` noise variances."""
    describe(kernel, X.shape[-1])
    priors = [(prior, module, value) for _, module, prior, value, _ in mll.model.named_priors()]

    def loss() -> Tensor:
        kind, lengthscale, outputscale = describe(kernel, X.shape[-1])
        total = -log_evidence(kind, X, residuals(), lengthscale, outputscale, noise())
        for prior, module, value in priors:
            total = total - log_prior(prior, value(module)).sum()
        return total / len(X)

    return ForwardBackwardClosure(loss, {name: p for name, p in mll.named_parameters() if p.requires_grad})


def log_prior(prior: Prior, value: Tensor) -> Tensor:
    """The log density of a prior; in few operations where its formula is known."""
    if type(prior) is LogNormalPrior:
        log, base = value.log(), prior.base_dist
        return _log_normal(log, base.loc, base.scale) - log
    if type(prior) is NormalPrior:
        return _log_normal(value, prior.loc, prior.scale)
    return prior.log_prob(value)


def _log_normal(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    return -0.5 * ((x - mean) / deviation).square() - deviation.log() - 0.5 * math.log(2 * math.pi)

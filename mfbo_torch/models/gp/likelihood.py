"""The fit of a marginal likelihood, and its loss in closed form, quicker than through GPyTorch's lazy tensors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from botorch.exceptions import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.optim.closures import ForwardBackwardClosure
from gpytorch.kernels import Kernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import LogNormalPrior, NormalPrior
from gpytorch.priors.prior import Prior
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor

from mfbo_torch.ops.evidence import log_evidence
from mfbo_torch.ops.kernels import describe


def maximize(mll: ExactMarginalLogLikelihood, **kwargs: Any) -> None:
    """``fit_gpytorch_mll``, with a warning in place of an error where it fails."""
    try:
        fit_gpytorch_mll(mll, **kwargs)
    except (ModelFittingError, NanError, NotPSDError):
        message = "The marginal likelihood could not be maximised; the hyper-parameters stay as they were."
        warnings.warn(message, stacklevel=3)


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

"""The fit of a marginal likelihood."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from botorch.exceptions import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor

from mfbo_torch.models.gp.closed_form import ClosedForm

NOISY = 1e-3
"""Noise variance, in the unit of the values squared, from which on a fit may have taken a quick function for noise."""
SHORTER = 4.0
"""How many times shorter the lengthscales are from which the quick function is sought."""


def maximize(mll: ExactMarginalLogLikelihood, **kwargs: Any) -> None:
    """``fit_gpytorch_mll``, with a warning in place of an error where it fails."""
    try:
        fit_gpytorch_mll(mll, **kwargs)
    except (ModelFittingError, NanError, NotPSDError):
        message = "The marginal likelihood could not be maximised; the hyper-parameters stay as they were."
        warnings.warn(message, stacklevel=3)


def maximize_twice(mll: ExactMarginalLogLikelihood, closure: ClosedForm | None, **kwargs: Any) -> None:
    """:func:`maximize`, and where it ends at noise of :data:`NOISY` or more, once more from lengthscales a quarter as
    long (:data:`SHORTER`); the end of larger density is kept.

    Values may be a slow function and noise, or a quick function: the likelihood has a maximum for each
    [Rasmussen2006gpml]_ (section 5.4). The densities are those of the logarithms of lengthscales and noise: by its own
    density a noise of 1e-8 would always win. Without a ``closure`` it is fitted once, by GPyTorch's loss.
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
    density = closure.log_density()
    _restore(closure, begin)
    kernel = getattr(mll.model.covar_module, "base_kernel", mll.model.covar_module)
    bound = kernel.raw_lengthscale_constraint
    shorter = (bound.transform(kernel.raw_lengthscale.detach()) / SHORTER).clamp_min(bound.lower_bound)
    kernel.initialize(raw_lengthscale=bound.inverse_transform(shorter))
    maximize(mll, closure=closure, **kwargs)
    if not closure.log_density() > density:
        _restore(closure, found)


def _kept(closure: ClosedForm) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in closure.parameters.items()}


def _restore(closure: ClosedForm, values: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in closure.parameters.items():
            parameter.copy_(values[name])

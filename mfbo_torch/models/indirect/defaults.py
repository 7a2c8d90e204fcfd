"""Default kernel and noise of a process that is observed by averages, in the units of the data."""

from __future__ import annotations

import math

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.priors import LogNormalPrior
from torch import Tensor


def default_kernel(extent: Tensor, scale: float) -> Kernel:
    """RBF with a lengthscale prior that scales with extent and dimension, and an output scale near the averages'."""
    extent = torch.where(extent > 0, extent, torch.ones_like(extent))
    d, variance = len(extent), scale**2
    width = torch.full_like(extent, math.sqrt(3))  # a number would be expanded, and a fit that fails not be undone
    prior = LogNormalPrior(math.sqrt(2) + 0.5 * math.log(d) + extent.log(), width)
    above = GreaterThan(1e-3 * extent.min().item(), transform=torch.exp, inv_transform=torch.log)
    base = RBFKernel(ard_num_dims=d, lengthscale_prior=prior, lengthscale_constraint=above)
    base.lengthscale = 0.3 * math.sqrt(d) * extent
    positive = GreaterThan(1e-6 * variance, transform=torch.exp, inv_transform=torch.log)
    outer = LogNormalPrior(math.log(variance), 1.5)
    kernel = ScaleKernel(base, outputscale_prior=outer, outputscale_constraint=positive)
    kernel.outputscale = variance
    return kernel


def default_likelihood(scale: float) -> GaussianLikelihood:
    """A likelihood whose prior noise variance is small against that of the averages."""
    variance = scale**2
    above = GreaterThan(1e-8 * variance, transform=torch.exp, inv_transform=torch.log, initial_value=1e-2 * variance)
    return GaussianLikelihood(noise_prior=LogNormalPrior(math.log(variance) - 6.0, 3.0), noise_constraint=above)

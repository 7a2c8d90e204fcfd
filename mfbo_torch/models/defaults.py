"""Default kernel and noise of a process that is known by averages, in the units of the data."""

from __future__ import annotations

import math

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.priors import LogNormalPrior
from torch import Tensor


def shift_scale(Z: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the averages; of fewer than two different ones the size, or one."""
    if len(Z) == 0:
        return Z.new_zeros(()), Z.new_ones(())
    shift, size = Z.mean(), Z.abs().max()
    scale = Z.std() if len(Z) > 1 else Z.new_zeros(())
    if scale <= 1e-12 * size:
        scale = torch.where(size > 0, size, torch.ones_like(size))
    return shift, scale


def default_kernel(extent: Tensor, scale: Tensor) -> Kernel:
    """RBF with a lengthscale prior that scales with reach and dimension, and an output scale near the averages'."""
    extent = torch.where(extent > 0, extent, torch.ones_like(extent))
    d, variance = len(extent), scale.item() ** 2
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


def default_likelihood(scale: Tensor) -> GaussianLikelihood:
    """A noise variance that is small against the averages' until the data say otherwise."""
    variance = scale.item() ** 2
    above = GreaterThan(1e-8 * variance, transform=torch.exp, inv_transform=torch.log, initial_value=1e-2 * variance)
    return GaussianLikelihood(noise_prior=LogNormalPrior(math.log(variance) - 6.0, 3.0), noise_constraint=above)

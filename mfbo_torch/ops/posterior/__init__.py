"""Posterior mean and variance at many points."""

from mfbo_torch.ops.posterior.reference import mean_covariance, mean_variance

__all__ = ["mean_covariance", "mean_variance"]

"""Forecasts of the ends of real curves beside BoTorch's model of curves."""

import math

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.latent_kronecker_gp import LatentKroneckerGP
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch.distributions import Normal

from benchmarks.quality.trainings.table import designs, table
from benchmarks.quality.trainings.tasks import TASKS
from mfbo_torch.models.learning_curves import LearningCurveGP

EPOCHS = torch.tensor([1, 2, 3, 5, 7, 9, 13, 18, 27])
TIMES = EPOCHS.double().log() / math.log(27)
BEGUN, UNSEEN = 54, 40
DEVELOPED_ON = (
    *("perceptron-digits", "deep-diabetes", "convolutional-digits"),
    *("logistic-digits", "trees-friedman", "factors-dense"),
)


def halved(task, seed):
    """Designs, minus the logarithms of their losses at some epochs, and how many of these successive halving sees."""
    U, losses = torch.tensor(designs(len(TASKS[task].ranges))), torch.tensor(table(task))
    kept = torch.randperm(len(U), generator=torch.Generator().manual_seed(seed))[: BEGUN + UNSEEN]
    Z, length = -losses[kept][:, EPOCHS - 1], torch.ones(BEGUN, dtype=torch.long)
    rivals = torch.arange(BEGUN)
    for before, after in ((1, 3), (3, 6), (6, 9)):
        best = Z[rivals, before - 1].argsort(descending=True)[: max(len(rivals) // 3, 2)]
        length[rivals := rivals[best]] = after
    seen = torch.arange(len(EPOCHS)) < length[:, None]
    known = Z[:BEGUN][seen]
    low, high = known.quantile(0.1), known.quantile(0.9)
    Z = Z.clamp_min(2 * low - high)
    known = known.clamp_min(2 * low - high)
    return U[kept], (Z - known.mean()) / known.std(), seen


def forecast(U, Z, seen):
    """Mean and variance of the value at the end of every curve."""
    design, time = seen.nonzero().T
    model = LearningCurveGP(torch.cat([U[design], TIMES[time, None]], -1), Z[:BEGUN][seen].unsqueeze(-1)).fit()
    mean, variance = model.predict(torch.cat([U, torch.ones(len(U), 1).double()], -1))
    return mean, variance + model.parameters.noise


def latent_kronecker(U, Z, seen):
    """The same by BoTorch."""
    Y = Z[:BEGUN].masked_fill(~seen, math.nan)
    model = LatentKroneckerGP(U[:BEGUN], TIMES.unsqueeze(-1), Y, outcome_transform=None)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    with torch.no_grad():
        posterior = model.posterior(U, TIMES[-1:].unsqueeze(-1))
        return posterior.mean.reshape(-1), posterior.variance.reshape(-1) + model.likelihood.noise


@pytest.mark.slow
def test_held_out_ends_are_forecast_at_least_as_well_as_by_botorch():
    """The mean log density of the ends of paused curves, and of designs that never began, over six kinds of tasks."""
    densities = {forecast: [], latent_kronecker: []}
    inside = []
    for task in DEVELOPED_ON:
        for seed in range(2):
            U, Z, seen = halved(task, seed)
            open_ = torch.cat([~seen[:, -1], torch.ones(UNSEEN, dtype=torch.bool)])
            for model, found in densities.items():
                mean, variance = (part[open_] for part in model(U, Z, seen))
                density = Normal(mean, variance.sqrt())
                found.append(density.log_prob(Z[open_, -1]).mean().item())
                if model is forecast:
                    inside.append(((Z[open_, -1] - mean).abs() < 1.2816 * variance.sqrt()).double().mean().item())
    mine, theirs = (sum(found) / len(found) for found in densities.values())
    assert mine > theirs
    assert sum(inside) / len(inside) > 0.75

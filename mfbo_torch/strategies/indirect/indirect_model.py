"""The model of a function of which averages are observed."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import torch
from botorch.exceptions import BotorchWarning
from torch import Tensor

from mfbo_torch.history import Recommendation, Record, noise_variances, values
from mfbo_torch.models.indirect.conditionals import Conditional, EmpiricalConditional
from mfbo_torch.models.indirect.conditionals.empirical import LEAST_SAMPLES
from mfbo_torch.models.indirect.deconditional import DeconditionalGP
from mfbo_torch.models.indirect.unit_conditionals import conditional_of, unit_inputs
from mfbo_torch.space.indirect import IndirectSpace
from mfbo_torch.strategies.common.design_table import unit_points
from mfbo_torch.strategies.common.fit_schedule import Growing, Surrogate, quiet, refit_size, seeded
from mfbo_torch.strategies.common.initial_design import sobol
from mfbo_torch.utils.standardize import shift_scale


class ScaledModel(NamedTuple):
    """A model in standardised units, and the way back: a value is ``shift + scale * standardised``."""

    model: DeconditionalGP
    shift: float
    scale: float


class IndirectModel:
    """The model of ``f`` behind averages of it; queries are points of the unit cube, the fidelity last where there
    are several.

    Args:
        surrogate: When hyper-parameters are fitted, and where models live.
    """

    def __init__(self, surrogate: Surrogate) -> None:
        self.surrogate = surrogate
        self._conditional: tuple[IndirectSpace, Conditional] | None = None
        self._growing: Growing[ScaledModel] = Growing(surrogate.refit_every)

    def __call__(self, space: IndirectSpace, records: list[Record]) -> ScaledModel:
        """The model of all observations, its hyper-parameters fitted to the first part of them."""
        A, Y, noise = self.queries(space, records), values(records).reshape(-1, 1), _noise(space, records)
        size = refit_size(len(records), self.surrogate.refit_every)
        to = self.surrogate.to

        def fit() -> ScaledModel:
            least = 0.0 if noise is None or not size else noise[:size].max().sqrt().item()
            shift, scale = shift_scale(Y[:size], least, few=2)
            variance = None if noise is None else to(noise[:size] / scale**2)
            with seeded():
                model = DeconditionalGP(A[:size], to((Y[:size] - shift) / scale), self.conditional(space), variance)
                model.fit(optimizer_kwargs={"options": {"maxiter": 50}})
            return ScaledModel(model.eval(), shift, scale)

        def add(former: ScaledModel, some: slice) -> ScaledModel:
            model, shift, scale = former
            variance = None if noise is None else to(noise[some] / scale**2)
            with quiet():
                model = model.condition_on_observations(A[some], to((Y[some] - shift) / scale), variance)
            return ScaledModel(model, shift, scale)

        return self._growing(space, records, size, fit, add)

    def queries(self, space: IndirectSpace, records: list[Record]) -> Tensor:
        """``n x p`` queries of some records as the model sees them."""
        return self.surrogate.to(unit_points(space, records)[:, : space.width])

    def inputs(self, space: IndirectSpace) -> Tensor:
        """``n x d`` inputs as the model sees them."""
        return self.surrogate.to(unit_inputs(space))

    def conditional(self, space: IndirectSpace) -> Conditional:
        """What queries average over; learned once, with a warning if some queries are far from all samples."""
        if self._conditional is None or self._conditional[0] is not space:
            with seeded():
                self._conditional = space, conditional_of(space)
            if isinstance(self._conditional[1], EmpiricalConditional):
                _warn_far(space, self._conditional[1])
        return self._conditional[1]

    def best(self, space: IndirectSpace, records: list[Record]) -> Recommendation | None:
        r"""The input with the largest posterior mean :math:`m_t` [Zhang2024indirect]_ (Algorithm 1); ``None`` while
        nothing has an observation."""
        if not records:
            return None
        model, shift, scale = self(space, records)
        with torch.no_grad(), quiet():
            mean, variance = model.latent_mean_variance(self.inputs(space))
        best = int(mean.argmax())
        x = tuple(space.inputs[best].tolist())
        return Recommendation(x, shift + scale * mean[best].item(), scale * math.sqrt(variance[best].item()))


def _noise(space: IndirectSpace, records: list[Record]) -> Tensor | None:
    """``n x 1`` noise variances in the units of the values, where they are known: with each value, or of the space."""
    stds = space.noise_std
    if (known := noise_variances(records)) is not None or stds is None:
        return known
    return torch.tensor([[stds[r.query.fidelity] ** 2] for r in records], dtype=torch.double).reshape(-1, 1)


def _warn_far(space: IndirectSpace, conditional: EmpiricalConditional) -> None:
    """Warn if the samples say nothing of some candidates, or of some points of the box."""
    points = space.unit_candidates if space.candidates else sobol(space.dim, 64, 0)
    levels = torch.arange(space.num_fidelities, dtype=torch.double).repeat_interleave(len(points)).unsqueeze(-1)
    U = torch.cat([points.repeat(space.num_fidelities, 1), levels], -1)
    sizes = conditional.effective_sample_size(U[:, : space.width].to(conditional.queries))
    if sizes.min() < LEAST_SAMPLES:
        worst = U[sizes.argmin()]
        query = [float(f"{value:.4g}") for value in space.from_unit(worst[: space.dim]).tolist()]
        where = f"{query} at fidelity {int(worst[-1])}"
        message = (
            f"The samples say little of {(sizes < LEAST_SAMPLES).double().mean():.0%} of the queries; the effective "
            f"sample size of {where} is {sizes.min().item():.2g}, must be at least {LEAST_SAMPLES:g}."
        )
        warnings.warn(message, BotorchWarning, stacklevel=3)

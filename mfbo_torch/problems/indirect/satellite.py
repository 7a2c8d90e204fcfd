r"""A satellite-like problem: sharper images cost more, the highest value of a field is wanted. Simulated."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mfbo_torch.problems.indirect.base import IndirectProblem, falling
from mfbo_torch.problems.indirect.bumps import Bumps
from mfbo_torch.space import IndirectSpace, Parameter, Window
from mfbo_torch.utils.validation import number, whole


class Satellite(IndirectProblem):
    """The highest value of a field over a square of 100 km, from averages over square footprints.

    A query is a footprint's centre and the resolution of the image; the average over the footprint has a closed form,
    as the simulated field is a sum of random bumps. The footprints are known.

    Args:
        footprints: Side of a footprint of each resolution in km, falling; a query costs ``footprints[0] / side``.
        noise: Standard deviation of the noise, which the model knows.
        seed: Of the field.
    """

    def __init__(
        self, footprints: Sequence[float] = (32.0, 16.0, 8.0, 4.0), noise: float = 0.02, seed: int = 0
    ) -> None:
        self.sides = falling("footprints", footprints)
        self.noise = (number("noise", noise, 0),) * len(self.sides)
        self.field = Bumps.random(40, 2, (0.04, 0.15), whole("seed", seed, 0))
        axis = torch.linspace(0.0, 100.0, 51, dtype=torch.double)
        self.space = IndirectSpace(
            (Parameter("east", 0.0, 100.0), Parameter("north", 0.0, 100.0)),
            tuple(self.sides[0] / side for side in self.sides),
            inputs=torch.cartesian_prod(axis, axis),
            feedback=Window([side / 2 for side in self.sides], shape="uniform"),
            noise_std=self.noise,
        )
        self.latent_optimum = self.field.largest(0.0, 1.0)

    def latent(self, X: Tensor) -> Tensor:
        return self.field(X / 100)

    def averages(self, A: Tensor, fidelity: int) -> Tensor:
        return self.field.box(A / 100, self.sides[fidelity] / 200)

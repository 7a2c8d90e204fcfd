r"""A malaria-like problem: incidence is known by administrative unit, the worst pixel is wanted. Simulated."""

from __future__ import annotations

import torch
from torch import Tensor

from mfbo_torch.problems.indirect.base import IndirectProblem
from mfbo_torch.problems.indirect.bumps import Bumps
from mfbo_torch.space import IndirectSpace, Parameter, Policy
from mfbo_torch.utils.validation import number, whole


class DiseaseMap(IndirectProblem):
    """The pixel with the highest incidence, from surveys of administrative units.

    A square country of ``side x side`` pixels is cut into the Voronoi cells of random capitals. A survey of a unit
    gives the mean incidence over its people: the average of its pixels, weighted by population, as in
    [Law2018malaria]_. Incidence and population are simulated, a sum of random bumps and its exponential. A unit is
    queried by its centre of population.

    Args:
        side: Pixels a side.
        num_units: Number of units.
        noise: Standard deviation of a survey's noise, which the model does not know; the incidence is between 0 and
            about 1.
        seed: Of the country.
    """

    def __init__(self, side: int = 24, num_units: int = 40, noise: float = 0.02, seed: int = 0) -> None:
        side, units, seed = whole("side", side), whole("num_units", num_units), whole("seed", seed, 0)
        axis = (torch.arange(side, dtype=torch.double) + 0.5) / side
        self.pixels = torch.cartesian_prod(axis, axis)
        self.incidence = Bumps.random(25, 2, (0.04, 0.2), seed)(self.pixels)
        self.incidence = self.incidence / self.incidence.max()
        self.population = (2 * Bumps.random(25, 2, (0.03, 0.1), seed + 1)(self.pixels)).exp()
        generator = torch.Generator().manual_seed(seed)
        capitals = torch.rand(units, 2, generator=generator, dtype=torch.double)
        inside = torch.nn.functional.one_hot(torch.cdist(self.pixels, capitals).argmin(-1), units).double().mT
        people = inside[inside.sum(-1) > 0] * self.population
        self.shares = people / people.sum(-1, keepdim=True)
        self.noise = (number("noise", noise, 0),)
        self.space = IndirectSpace(
            (Parameter("east", 0.0, 1.0), Parameter("north", 0.0, 1.0)),
            (1.0,),
            inputs=self.pixels,
            feedback=Policy(self.weights),
            choices=self.shares @ self.pixels,
        )
        self.latent_optimum = self.incidence.max().item()

    def weights(self, A: Tensor) -> Tensor:
        """Shares of the pixels in the population of the unit whose centre is nearest, ``... x m x n``."""
        centres = self.shares @ self.pixels
        return self.shares[torch.cdist(A.reshape(-1, 2), centres).argmin(-1)].reshape(*A.shape[:-1], -1)

    def latent(self, X: Tensor) -> Tensor:
        """Incidence of the pixels nearest to ``n x 2`` points."""
        return self.incidence[torch.cdist(X, self.pixels).argmin(-1)]

    def averages(self, A: Tensor, fidelity: int) -> Tensor:
        return self.weights(A) @ self.incidence

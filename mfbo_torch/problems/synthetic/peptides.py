r"""A simulated search for the peptide that a molecule binds best."""

from __future__ import annotations

from functools import cache

import torch

from mfbo_torch.problems.synthetic.finite import FiniteProblem
from mfbo_torch.space import Parameter, Space
from mfbo_torch.utils.validation import whole

RESIDUES, PROPERTIES, ACIDS, COUNT = 9, 5, 20, 1000
ANCHORS = (1, 8)
"""Indices of the residues that bind: the second and the last."""
OTHERS = 0.3
"""Standard deviation of the weights of the other residues; that of an anchor's weights is 1."""
UNEXPLAINED = 0.2
"""Standard deviation of the part of the affinity that is not linear in the properties."""


class Peptides(FiniteProblem):
    r"""Binding affinity of 1,000 peptides to a molecule: simulated, ``d = 45``.

    The application of [Desautels2012gpbucb]_ (Sec. 5) has a database of measurements that is not at hand; this is a
    stand-in of its shape. A peptide is nine of twenty amino acids, drawn at random; an amino acid has five properties,
    uniform on ``[0, 1]``. The affinity is nearly linear in these 45 features ``u``,

    .. math:: f(u) = \sum_{p=1}^{9} \sum_{j=1}^{5} w_{pj} u_{pj} + e, \qquad w_{pj} \sim N(0, s_p^2), e \sim N(0, 0.2^2)

    with ``s`` 1 at the second and the last residue and 0.3 at the others.

    Args:
        seed: Seed of weights and remainders: the molecule. The peptides are the same for all.
        noise_std: Standard deviation of the noise.
    """

    def __init__(self, seed: int = 0, noise_std: float = 0.1) -> None:
        space = _peptides()
        generator = torch.Generator().manual_seed(whole("seed", seed, 0))
        spread = torch.full((RESIDUES, 1), OTHERS, dtype=torch.double)
        spread[list(ANCHORS)] = 1.0
        weights = spread * torch.randn(RESIDUES, PROPERTIES, generator=generator, dtype=torch.double)
        remainder = UNEXPLAINED * torch.randn(COUNT, generator=generator, dtype=torch.double)
        features = torch.tensor(space.candidates, dtype=torch.double)
        super().__init__(space, features @ weights.flatten() + remainder, noise_std)


@cache
def _peptides() -> Space:
    """The features of every peptide."""
    generator = torch.Generator().manual_seed(0)
    properties = torch.rand(ACIDS, PROPERTIES, generator=generator, dtype=torch.double)
    peptides = torch.randint(ACIDS, (COUNT, RESIDUES), generator=generator)
    names = [f"residue{p}_property{j}" for p in range(1, RESIDUES + 1) for j in range(1, PROPERTIES + 1)]
    candidates = tuple(map(tuple, properties[peptides].flatten(1).tolist()))
    return Space(tuple(Parameter(name, 0.0, 1.0) for name in names), (1.0,), candidates=candidates)

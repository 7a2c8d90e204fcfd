r"""A simulated choice of stimulating electrodes."""

from __future__ import annotations

import itertools
from functools import cache

import torch

from mfbo_torch.problems.synthetic.finite import FiniteProblem
from mfbo_torch.space import Parameter, Space
from mfbo_torch.utils.validation import whole

ROWS, COLUMNS, MODES = 9, 3, 10


class Electrodes(FiniteProblem):
    r"""Muscle response to a pair of electrodes on a spinal array: simulated, ``d = 4``.

    The application of [Desautels2012gpbucb]_ (Sec. 5) has recordings that are not public; this is a stand-in with what
    made it hard, a response with many separate modes. A design is the place of the cathode and of the anode on an array
    of 9 rows and 3 columns, 702 pairs in all. The response is

    .. math:: f(x) = \sum_{k=1}^{10} h_k \exp(-\tfrac12 \sum_j ((x_j - c_{kj}) / w_j)^2)

    with centres ``c`` drawn from the pairs, heights ``h`` uniform on ``[0.3, 1]``, widths of one row and 0.7 of a
    column.

    Args:
        seed: Seed of centres and heights: the animal and the day.
        noise_std: Standard deviation of the noise.
    """

    def __init__(self, seed: int = 0, noise_std: float = 0.05) -> None:
        space = _array()
        generator = torch.Generator().manual_seed(whole("seed", seed, 0))
        pairs = torch.tensor(space.candidates, dtype=torch.double)
        centres = pairs[torch.randperm(len(pairs), generator=generator)[:MODES]]
        heights = 0.3 + 0.7 * torch.rand(MODES, generator=generator, dtype=torch.double)
        widths = torch.tensor([1.0, 0.7, 1.0, 0.7], dtype=torch.double)
        distances = ((pairs.unsqueeze(1) - centres) / widths).square().sum(-1)
        super().__init__(space, torch.exp(-0.5 * distances) @ heights, noise_std)


@cache
def _array() -> Space:
    """Every pair of different electrodes."""
    places = itertools.product(range(ROWS), range(COLUMNS))
    pairs = tuple((*cathode, *anode) for cathode, anode in itertools.permutations(places, 2))
    names = {"cathode_row": ROWS, "cathode_column": COLUMNS, "anode_row": ROWS, "anode_column": COLUMNS}
    parameters = tuple(Parameter(name, 0, size - 1, integer=True) for name, size in names.items())
    return Space(parameters, (1.0,), candidates=pairs)

r"""One dimension, where the maximum of the averages is not that of the function."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mfbo_torch.problems.indirect.base import IndirectProblem, falling
from mfbo_torch.problems.indirect.bumps import Bumps
from mfbo_torch.space import IndirectSpace, Parameter, Window
from mfbo_torch.utils.validation import number


class ShiftedPeak(IndirectProblem):
    r"""A high narrow peak at 1.5 beside a lower broad one at -1, on [-3, 3].

    Queries are averages over :math:`N(a, \tau^2)`. At :math:`\tau = 0.3` the narrow peak of ``f`` has nearly gone from
    ``g``, whose maximum is the broad one's, as in [Zhang2024indirect]_ (Figure 3). The windows are known.

    Args:
        widths: :math:`\tau` of each resolution, falling; a query costs ``widths[0] / width``.
        noise: Standard deviation of the noise, which the model does not know.
    """

    def __init__(self, widths: Sequence[float] = (0.3,), noise: float = 0.02) -> None:
        self.widths = falling("widths", widths)
        self.noise = (number("noise", noise, 0),) * len(self.widths)
        bumps = torch.tensor([[1.0, 1.5, 0.15], [0.8, -1.0, 0.8]])
        self.bumps = Bumps(bumps[:, 0], bumps[:, 1:2], bumps[:, 2])
        self.space = IndirectSpace(
            (Parameter("x", -3.0, 3.0),),
            tuple(self.widths[0] / width for width in self.widths),
            inputs=torch.linspace(-3.0, 3.0, 601, dtype=torch.double).unsqueeze(-1),
            feedback=Window(self.widths),
        )
        self.latent_optimum = self.bumps.largest(-3.0, 3.0, 2001)

    def latent(self, X: Tensor) -> Tensor:
        return self.bumps(X)

    def averages(self, A: Tensor, fidelity: int) -> Tensor:
        return self.bumps.gaussian(A, self.widths[fidelity])

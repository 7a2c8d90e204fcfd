"""Problems whose designs are a finite set."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.noise import drawn
from mfbo_torch.space import Space
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import number


class FiniteProblem(Problem):
    """One fidelity, and a value without noise for each candidate of the space, in their order."""

    def __init__(self, space: Space, values: Tensor, noise_std: float) -> None:
        self.space, self.values, self.noise_std = space, values, number("noise_std", noise_std, 0)
        self.optimum, self.worst = values.max().item(), values.min().item()
        self._rows = {x: i for i, x in enumerate(space.candidates)}

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        """The value of a candidate; a ``SettingError`` for anything else."""
        return self.value(self.checked(x, fidelity)[0])

    def observe(self, x: Sequence[float], fidelity: int, number: int) -> float:
        return self.reward(x, fidelity) + self.noise_std * drawn(self.trial, number)

    def value(self, x: Sequence[float]) -> float:
        """The value of a candidate without noise; a ``SettingError`` for anything else."""
        row = self._rows.get(tuple(x))
        if row is None:
            raise SettingError("x", list(x), "a candidate of the space")
        return self.values[row].item()

r"""The contract of a problem whose queries are averages of the function to maximise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from operator import gt

import torch
from torch import Tensor

from mfbo_torch.history import History, Recommendation, Record
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.noise import drawn
from mfbo_torch.space.indirect import IndirectSpace
from mfbo_torch.utils.validation import number, several


class IndirectProblem(Problem):
    r"""An objective ``f`` that is seen through :math:`z = E[f(X) \mid a] + \epsilon` [Zhang2024indirect]_ (Section 2).

    Subclasses set ``space``, an :class:`~mfbo_torch.space.indirect.IndirectSpace`, ``noise``, the standard deviation of
    the noise at each fidelity, and ``latent_optimum``, the largest ``f``, and implement :meth:`latent` and
    :meth:`averages`.
    """

    space: IndirectSpace
    noise: tuple[float, ...]
    latent_optimum: float

    @abstractmethod
    def latent(self, X: Tensor) -> Tensor:
        """``f`` at ``n x d`` inputs."""

    @abstractmethod
    def averages(self, A: Tensor, fidelity: int) -> Tensor:
        """``g``, without noise, at ``n x p`` queries."""

    def pseudo_rewards(self, history: History) -> Tensor:
        """The averages ``g(a_t)`` without noise, each at its own resolution."""
        means = [self.averages(torch.tensor([r.query.x], dtype=torch.double), r.query.fidelity) for r in history]
        return torch.cat(means).reshape(-1) if means else torch.zeros(0, dtype=torch.double)

    def regrets(
        self, history: History, recommendations: Sequence[Record | Recommendation | None]
    ) -> tuple[Tensor, Tensor]:
        r"""Simple and instant regret after each of the ``n`` records [Zhang2024indirect]_ (Definitions 1, 2):
        :math:`f^* - \max f(x_t)` over the inputs recommended so far, one after each record, and
        :math:`f^* - \max g(a_t)` over the queries with a value, at their own resolution and without noise; infinite
        before there is one."""
        f = self.advised(recommendations)
        known = torch.tensor([record.value is not None for record in history], dtype=torch.bool)
        g = torch.where(known, self.pseudo_rewards(history), -torch.inf)
        if not len(f):
            return f, g
        return self.latent_optimum - f, self.latent_optimum - g.cummax(0).values

    def advised(self, recommendations: Sequence[Record | Recommendation | None]) -> Tensor:
        """The largest ``f`` of the inputs recommended so far, after each of ``n`` recommendations; ``-inf`` before."""
        f = torch.full((len(recommendations),), -torch.inf, dtype=torch.double)
        for t, advice in enumerate(recommendations):
            if isinstance(advice, Recommendation):
                f[t] = self.latent(torch.tensor([advice.x], dtype=torch.double))
        return f.cummax(0).values if len(f) else f

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        """The average."""
        point, level = self.checked(x, fidelity)
        return self.averages(torch.tensor([point], dtype=torch.double), level).item()

    def observe(self, x: Sequence[float], fidelity: int, number: int) -> float:
        return self.reward(x, fidelity) + self.noise[fidelity] * drawn(self.trial, number)


def falling(setting: str, widths: Sequence[float]) -> tuple[float, ...]:
    """Positive widths, one a resolution, each below the one before; else a ``SettingError``."""
    check = partial(number, above=0)
    return several(setting, widths, check, "positive numbers, each below the one before", order=gt)

r"""A bandit whose arms are played by agents, of whom only the average reward is seen."""

from __future__ import annotations

import torch
from torch import Tensor

from mfbo_torch.problems.indirect.base import IndirectProblem
from mfbo_torch.space import IndirectSpace, Parameter, Policy
from mfbo_torch.utils.validation import number, whole


class IndirectBandit(IndirectProblem):
    r"""The best of ``K`` arms from agents' average rewards :math:`p(a)^\top f` [Zhang2024indirect]_ (Section 3.1).

    An agent with covariates ``a`` in [-1, 1]² plays the arms with the probabilities softmax(``B a``), ``B`` a random
    matrix; the rewards are normal numbers. The policy is learned from ``D1``, the arms that random agents were seen to
    play, by logistic regression. Simulated.

    Args:
        num_arms: ``K``.
        num_agents: Number of agents, each of which can be queried repeatedly.
        num_samples: Size of ``D1``.
        noise: Standard deviation of the noise, which the model does not know.
        known: Tell the model the true policy instead.
        seed: Of everything.
    """

    def __init__(
        self,
        num_arms: int = 10,
        num_agents: int = 50,
        num_samples: int = 1000,
        noise: float = 0.1,
        known: bool = False,
        seed: int = 0,
    ) -> None:
        from sklearn.linear_model import LogisticRegression

        arms, agents = whole("num_arms", num_arms, 2), whole("num_agents", num_agents)
        generator = torch.Generator().manual_seed(whole("seed", seed, 0))
        self.preferences = 4 * torch.randn(2, arms, generator=generator, dtype=torch.double)
        self.rewards = torch.randn(arms, generator=generator, dtype=torch.double)
        choices = 2 * torch.rand(agents, 2, generator=generator, dtype=torch.double) - 1
        seen = 2 * torch.rand(whole("num_samples", num_samples), 2, generator=generator, dtype=torch.double) - 1
        played = torch.multinomial(self.policy(seen), 1, generator=generator).squeeze(-1)
        learned = LogisticRegression(C=10.0, max_iter=1000).fit(seen.numpy(), played.numpy())
        self.noise = (number("noise", noise, 0),)
        self.space = IndirectSpace(
            (Parameter("a1", -1.0, 1.0), Parameter("a2", -1.0, 1.0)),
            (1.0,),
            inputs=torch.eye(arms),
            feedback=Policy(self.policy if known else learned),
            choices=choices,
        )
        self.latent_optimum = self.rewards.max().item()

    def policy(self, A: Tensor) -> Tensor:
        """The true probabilities of the arms, ``... x K``, at ``... x 2`` covariates."""
        return (A @ self.preferences).softmax(-1)

    def latent(self, X: Tensor) -> Tensor:
        """Rewards of ``n x K`` rows of the identity."""
        return X @ self.rewards

    def averages(self, A: Tensor, fidelity: int) -> Tensor:
        return self.policy(A) @ self.rewards

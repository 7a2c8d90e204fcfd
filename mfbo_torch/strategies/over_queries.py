r"""Baselines for indirect queries: a Gaussian process on the queries that ignores what they average over.

They differ from their namesakes in what they recommend: the maximiser of the posterior mean of ``f``, under
the model that CMES has [Zhang2024indirect]_ (Section 7).

References:

.. [Zhang2024indirect]
    M. Zhang, S. Bouabid, C. S. Ong, S. Flaxman, D. Sejdinovic. Indirect Query Bayesian
    Optimization with Integrated Feedback. 2024.

.. [Wang2017mes]
    Z. Wang, S. Jegelka. Max-value Entropy Search for Efficient Bayesian Optimization. ICML 2017.
"""

from __future__ import annotations

from typing import Any

from botorch.acquisition import AcquisitionFunction, qMaxValueEntropy
from botorch.models.model import Model
from torch import Tensor

from mfbo_torch.history import History
from mfbo_torch.strategies._gp import quiet
from mfbo_torch.strategies.design import sobol
from mfbo_torch.strategies.indirect import Indirect
from mfbo_torch.strategies.model_based import draw_seed
from mfbo_torch.strategies.single_fidelity import GPUCB, Analytic, ExpectedImprovement

CANDIDATES = 1000
"""Most queries over which MES samples the maximum of ``g``."""


class OverQueries(Indirect, Analytic):
    """One GP over the queries at the finest resolution."""


class QueryUCB(OverQueries, GPUCB):
    """:class:`~mfbo_torch.strategies.GPUCB` over the queries."""


class QueryEI(OverQueries, ExpectedImprovement):
    """:class:`~mfbo_torch.strategies.ExpectedImprovement` over the queries."""


class QueryMES(OverQueries):
    """Max-value entropy search over the queries [Wang2017mes]_, as BoTorch has it.

    The maximum of ``g`` is sampled by the Gumbel approximation over at most :data:`CANDIDATES` queries.
    """

    def acquisition(self, model: Model, best: float, history: History) -> tuple[AcquisitionFunction, dict[str, Any]]:
        seed = draw_seed(self.generator(history))
        with quiet(seed):
            return qMaxValueEntropy(model, self._surrogate.to(self._candidates(seed)), num_fantasies=1), {}

    def _candidates(self, seed: int) -> Tensor:
        if self.space.choices is None:
            return sobol(self.space.dim, CANDIDATES, seed)
        choices = self.space.to_unit(self.space.choices)
        return choices[:: max(1, -(-len(choices) // CANDIDATES))]

"""The contract of a strategy: from a history to the next queries, and nothing remembered."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

import torch
from torch import Tensor

from mfbo_torch.checks import whole
from mfbo_torch.errors import SettingError
from mfbo_torch.history import History, Query, Recommendation, Record, points
from mfbo_torch.signature import settings_of
from mfbo_torch.space import Space
from mfbo_torch.strategies.design import allowed

BOUND = ("space", "capital")
"""Settings that a strategy is given for a run."""


class Strategy(ABC):
    """Decides what to evaluate next.

    ``ask`` is a deterministic function of the settings, the seed and the history (pending
    queries included). A strategy may memoise what it computed from a history; it never keeps
    state of its own, so a run can be resumed, replayed or shared between workers.

    Subclasses implement :meth:`decide`, :meth:`recommend` where the best observation is not the
    best advice, and :meth:`predict` where they have a model. They keep each setting as an attribute of
    its name, as it was given, so that :attr:`settings` can tell it.

    Standard errors of observations go into the model where every observation that it is made of has one, see
    :func:`~mfbo_torch.history.noise_variances`. ``Direct``, ``RandomSearch``, ``MFNaive`` with ``explore="random"`` and
    the strategies over arms (``MFUCB``, ``UCB``, ``SuccessiveElimination``) have none and pass over them.

    Args:
        seed: Seed of every random choice.
        space: What can be queried; usually set by :meth:`bind`.
        capital: What may be spent in all, if the rule depends on it; usually set by :meth:`bind`.
    """

    def __init__(self, *, seed: int = 0, space: Space | None = None, capital: float | None = None) -> None:
        self.seed = whole("seed", seed, 0)
        self._space = space
        self.capital = capital

    @property
    def settings(self) -> dict[str, Any]:
        """What it is made with beyond the defaults, but for space and capital.

        ``type(self)(**self.settings)`` is another one like it, not bound.

        Raises:
            SettingError: A strategy of one's own does not keep a setting.
        """
        usual = {name: default for name, default in settings_of(type(self)).items() if name not in BOUND}
        if lost := [name for name in usual if not hasattr(self, name)]:
            raise SettingError(
                lost[0], "not kept", f"an attribute of {type(self).__name__}, as in self.{lost[0]} = {lost[0]}"
            )
        own = {name: getattr(self, name) for name in usual}
        return {name: value for name, value in own.items() if (type(value), value) != (type(usual[name]), usual[name])}

    @property
    def space(self) -> Space:
        """What can be queried.

        Raises:
            SettingError: It was never given.
        """
        if self._space is None:
            raise SettingError("space", None, f"given, as in {type(self).__name__}(space=problem.space)")
        return self._space

    @property
    def own_space(self) -> Space | None:
        """The space it was made with or bound to, ``None`` where it has none yet."""
        return self._space

    def bind(self, space: Space, capital: float | None = None) -> Self:
        """A copy of this strategy for a space and a capital, where it has none of its own."""
        bound = copy.copy(self)
        bound._space = self._space or space
        bound.capital = self.capital if self.capital is not None else capital
        return bound

    def ask(self, history: History, n: int = 1) -> list[Query]:
        """The next ``n`` queries.

        Args:
            history: Everything asked so far; its pending queries are taken into account.
            n: How many to decide. Each sees the ones before it as pending.

        Raises:
            SettingError: ``n`` below 1, no space is known, or the space has constraints that this
                strategy does not keep to.
        """
        queries: list[Query] = []
        n = whole("n", n)
        while len(queries) < n:
            for query in self.decide_some(history, n - len(queries)):
                queries.append(query)
                if self.space.constraints and not self.space.allows(self._unit(query)):
                    kind = type(self).__name__
                    raise SettingError("constraints", self.space.constraints, f"none: {kind} does not keep to them")
                history = history.asked(query, self.costs(history)[query.fidelity])
        return queries

    @abstractmethod
    def decide(self, history: History) -> Query:
        """The next query."""

    def decide_some(self, history: History, n: int) -> list[Query]:
        """The next query, or up to ``n`` where deciding several at once costs less: the same ones."""
        return [self.decide(history)]

    def recommend(self, history: History) -> Record | Recommendation | None:
        """The best observation at the target fidelity, ``None`` while there is none.

        Where values are noisy or queries are averages of what is sought, and the strategy has a model: the best
        design, or the best input, as the model has it.
        """
        return history.best(self.space.target)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """What the strategy's model believes of the objective; ``None`` where there is no model (yet).

        Args:
            history: Everything asked so far; queries without a value are left out.
            X: ``n x d`` designs in the user's own units.

        Returns:
            The mean and the standard deviation of the noise-free value to be maximised, ``n x M``
            each, double, on the CPU; NaN at a fidelity that the model says nothing about.
        """
        return None

    def explained(self, history: History) -> tuple[float, ...] | None:
        """How much of the target's variance each fidelity explains, with those below it.

        Returns:
            ``M`` shares from 0 to 1, the last one 1; ``None`` where no model tells (yet).
        """
        return None

    def costs(self, history: History) -> tuple[float, ...]:
        """The cost of a query at each fidelity, ``M`` numbers.

        Where costs are measured: the mean so far, and for a fidelity that never ran its
        nominal cost scaled by what the nearest measured fidelity took.
        """
        if not self.space.measured:
            return self.space.costs
        nominal = self.space.costs
        means = {}
        for m in range(len(nominal)):
            seen = [r.cost for r in history.done if r.query.fidelity == m]
            if seen:
                means[m] = max(sum(seen) / len(seen), 1e-9)
        if not means:
            return nominal
        known = {m: min(means, key=lambda seen: abs(seen - m)) for m in range(len(nominal))}
        return tuple(means[k] * nominal[m] / nominal[k] for m, k in known.items())

    def generator(self, history: History) -> torch.Generator:
        """Random numbers for the next decision: the same ones for the same history length."""
        return torch.Generator().manual_seed(hash((self.seed, len(history))) % 2**63)

    def random_design(self, generator: torch.Generator) -> Tensor:
        """A uniform random design of the unit cube, ``d`` numbers; one that the constraints allow."""
        dim = self.space.dim
        return allowed(lambda n: torch.rand(n, dim, generator=generator, dtype=torch.double), 1, self.space)[0]

    def query(self, u: Tensor, fidelity: int, **meta: object) -> Query:
        """The query at a point of the unit cube."""
        x = self.space.from_unit(u.detach().to("cpu", torch.double).reshape(-1))
        return Query(tuple(x.tolist()), int(fidelity), meta)

    def _unit(self, query: Query) -> Tensor:
        return self.space.to_unit(torch.tensor(query.x, dtype=torch.double))

    def unit_points(self, records: list[Record]) -> Tensor:
        """``n x (d + 1)`` points of some records: designs in the unit cube, then the fidelity."""
        return unit_points(self.space, records)


def unit_points(space: Space, records: list[Record]) -> Tensor:
    """``n x (d + 1)`` points of some records: designs in the unit cube, then the fidelity."""
    if not records:
        return torch.zeros(0, space.dim + 1, dtype=torch.double)
    X = points(records)
    return torch.cat([space.to_unit(X[:, :-1]), X[:, -1:]], dim=-1)

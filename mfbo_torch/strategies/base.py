"""The contract of a strategy: from a history to the next queries, and nothing remembered."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor

from mfbo_torch.history import History, Query, Recommendation, Record, payable
from mfbo_torch.history.continuation import matching_design
from mfbo_torch.space import Space
from mfbo_torch.strategies.common.design_table import unit_points
from mfbo_torch.strategies.common.initial_design import random_design
from mfbo_torch.strategies.snapshot import Snapshot, SnapshotCache
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.init_signature import settings_of
from mfbo_torch.utils.validation import whole

BOUND = ("space", "capital")
"""Settings that a strategy is given for a run."""
LIMITED = "MFGPUCB, GPBUCB, GPUCB, ExpectedImprovement, ProbabilityOfImprovement and RandomSearch"


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

    takes_choices = True
    """Whether it works where parameters have choices or conditions."""
    most_fidelities: int | None = None
    """With how many fidelities it works, ``None`` with any number."""
    heeds_limits = False
    """Whether it seeks what keeps the limits on outcomes."""
    heeds_objectives = False
    """Whether it takes several objectives."""
    patient = False
    """Whether the last queries of a capital wait for values, see :meth:`waits`."""

    def __init__(self, *, seed: int = 0, space: Space | None = None, capital: float | None = None) -> None:
        self.seed = whole("seed", seed, 0)
        if self.seed >= 2**64:
            raise SettingError("seed", seed, "a whole number below 2^64")
        self._space = space
        self.capital = capital
        self._cache = SnapshotCache()

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
        bound._check_limits()
        return bound

    def snapshot(self, history: History) -> Snapshot:
        """What a decision after a history is made from."""
        return self._cache.snapshot(history, self.space)

    def ask(self, history: History, n: int = 1) -> list[Query]:
        """The next ``n`` queries.

        Args:
            history: Everything queried so far; its pending queries are taken into account.
            n: How many to decide. Each sees the ones before it as pending.

        Raises:
            SettingError: ``n`` below 1, no space is known, or the space has constraints that this
                strategy does not keep to, or choices that it does not take.
        """
        queries: list[Query] = []
        n = whole("n", n)
        if self.most_fidelities is not None and self.space.num_fidelities > self.most_fidelities:
            wanted = f"at most {self.most_fidelities} for {type(self).__name__}; BOCA takes a continuous fidelity"
            raise SettingError("fidelities", self.space.num_fidelities, wanted)
        if self.space.mixed and not self.takes_choices:
            names = [p.name for p in self.space.parameters if p.choices or p.when]
            wanted = f"numbers that are always there: {type(self).__name__} takes no choices and no conditions"
            raise SettingError("parameters", names, wanted)
        self._check_limits()
        while len(queries) < n:
            for query in self.decide_some(history, n - len(queries)):
                if self.space.continues:
                    query = replace(query, x=matching_design(history.records, query.x))
                if waiting := len(history.tally.pending):
                    query = replace(query, meta={**query.meta, "in_flight": waiting})
                queries.append(query)
                if self.space.constraints and not self.space.allows(self._unit(query)):
                    kind = type(self).__name__
                    raise SettingError("constraints", self.space.constraints, f"none: {kind} does not keep to them")
                history = history.asked(query, self.cost(query, history))
        return queries

    def _check_limits(self) -> None:
        """Refuse limits on outcomes and objectives that this strategy would pass over."""
        if self._space is not None and self._space.objectives and not self.heeds_objectives:
            several = [str(one) for one in self._space.objectives]
            wanted = f"one for {type(self).__name__}; MFEHVI and RandomSearch take several"
            raise SettingError("objectives", several, wanted)
        if self._space is not None and self._space.limits and not self.heeds_limits:
            names = {limit.name: str(limit) for limit in self._space.limits}
            wanted = f"none: {type(self).__name__} does not seek what keeps them; {LIMITED} do"
            raise SettingError("constraints", names, wanted)

    @abstractmethod
    def decide(self, history: History) -> Query:
        """The next query."""

    def decide_some(self, history: History, n: int) -> list[Query]:
        """The next query, or up to ``n`` where deciding several at once costs less; they are the same queries."""
        return [self.decide(history)]

    def recommend(self, history: History) -> Record | Recommendation | None:
        """The best observation at the target fidelity, ``None`` while there is none.

        Where values are noisy or queries are averages of what is sought, and the strategy has a model: the best
        design, or the best input, as the model has it.
        """
        return history.best(self.space.target)

    def predict(self, history: History, X: Tensor) -> tuple[Tensor, Tensor] | None:
        """What the strategy's model predicts of the objective; ``None`` where there is no model (yet).

        Args:
            history: Everything queried so far; queries without a value are left out.
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

        See :attr:`~mfbo_torch.strategies.snapshot.Snapshot.costs`.
        """
        return self.snapshot(history).costs

    def cost(self, query: Query, history: History) -> float:
        """What a query is expected to cost: see :meth:`~mfbo_torch.strategies.snapshot.Snapshot.cost`."""
        return self.snapshot(history).cost(query)

    def waits(self, history: History, cost: float, capital: float) -> bool:
        """Whether the next query is to be decided later, with more values: beside others in flight, with which it would
        cost more than half of what is left of the capital after it, if the strategy is patient. So little waits while
        the capital lasts, and its last queries are not decided on the little that was known when many others began.

        Args:
            history: Everything queried so far.
            cost: Of the query.
            capital: What may be spent in all.
        """
        flying, left = history.spent - history.settled, payable(capital) - history.spent - cost
        unknown = self.space.measured and not history.tally.evaluated
        return self.patient and flying > 0 and 2 * (flying + cost) > left and not unknown

    def fidelity_at(self, x: Sequence[float], history: History) -> int:
        """The fidelity at which it would ask a design that somebody else has chosen; the target unless it knows better.

        Args:
            x: The design, in the user's own units.
            history: Everything queried so far.
        """
        return self.space.target

    def generator(self, history: History) -> torch.Generator:
        """Random numbers for the next decision: the same ones for the same history length."""
        return self.snapshot(history).generator(self.seed)

    def random_design(self, generator: torch.Generator) -> Tensor:
        """A uniform random design of the unit cube, ``d`` numbers; one that the constraints allow."""
        return random_design(self.space, generator)

    def query(self, u: Tensor, fidelity: int, **meta: object) -> Query:
        """The query at a point of the unit cube."""
        x = self.space.from_unit(u.detach().to("cpu", torch.double).reshape(-1))
        return Query(tuple(x.tolist()), int(fidelity), meta)

    def _unit(self, query: Query) -> Tensor:
        return self.space.to_unit(torch.tensor(query.x, dtype=torch.double))

    def unit_points(self, records: list[Record]) -> Tensor:
        """``n x (D + 1)`` points of some records: designs in the unit cube, then the fidelity."""
        return unit_points(self.space, records)

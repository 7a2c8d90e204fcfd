"""MF-GP-UCB with a model that learns how each fidelity follows from the one below."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from mfbo_torch.acquisition.multi_fidelity_ucb import explained_variance, lowest_paying
from mfbo_torch.history import History, Query, Record, payable
from mfbo_torch.models.multi_fidelity.base import at_fidelity
from mfbo_torch.models.multi_fidelity.co_kriging import CoKrigingGP
from mfbo_torch.models.outcome_transform import Warp
from mfbo_torch.space import Space
from mfbo_torch.strategies.common.deduplicate import BUSY_RADIUS, clear
from mfbo_torch.strategies.common.initial_design import sobol, with_the_target
from mfbo_torch.strategies.common.outcome_models import Chain, undecided
from mfbo_torch.strategies.common.subsample import FEWER, Subset
from mfbo_torch.strategies.multi.mf_gp_ucb_thresholds import last_level, overdue
from mfbo_torch.strategies.multi.resume_candidates import gain_over_best, resumed
from mfbo_torch.strategies.multi.upper_bounds import UpperBounds
from mfbo_torch.strategies.single.analytic import ExpectedImprovement
from mfbo_torch.strategies.snapshot import Snapshot

APART = 0.25
"""Distance in the unit cube from which on two designs may belong to two peaks."""
PEAKS = 4
"""Number of designs of a fidelity, :data:`APART`, where its peaks may be."""
LONG = 10.0
"""Target costs of a capital from which on the first design fills the space."""
TWICE = 3.0
"""Target costs of a capital from which on the target is asked again after the first design."""


class FidelityChoice(NamedTuple):
    """Where a design is to be queried, and why: noted for whoever asks."""

    fidelity: int
    noted: dict[str, Any]


class _Cheapest(ExpectedImprovement):
    """It searches the cheapest fidelity alone."""

    @property
    def level(self) -> int:
        return 0


class RecursiveMFGPUCB(UpperBounds):
    r"""The target's upper bound under the recursive link [LeGratiet2014recursive]_, at the fidelity that explains
    enough of the target's variance for its cost."""

    link = "recursive"
    patient = True
    filling = staticmethod(sobol)
    capped = True
    """Whether the fidelities below cost at most as much as one query of the target between two of these, and are at
    most :attr:`in_a_row`: a link that misleads is found out, and the target has about half of the capital or more."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.subset = Subset(above=FEWER)
        own: dict[str, Any] = {"seed": self.seed, "device": self.device, "dtype": self.dtype}
        self.cheapest = _Cheapest(**own, space=self.own_space, capital=self.capital)

    def bind(self, space: Space, capital: float | None = None) -> Self:
        bound = super().bind(space, capital)
        bound.cheapest = self.cheapest.bind(space, capital)
        return bound

    @property
    def in_a_row(self) -> int:
        """The most queries below the target between two of the target, ``10 d``: more tell little for their decisions'
        time."""
        return 10 * self.space.dim

    def counts(self, snapshot: Snapshot) -> list[int]:
        """Number of initial queries at each fidelity.

        Two thirds of ``initial_capital``, at most a third of the capital, go to the target, the rest in equal parts to
        the fidelities below (at most ``10 d`` points each). By default it is three target costs, or 0.15 of the capital
        if it is more; at most 0.6 of the capital, unless that is less than two target costs.

        Where it pays for one query of the target, what that leaves is spent from the cheapest fidelity up, and each is
        asked once at least. A capital below :data:`TWICE` is one first design: no later query would learn from the
        fidelities between, which have what the cheapest leaves.
        """
        costs, capital = snapshot.costs, self._target_costs(snapshot)
        budget = self.initial_capital or max(3.0, 0.15 * (capital or 0.0))
        if capital is not None:
            budget = min(budget, capital if capital < TWICE else max(2.0, 0.6 * capital))
        top = max(1, int(min(2 * budget, capital or math.inf) / 3 + 1e-9))
        if top > 1:
            below = self.counts_below(costs, budget / 3 * costs[-1] / max(1, len(costs) - 1), top)
        else:
            least = int(capital is None or capital >= TWICE)
            below = self._from_below(costs, max(budget / 3, budget - 1.0) * costs[-1], least)
        return with_the_target([*below, top], costs, self.capital)

    def _from_below(self, costs: Sequence[float], budget: float, least: int) -> list[int]:
        """Number of queries of each fidelity below the target a budget pays for, ``least`` or more, cheapest first."""
        counts = list[int]()
        for m, cost in enumerate(costs[:-1], 1):
            few = max(least, int(m == 1))  # the cheapest is asked even where the rest pays for nothing
            counts += self.counts_below((cost, costs[-1]), budget - least * math.fsum(costs[m:-1]), few)
            budget -= counts[-1] * cost
        return counts

    def _target_costs(self, snapshot: Snapshot) -> float | None:
        """The capital in units of the target's cost, where it is known."""
        return None if self.capital is None else self.capital / snapshot.costs[-1]

    def counts_below(self, costs: Sequence[float], share: float, top: int) -> list[int]:
        """Number of initial queries at each fidelity below the target.

        Args:
            costs: ``M`` costs.
            share: What the queries of a fidelity may cost.
            top: Number of initial queries at the target.
        """
        most = 10 * self.space.dim
        return [max(top, min(most, int(share / cost + 1e-9))) for cost in costs[:-1]]

    def due(self, snapshot: Snapshot) -> int | None:
        """The fidelity of the next initial query. Beside others of which none has ended it is the cheapest one, for at
        most as much as those above cost: these go where the best below is."""
        level, pending = super().due(snapshot), len(snapshot.pending)
        if not level or not pending or pending < len(snapshot):
            return level
        above = sum(n * cost for n, cost in zip(self.counts(snapshot)[1:], snapshot.costs[1:], strict=True))
        return 0 if (snapshot.initial.count(0) + 1) * snapshot.costs[0] <= above else level

    def ready(self, snapshot: Snapshot) -> bool:
        return super().ready(snapshot) or self._awaits_the_first(snapshot)

    def _awaits_the_first(self, snapshot: Snapshot) -> bool:
        """Whether the target has no value yet, and some queries have none."""
        return bool(snapshot.pending) and not snapshot.at(self.space.target)

    def initial_point_at(self, fidelity: int, snapshot: Snapshot) -> Tensor:
        """Above the lowest fidelity the best of the designs below that is :data:`APART` from those chosen, or the one
        farthest from them: each link is learned from nested designs, where the function is promising. A new one where
        none is left below, as all have failed.

        At the lowest fidelity of ``n`` designs the first ``n Λ / 10`` fill the space where the capital ``Λ`` is below
        :data:`LONG` target costs, and at least half of them; the others go where the expected improvement of that
        fidelity is largest: a short run has no later query to find what is best below.
        """
        if fidelity == 0 and self.space.target and self._climbing(snapshot):
            return self.cheapest.design(snapshot, snapshot.generator(self.seed))[0][0]
        promoted = self._promoted(fidelity, snapshot)
        if promoted is not None:
            return promoted
        return self.initial_point(len(snapshot.initial) if fidelity else snapshot.initial.count(0))

    def _promoted(self, fidelity: int, snapshot: Snapshot) -> Tensor | None:
        """The best of the designs below a fidelity that is :data:`APART` from those asked there, or the one farthest
        from them; ``None`` where no value is left below."""
        here = [r for r in snapshot.records if r.query.fidelity == fidelity]
        taken = {r.query.x for r in here}
        for m in reversed(range(fidelity)):
            below = [r for r in snapshot.at(m) if r.query.x not in taken and r.feasible]
            if below:
                break
        else:
            return None
        below.sort(key=lambda r: (-(r.value or 0.0), r.id))
        U = snapshot.designs(below)
        if not here:
            return U[0]
        distances = (U[:, None] - snapshot.designs(here)).abs().amax(-1).amin(-1)
        apart = U[distances > APART]
        return apart[0] if len(apart) else U[distances.argmax()]

    def _climbing(self, snapshot: Snapshot) -> bool:
        """Whether the next initial query of the lowest fidelity goes where that is expected to be best."""
        capital = self._target_costs(snapshot)
        filling = 1.0 if capital is None else max(0.5, capital / LONG)
        first = max(2, math.ceil(filling * self.counts(snapshot)[0]))
        return snapshot.initial.count(0) >= first and len(self.cheapest.modelled(snapshot)) >= 2

    def propose(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        if self._awaits_the_first(snapshot):
            return self._unanswered(snapshot, generator)
        model = self.model(snapshot)
        u, beta = self.bounded(model, snapshot, generator)
        at = self.level(model, u, snapshot)
        return self.query_near(model, u, beta, at, snapshot, generator, self.transform(snapshot), {"beta": beta})

    def _unanswered(self, snapshot: Snapshot, generator: torch.Generator) -> Query:
        """The query while the target's first values are to come, as the first design goes on: below the target in equal
        parts until that costs as much as a query of it, then at the target; where the best of the designs below is."""
        level, costs = self.level_due(0, snapshot)[0], snapshot.costs
        if level < self.space.target:
            counts = snapshot.history.queries_per_fidelity(self.space.num_fidelities)
            level = min(range(self.space.target), key=lambda m: (counts[m] + 1) * costs[m])
        u = self._promoted(level, snapshot)
        if u is None:
            level = 0
            climbing = self.space.target and self._climbing(snapshot)
            u = self.initial_point_at(0, snapshot) if climbing else self.random_design(generator)
        return self.placed(u, level, snapshot, generator)

    def level(self, model: Chain, u: Tensor, snapshot: Snapshot) -> FidelityChoice:
        """The fidelity that explains enough of the target's variance at a ``1 x d`` design for its cost; or a lower one
        that does so of an outcome of which it is open whether it keeps its limit.

        It notes what each fidelity below the target ``explains`` there, and how much would be ``enough``.
        """
        return self.level_of(self._explained(model, u, snapshot), u, snapshot)

    def level_of(self, explained: Sequence[float], u: Tensor, snapshot: Snapshot) -> FidelityChoice:
        """:meth:`level` where the fidelities explain these ``M`` parts of the target's variance."""
        costs, wanted = snapshot.costs_at(u), self.level_wanted(explained, u, snapshot)
        noted: dict[str, Any] = {"because": "outcome"} if wanted < lowest_paying(explained, costs) else {}
        if self.space.target:
            noted["explains"] = [_rounded(part / max(explained[-1], 1e-300)) for part in explained[:-1]]
            noted["enough"] = [_rounded(cost / costs[-1]) for cost in costs[:-1]]
        level, why = self.level_due(wanted, snapshot)
        if why == "rest" and _among(u, snapshot.designs(self.awaiting(snapshot))):
            level, why = self.space.target, ""
        return FidelityChoice(level, noted | ({"because": why} if why else {}))

    def level_due(self, level: int, snapshot: Snapshot) -> tuple[int, str]:
        """The fidelity in place of a chosen one, and why: the target where it is overdue, or what the rest of the
        capital is for (:meth:`last_level`); itself elsewhere."""
        why, costs = "", snapshot.costs
        if self.capped and level < self.space.target and overdue(snapshot.records, costs, level, self.in_a_row):
            level, why = self.space.target, "overdue"
        last = self.last_level(level, snapshot)
        return last, why if last == level else "rest"

    def last_level(self, level: int, snapshot: Snapshot) -> int:
        """A chosen fidelity, or where the target's last query comes after what the rest of the capital pays for beside
        it: see :func:`~mfbo_torch.strategies.multi.mf_gp_ucb_thresholds.last_level`. At most :attr:`in_a_row` queries
        are put before it, none where trainings continue: their costs depend on what was trained."""
        if self.capital is None or self.space.continues:
            return level
        left, target = payable(self.capital) - snapshot.history.spent, self.space.target
        last = last_level(snapshot.costs, left)
        below = itertools.takewhile(lambda r: r.query.fidelity < target, reversed(snapshot.records))
        if last is None or (last < target and sum(1 for _ in below) >= self.in_a_row):
            return level
        return target if last == target else min(level, last)

    def awaiting(self, snapshot: Snapshot) -> list[Record]:
        """What was asked below in place of the target's last query, while that is still to come."""
        target = self.space.target
        if self.last_level(target, snapshot) == target:
            return []
        since = itertools.takewhile(lambda r: r.query.fidelity < target, reversed(snapshot.records))
        return [record for record in since if record.query.meta.get("because") == "rest"]

    def pending(self, snapshot: Snapshot) -> Tensor | None:
        """The pending points, and the target at designs that await its last query: what is asked below in its place
        goes elsewhere, as long as anything is promising there."""
        flying, waiting = super().pending(snapshot), self.awaiting(snapshot)
        if not waiting:
            return flying
        points = self.surrogate.to(at_fidelity(snapshot.designs(waiting), self.space.target))
        return points if flying is None else torch.cat([flying, points])

    def level_wanted(self, explained: Sequence[float], u: Tensor, snapshot: Snapshot) -> int:
        """The fidelity of :meth:`level_of`, before what is due instead."""
        found = lowest_paying(explained, snapshot.costs_at(u))
        return min(found, self.level_of_outcomes(u, snapshot)) if self.space.limits else found

    def level_of_outcomes(self, u: Tensor, snapshot: Snapshot) -> int:
        """The lowest fidelity that does so of an outcome of which it is open whether it keeps its limit; the target
        where there is none."""
        models, costs = undecided(self.space.limits, self.outcomes(snapshot), u), snapshot.costs_at(u)
        levels = (lowest_paying(self._explained(model, u, snapshot), costs) for model in models)
        return min(levels, default=self.space.target)

    def _explained(self, model: Chain, u: Tensor, snapshot: Snapshot) -> list[float]:
        weights, pending = self.expected_slopes(model, snapshot), self.pending(snapshot)
        found: list[float] = explained_variance(model, u, pending, expected=weights).tolist()
        return found

    def expected_slopes(self, model: Chain, snapshot: Snapshot) -> Tensor | None:
        """The weights of the fidelities in the target by which these explain it; ``None`` where they are the model's
        own."""
        return None

    def query_near(
        self,
        model: Chain,
        u: Tensor,
        beta: float,
        at: FidelityChoice,
        snapshot: Snapshot,
        generator: torch.Generator,
        transform: Warp,
        noted: Mapping[str, Any],
    ) -> Query:
        """The query at a ``1 x d`` design and a fidelity; or at others, where a training goes on, a failure is feared
        or nothing is left to query there.

        Args:
            model: Has chosen the design.
            u: The design.
            beta: The squared width of the model's bound.
            at: Where the design is to be queried.
            snapshot: What was queried so far.
            generator: Random numbers for the way from ``u``.
            transform: That of the model's values.
            noted: What to note with the query.
        """
        v, fidelity = resumed(snapshot, gain_over_best(model, beta, snapshot), u, at.fidelity)
        probed = self.probing(v, fidelity, snapshot)
        free = self.free(probed, snapshot)
        changes = {"resumed": v is not u, "probe": probed != fidelity, "used up": free != probed}
        because: dict[str, Any] = next(({"because": why} for why, changed in reversed(changes.items()) if changed), {})
        noted = {**noted, **at.noted, **because}
        u = clear(v, free, snapshot, generator)
        return self.query(u, free, stage="model", **noted, **self.predicted(model, u, free, transform))

    def fidelity_at(self, x: Sequence[float], history: History) -> int:
        """The target before there is a model."""
        snapshot = self.snapshot(history)
        if self.due(snapshot) is not None or not self.ready(snapshot):
            return self.space.target
        u = self.surrogate.to(self.space.to_unit(torch.tensor([x], dtype=torch.double)))
        return self.level(self.model(snapshot), u, snapshot).fidelity

    def explained(self, history: History) -> tuple[float, ...] | None:
        snapshot = self.snapshot(history)
        seen = {r.query.fidelity for r in self.modelled(snapshot)}
        if len(seen) < self.space.num_fidelities:
            return None
        model, _ = self.best_model(snapshot)
        model = model if isinstance(model, CoKrigingGP) else CoKrigingGP(model)
        return tuple(model.explained.tolist())


def other_peaks(snapshot: Snapshot) -> Tensor:
    """The best designs ``n x d`` of each fidelity that are :data:`APART` from its best one and each other, with it
    :data:`PEAKS` at most: a second peak is not found from the first one."""
    found = [torch.zeros(0, snapshot.space.unit_dim, dtype=torch.double)]
    for m in range(snapshot.space.num_fidelities):
        U = snapshot.designs(sorted(snapshot.at(m), key=lambda r: (-(r.value or 0.0), r.id)))
        for peak in range(PEAKS):
            found += [U[:1]] if peak else []
            U = U[(U - U[:1]).abs().amax(-1) > APART]
    return torch.cat(found)


def _among(u: Tensor, designs: Tensor) -> bool:
    """Whether a ``1 x d`` design counts as one of ``n x d``."""
    return bool(((designs - u.to(designs)).abs().amax(-1) <= BUSY_RADIUS).any())


def _rounded(share: float) -> float:
    return float(f"{min(share, 1e300):.4g}")

"""Initial designs: where the first queries go, and how many at each fidelity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from mfbo_torch.history import payable
from mfbo_torch.space import Space
from mfbo_torch.space.constraints import written
from mfbo_torch.utils.errors import SettingError

MOST_DRAWS = 2**16
"""Number of random designs that are looked through for allowed ones."""


def allowed(draw: Callable[[int], Tensor], n: int, space: Space) -> Tensor:
    """The first ``n`` rows of a sequence of designs that the constraints of a space allow.

    Args:
        draw: From a number of rows to as many points of ``[0, 1]^d``, which choices are taken from too.
        n: How many are wanted.
        space: Whose constraints they must meet.

    Raises:
        SettingError: Too few of the first :data:`MOST_DRAWS` designs do.
    """
    size = n
    while True:
        U = space.designs(draw(size))
        kept = U[space.allows(U)]
        if len(kept) >= n:
            return kept[:n]
        if size >= MOST_DRAWS:
            met = f"met by more than {len(kept)} of {size:,} random designs"
            raise SettingError("constraints", [written(one, space.parameters) for one in space.constraints], met)
        size = min(2 * size, max(MOST_DRAWS, n))


def random_design(space: Space, generator: torch.Generator) -> Tensor:
    """A uniform random design of the unit cube, ``d`` numbers; one that the constraints allow."""
    return allowed(lambda n: torch.rand(n, space.dim, generator=generator, dtype=torch.double), 1, space)[0]


def uniform(dim: int, n: int, seed: int) -> Tensor:
    """``n x dim`` independent uniform points of the unit cube [Kandasamy2016mfgpucb]_ (Appendix B).

    The first rows do not depend on ``n``, so a design can be read one row at a time.
    """
    return torch.rand(n, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def sobol(dim: int, n: int, seed: int) -> Tensor:
    """``n x dim`` points of a scrambled Sobol sequence in the unit cube; the first rows do not depend on ``n``."""
    return SobolEngine(dim, scramble=True, seed=seed).draw(n, dtype=torch.double)


def single_fidelity_count(cost: float, capital: float | None) -> int:
    """How many initial queries of one fidelity: 10, at most half of ``capital``, at least 2."""
    return 10 if capital is None else max(2, min(10, _affordable(capital / 2, cost)))


def multi_fidelity_counts(
    costs: Sequence[float], dim: int, capital: float | None, initial_capital: float = 10.0, capped: bool = True
) -> list[int]:
    """How many initial queries at each fidelity [Kandasamy2016mfgpucb]_ (Appendix B).

    ``Λ0 = min(initial_capital λ^(M), Λ / 2)`` is split in two halves: one for fidelity 0, one shared
    equally by the higher fidelities. The paper puts no limit on the cheap queries; here no fidelity
    below the target gets more than ``10 (d + 1)``, as a model fitted to more learns little and costs
    time. Every fidelity gets at least one query and fidelity 0 at least two, even where half of the
    capital does not pay for them, as long as all of it does: see :func:`with_the_target`.

    Args:
        costs: ``M`` increasing costs.
        dim: Number of parameters ``d``.
        capital: ``Λ``, in the unit of ``costs``; ``None`` where it is unknown.
        initial_capital: ``Λ0`` in units of the target's cost.
        capped: Whether the cheap queries are limited.
    """
    budget = initial_capital * costs[-1]
    if capital is not None:
        budget = min(budget, capital / 2)
    if len(costs) == 1:
        return [max(2, _affordable(budget, costs[0]))]
    most = 10 * (dim + 1) if capped else _affordable(budget, costs[0])
    share = budget / 2 / (len(costs) - 1)
    lowest = max(2, min(most, _affordable(budget / 2, costs[0])))
    between = [max(1, min(most, _affordable(share, cost))) for cost in costs[1:-1]]
    return with_the_target([lowest, *between, max(1, _affordable(share, costs[-1]))], costs, capital)


def with_the_target(counts: Sequence[int], costs: Sequence[float], capital: float | None) -> list[int]:
    """Number of queries at each fidelity, less the cheapest where the capital would not pay for the target's too; none
    at the target where it pays for none."""
    if capital is not None and costs[-1] > payable(capital):
        return [*counts[:-1], 0]
    found = list(counts)
    if capital is None or counts[-1] * costs[-1] > payable(capital):
        return found
    for m, cost in enumerate(costs[:-1]):
        over = sum(count * each for count, each in zip(found, costs, strict=True)) - capital
        if over > 1e-9 * cost:
            found[m] = max(0, found[m] - math.ceil(over / cost - 1e-9))
    return found


def _affordable(budget: float, cost: float) -> int:
    """How many queries a budget pays for; rounding errors do not lose one."""
    return int(budget / cost + 1e-9)

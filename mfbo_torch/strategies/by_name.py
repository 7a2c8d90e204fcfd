"""Strategies by their names, ``"RandomSearch"`` for ``RandomSearch(seed=0)``."""

from __future__ import annotations

from typing import Any

from mfbo_torch import strategies
from mfbo_torch.space import Space
from mfbo_torch.strategies.base import Strategy
from mfbo_torch.utils.errors import SettingError, did_you_mean


def usual(space: Space) -> type[Strategy]:
    """The strategy of those who name none: by the objectives of a space and its epochs."""
    kind = "MFEHVI" if space.objectives else "MFGPUCB" if space.epochs is None else "FreezeThaw"
    found: type[Strategy] = getattr(strategies, kind)
    return found


def strategy_of(given: Any, seed: int | None, usual: type[Strategy]) -> Strategy:
    """A strategy as it is, by its name with a seed (0 if ``None``), or the usual one for ``None``; a ``SettingError``
    for a name that none has, and for another seed than a strategy's own."""
    if isinstance(given, Strategy):
        if seed is not None and seed != given.seed:
            raise SettingError("seed", seed, f"left out, the strategy has its own, {given.seed}")
        return given
    kind = usual if given is None else getattr(strategies, given, None) if isinstance(given, str) else None
    if not isinstance(kind, type) or not issubclass(kind, Strategy) or kind is Strategy:
        names = [name for name in strategies.__all__ if name != "Strategy"]
        hint = did_you_mean(given, names) if isinstance(given, str) else ""
        raise SettingError("strategy", given, f"a strategy such as MFGPUCB(), or the name of one, 'MFGPUCB'{hint}")
    return kind(seed=0 if seed is None else seed)

"""What is optimised where there are several objectives, and in which direction each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mfbo_torch.space.outcome_constraints import Limit
from mfbo_torch.space.parameter import one_among
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import VALUE, name_of, number, one_of, several

MINIMIZE, MAXIMIZE = DIRECTIONS = ("minimize", "maximize")
"""What may be wanted of an objective."""
MOST_OBJECTIVES = 32
"""Number of objectives, at most: fronts of more have nearly all designs, and their pictures show nothing."""


class Objective(NamedTuple):
    """One of several objectives.

    Attributes:
        name: Its name among the numbers that an evaluation returns.
        maximize: Whether larger values are better.
        reference: The worst value of interest, in its own sign and unit: the hypervolume is counted from there; found
            from the observations where it is ``None``.
        known: The function of the parameters, a mapping, that it is; ``None`` where it has to be observed.
    """

    name: str
    maximize: bool = False
    reference: float | None = None
    known: Callable[[Mapping[str, Any]], float] | None = None

    def signed(self, value: float) -> float:
        """A value to be maximised from one in the objective's own sign, or back."""
        return value if self.maximize else -value

    def __str__(self) -> str:
        return f"{MAXIMIZE if self.maximize else MINIMIZE} {self.name}"


def objectives_of(
    names: Any, directions: Any = None, reference: Any = None, *, maximize: bool = False
) -> tuple[Objective, ...]:
    """Objectives from their names, or from ``{name: direction}``, or ``{name: function}`` of those that are known.

    Args:
        names: At least one, each once; other than ``"value"`` where there are several. Not all can be known.
        directions: ``"minimize"`` or ``"maximize"`` for each, in their order or by name; those that are not named have
            the usual one.
        reference: The worst value of interest of each, in their order or by name.
        maximize: Whether larger values are usually better.

    Raises:
        SettingError: A name is given twice or is none, there are more than :data:`MOST_OBJECTIVES`, or a direction or a
            reference is none.
    """
    known: dict[Any, Any] = {}
    if isinstance(names, Mapping):
        known = {name: given for name, given in names.items() if callable(given)}
        own = {name: given for name, given in names.items() if given is not None and not callable(given)}
        if own and directions is not None:
            raise SettingError("directions", directions, "left out where objectives has them")
        if known and len(known) == len(names):
            raise SettingError("objectives", list(names), "at least one that is not known, and so has to be observed")
        names, directions = list(names), own if directions is None else directions
    if isinstance(names, str):
        raise SettingError("objectives", names, f"a list of names, as in {[*map(str.strip, names.split(','))]}")
    found = several("objectives", names, name_of, "a list of names, one for each objective")
    if len(found) > MOST_OBJECTIVES:
        raise SettingError("objectives", f"{len(found):,} names", f"at most {MOST_OBJECTIVES}")
    if len(set(found)) < len(found) or (len(found) > 1 and VALUE in found):
        raise SettingError("objectives", list(found), f"names that differ, none of them {VALUE!r}")
    wanted = _by_name("directions", directions, found)
    worst = _by_name("reference", reference, found)
    return tuple(
        Objective(
            name,
            _maximize(f"directions.{name}", wanted[name]) if name in wanted else maximize,
            number(f"reference.{name}", worst[name]) if name in worst else None,
            known.get(name),
        )
        for name in found
    )


def checked_objectives(given: Iterable[Objective]) -> tuple[Objective, ...]:
    """The objectives of a space: none, or at least two; also as :func:`objectives_of` takes them."""
    if isinstance(given, Mapping) or any(isinstance(one, str) for one in given):
        given = objectives_of(given)
    found = tuple(one if isinstance(one, Objective) else Objective(*one) for one in given)
    for one in found:
        one_of(f"objectives.{one.name}", one.maximize, (True, False))
        if one.reference is not None:
            number(f"reference.{one.name}", one.reference)
    if len(found) == 1:
        raise SettingError("objectives", [found[0].name], "none where there is one objective, or at least two")
    if found:
        objectives_of([one.name for one in found])
    return found


def known_values(objectives: Iterable[Objective], named: Mapping[str, Any]) -> dict[str, float]:
    """The known ones at a design, in their own signs."""
    return {one.name: float(one.known(named)) for one in objectives if one.known is not None}


def check_known(objectives: Iterable[Objective], named: Mapping[str, Any]) -> None:
    """Try the known ones at a design; a ``SettingError`` where one fails there or is no finite number."""
    for one in objectives:
        wanted = f"a function of the parameters, a mapping, that gives a finite number; at {dict(named)}"
        try:
            found = known_values([one], named).get(one.name, 0.0)
        except Exception as error:
            raise SettingError(f"objectives.{one.name}", one.known, f"{wanted} it raised {error!r}") from error
        if not math.isfinite(found):
            raise SettingError(f"objectives.{one.name}", one.known, f"{wanted} it gave {found}")


def _by_name(setting: str, given: Any, names: Sequence[str]) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != len(names):
            raise SettingError(setting, given, f"one for each of {', '.join(names)}, in their order or by name")
        return dict(zip(names, given, strict=True))
    if unknown := [name for name in given if name not in names]:
        raise SettingError(setting, unknown[0], one_among(str(unknown[0]), names))
    return given


def _maximize(setting: str, given: Any) -> bool:
    if given not in DIRECTIONS:
        raise SettingError(setting, given, one_among(str(given), DIRECTIONS))
    return bool(given == MAXIMIZE)


def worst_of_interest(objectives: Sequence[Objective], limits: Iterable[Limit]) -> list[float | None]:
    """For each objective its reference, or the limit that bounds its worse values, or the tighter one of both, to be
    maximised; ``None`` where there is neither."""
    bounds = {(limit.name, not limit.upper): limit.bound for limit in limits}
    said = [(one.reference, bounds.get((one.name, one.maximize))) for one in objectives]
    found = [[one.signed(w) for w in worst if w is not None] for one, worst in zip(objectives, said, strict=True)]
    return [max(worst, default=None) for worst in found]

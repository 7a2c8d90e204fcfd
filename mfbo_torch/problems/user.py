"""A problem made of the user's own function."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from mfbo_torch.checks import observation, whole
from mfbo_torch.errors import SettingError
from mfbo_torch.history import Observed
from mfbo_torch.problems.base import Problem
from mfbo_torch.space import Parameter, Space

_KEYS = ("lower", "upper", "log", "integer")


class UserProblem(Problem):
    """An objective of the user's, evaluated in the user's own units.

    Args:
        objective: A function ``f(parameters, fidelity)`` that takes a ``{name: value}`` mapping
            (integers as ``int``) and the fidelity, ``0`` the cheapest, and returns a number, or a pair of it
            and its standard error (the standard deviation of its noise, 0 for none); or where to import it
            from, ``"package.module:function"``, looked for in the current folder first, as ``python -m`` does.
            Only with an import path, or a function at the top of a module, can the problem be sent to other
            processes.
        parameters: ``{name: {lower, upper, log, integer}}``, the last two ``False`` unless set.
        costs: One increasing cost a fidelity, the target last; or ``"measured"``, the seconds
            each query takes, guessed as ``1, 10, 100, ...`` until one has run.
        maximize: Whether larger values are better.
        num_fidelities: Number of fidelities, needed where the costs are measured.
        candidates: The only designs to evaluate, each a list of numbers in the order of ``parameters``; by
            default everything between the bounds.

    Raises:
        SettingError: The objective cannot be imported or called, or a setting is unknown,
            missing or out of range.
    """

    def __init__(
        self,
        objective: str | Callable[..., Observed],
        parameters: dict[str, dict[str, Any]],
        costs: list[float] | Literal["measured"],
        maximize: bool = True,
        *,
        num_fidelities: int | None = None,
        candidates: list[list[float]] | None = None,
    ) -> None:
        if not isinstance(parameters, Mapping):
            raise SettingError("parameters", parameters, "a mapping of names to lower, upper, log and integer")
        self.space = Space(
            tuple(_parameter(name, settings) for name, settings in parameters.items()),
            _costs(costs, num_fidelities),
            measured=costs == "measured",
            candidates=tuple(candidates or ()),  # type: ignore[arg-type]
        )
        self.maximize = maximize
        self.objective = objective
        self.folder = os.getcwd()
        self._function()

    def _function(self) -> Callable[..., Observed]:
        if isinstance(self.objective, str):
            return import_function(self.objective, self.folder)
        if not callable(self.objective):
            raise SettingError("objective", self.objective, 'a function or "package.module:function"')
        return self.objective

    def evaluate(self, x: Sequence[float], fidelity: int) -> Observed:
        """What the objective returns at ``x`` and ``fidelity``.

        Raises:
            SettingError: ``x`` has not ``d`` values, there is no such fidelity, or the objective returns something
                else than a number, or a pair of it and its standard error.
        """
        point, level = self.checked(x, fidelity)
        value, error = observation("objective's value", self._function()(self.space.named(point), level))
        return value if error is None else (value, error)


def import_function(path: str, folder: str) -> Callable[..., Observed]:
    """The function at ``"package.module:function"``, ``folder`` being on the import path.

    Raises:
        SettingError: The path is malformed, the module cannot be imported, or what it names
            is missing or no function.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name.replace(".", "_").isidentifier() or not attribute.isidentifier():
        raise SettingError("objective", path, 'like "package.module:function"')
    first_on_path(folder)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise SettingError("objective", path, f"importable from {folder} ({reason})") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        found = "not there" if function is None else f"of type {type(function).__name__}"
        place = getattr(module, "__file__", None) or module_name
        raise SettingError("objective", path, f"the name of a function in {place} ({attribute} is {found})")
    return function


def first_on_path(folder: str) -> None:
    """Let modules of a folder be found before all others of their name."""
    if sys.path[:1] != [folder]:
        sys.path[:] = [folder, *(other for other in sys.path if other != folder)]


def unavailable(parameters: Mapping[str, Any], fidelity: int) -> float:
    """Stands in for an objective where results are only read."""
    raise RuntimeError("the objective was not imported")


def _parameter(name: str, settings: dict[str, Any]) -> Parameter:
    if not isinstance(settings, Mapping):
        raise SettingError(f"parameters.{name}", settings, "a mapping with lower and upper")
    for key, value in settings.items():
        if key not in _KEYS:
            raise SettingError(f"parameters.{name}", key, f"one of {', '.join(_KEYS)}")
        if key in ("log", "integer") and not isinstance(value, bool):
            raise SettingError(f"parameters.{name}.{key}", value, "true or false")
    for key in ("lower", "upper"):
        if key not in settings:
            raise SettingError(f"parameters.{name}", dict(settings), f"given with {key}")
    return Parameter(name, **settings)


def _costs(costs: Sequence[float] | str, num_fidelities: int | None) -> tuple[float, ...]:
    if costs == "measured":
        wanted = "a positive whole number where costs are measured"
        return tuple(10.0**m for m in range(whole("num_fidelities", num_fidelities, wanted=wanted)))
    if not isinstance(costs, (list, tuple)):
        raise SettingError("costs", costs, 'a list of one number a fidelity, or "measured"')
    if num_fidelities is not None:
        whole("num_fidelities", num_fidelities, len(costs), len(costs), wanted=f"{len(costs)}, the number of costs")
    return tuple(costs)

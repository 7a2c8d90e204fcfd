"""A problem made of the user's own function or program."""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch

from mfbo_torch.history import Observed
from mfbo_torch.history.observation import Observation, Returned, parse_returned
from mfbo_torch.problems.base import OBJECTIVE, Problem
from mfbo_torch.problems.trial import Trial
from mfbo_torch.problems.user.call_convention import FIDELITY, convention
from mfbo_torch.problems.user.program import FOLDER, LAST_LINE, START, Program
from mfbo_torch.space import Parameter, Space, named_fidelities
from mfbo_torch.space.fidelities import Fidelities, epoch_rungs
from mfbo_torch.space.objectives import check_known, known_values, objectives_of
from mfbo_torch.space.outcome_constraints import kinds_of
from mfbo_torch.space.shorthand import from_settings, parameter_of
from mfbo_torch.utils.errors import SettingError, did_you_mean
from mfbo_torch.utils.validation import VALUE, one_of, whole

PROGRAM = ("command", "result", "timeout", "environment", "files")
"""The settings that make the objective a program."""


class FunctionProblem(Problem):
    """A function on a space, called as :func:`~mfbo_torch.problems.user.call_convention.convention` says; ``value`` is
    the key of the value to be optimised in a mapping that it returns. A ``SettingError`` where it cannot be called so,
    or is to continue trainings and takes no ``trial``."""

    def __init__(self, function: Callable[..., Returned], space: Space, maximize: bool, value: str = VALUE) -> None:
        self.objective: Any = function
        self.space, self.maximize, self.value = space, maximize, value
        if space.objectives:
            self.maximize, self.value = space.objectives[0].maximize, space.objectives[0].name
            middle = torch.full((1, space.unit_dim), 0.5, dtype=torch.double)
            if space.allows(middle).all():
                check_known(space.objectives, space.named(space.from_unit(middle)[0].tolist()))
        self.takes_trial = self._takes_trial()
        if space.epochs and space.continues and not self.takes_trial:
            called = getattr(self._function(), "__name__", self.name)
            raise SettingError("objective", called, "a function with an argument trial, training(parameters, trial)")
        if space.continues and not self.takes_trial:
            wanted = "false, or the objective must take a trial, or the command {folder}, to keep what it goes on from"
            raise SettingError("continues", True, wanted)

    def _takes_trial(self) -> bool:
        own, names = self.space.fidelities, [p.name for p in self.space.parameters]
        named = None if own is None else own.name
        told = 1 if self.space.epochs else self.space.num_fidelities  # trial.epochs() says how many
        self._convention = convention(self._function(), names, named, told)
        return self._convention.trial

    def _function(self) -> Callable[..., Returned]:
        return self.objective

    def evaluate(self, x: Sequence[float], fidelity: int) -> Observed:
        """What the objective returns at ``x`` and ``fidelity``, in its own sign; a ``SettingError`` where that is no
        :data:`~mfbo_torch.history.observation.Returned`."""
        if self.takes_trial:
            raise SettingError("trial", None, "given to this objective, as mfbo_torch.run and mfbo run do")
        query = (*self.checked(x, fidelity), None)
        return parse_returned(self._called(*query), self.value, OBJECTIVE, self.space.objectives).plain

    def attempt(self, x: Sequence[float], fidelity: int, trial: Trial) -> Observation:
        """What the objective has reported after its last epoch, else what it returns, or without ``epochs=`` where that
        is nothing the last value that it has reported. With limits or several objectives what it returns comes first;
        without ``epochs=`` a mapping does too, which says more than a number.

        It is not called where it had reported its last epoch before it was killed.
        """
        if (found := self._reported(trial)) is None:
            returned = self._called(*self.checked(x, fidelity), trial)
            told = isinstance(returned, Mapping | Observation) and not self.space.epochs  # more than a number
            found = returned if told or (last := self._reported(trial)) is None else last
        if found is None and trial.cut_short is not None:
            return Observation(math.nan)  # nobody asks for it: it was stopped
        if found is None and self.space.epochs and (trial.curve or fidelity < self.space.target):
            missed = f"not called in epoch {trial.span.end:g}" if trial.curve and trial.span else "called in no epoch"
            raise SettingError(OBJECTIVE, None, f"a number, where trial.report(value) was {missed} of trial.epochs()")
        if found is None and trial.curve:
            found = trial.curve[max(trial.curve)]
        elif found is None and self.space.continues and fidelity < self.space.target:
            wanted = f"a number at every fidelity, also at {self.space.fidelity_name(fidelity)}: decisions need it"
            raise SettingError(OBJECTIVE, None, wanted)
        return parse_returned(found, self.value, OBJECTIVE, self.space.objectives).to_maximize(self.maximize)

    def _reported(self, trial: Trial) -> float | None:
        return None if self.space.limits or self.space.objectives else trial.end_value

    def _called(self, x: tuple[float, ...], fidelity: int, trial: Trial | None) -> Any:
        """What the objective returns, with the objectives that are known."""
        own, named = self.space.fidelity_value(fidelity), self.space.named(x)
        call = partial(self._convention.call, self._function(), named, **own, fidelity=fidelity, trial=trial)
        if not (known := known_values(self.space.objectives, dict(named))):
            return call()
        found = call()
        if isinstance(found, Observation):
            return replace(found, outcomes={**found.outcomes, **known})
        return {**found, **known} if isinstance(found, Mapping) else found

    @property
    def name(self) -> str:
        return getattr(self.objective, "__name__", type(self.objective).__name__)


class UserProblem(FunctionProblem):
    """An objective of the user's, evaluated in the user's own units.

    Args:
        objective: A function ``f(rate, width, epochs)`` of the parameters by name (integers as ``int``) and the
            fidelity, by its own name or as ``fidelity``, ``0`` the cheapest; or ``f(parameters, fidelity)`` with
            a ``{name: value}`` mapping: its signature decides
            (:func:`~mfbo_torch.problems.user.call_convention.convention`). It returns a number,
            or ``{"value": 0.9, "standard_error": 0.1}`` where the standard deviation of its noise is known (0: it has
            none). Or where to import it from,
            ``"package.module:function"``, looked for in the current folder first, as ``python -m`` does.
            Only with an import path, or a function at the top of a module, can the problem be sent to other
            processes. A :class:`~mfbo_torch.problems.Program` is one too.
        parameters: ``{name: {lower, upper, log, integer}}``, the last two ``False`` unless set, or ``{name: {choices,
            ordered}}``, ``[true, false]`` for a boolean; and ``when: {other: value}`` for one that is there only then.
            The objective gets labels, and not what is not there. Also ``{name: [choice, ...]}``, and in Python
            ``{name: (lower, upper)}``.
        costs: One increasing cost a fidelity, the target last; or ``"measured"``, the seconds
            each query takes, guessed as ``1, 10, 100, ...`` until one has run. Where ``fidelities`` are numbers that
            increase, these are the costs if not given, and the guesses.
        maximize: Whether larger values are better.
        num_fidelities: Number of fidelities, needed where the costs are measured.
        candidates: The only designs to evaluate, each a list of numbers in the order of ``parameters``; by
            default everything between the bounds.
        constraints: What must hold: linear inequalities of designs, ``["width + 2 depth <= 100"]``; bounds on what the
            objective returns beside its value, ``{"latency": "<= 20"}``; or both, one after another in a list. With
            bounds it returns a mapping, ``{"value": 0.9, "latency": 12.0}``, each a number, or a pair of it and its
            standard error, and the best observation is the best one that keeps them.
        value: The key of the value to be optimised in such a mapping.
        objectives: Names of several objectives, ``["loss", "latency"]``, or each with its direction, ``{"loss":
            "minimize", "accuracy": "maximize"}``; those without one go by ``maximize``. The objective returns a mapping
            of them to numbers; ``constraints`` may bound them as well.
        reference: The worst value of interest of each, ``{"loss": 0.5}``.
        fidelities: What the fidelities are called and their values, ``{"epochs": [3, 9, 27]}``, the target last; or
            any number of an interval, ``{"share": {"lower": 0.05, "upper": 1.0}}``, with ``costs`` of its two ends.
        continues: Whether an evaluation goes on from the one at the highest fidelity below at the same design and costs
            what is missing. The objective takes a ``trial`` (:class:`~mfbo_torch.problems.trial.Trial`), whose
            ``folder`` keeps its checkpoints and whose ``below`` says what is there.
        epochs: How many epochs a training has whose value after each of them is observed, see
            :class:`~mfbo_torch.space.Space`; in the place of costs and fidelities.
        command: A program instead of a function, ``["./simulate", "--angle", "{angle}", "--mesh", "{fidelity}"]``,
            see :class:`~mfbo_torch.problems.Program`; every parameter must have its place.
        result: Where its value is, as there.
        timeout: Seconds that it may take.
        environment: Variables for it.
        files: Files for it.

    Raises:
        SettingError: The objective cannot be imported, or cannot be called with these parameters and this fidelity, the
            program is not there or not given a parameter, or a setting is unknown, missing or out of range.
    """

    def __init__(
        self,
        objective: str | Callable[..., Returned] | None = None,
        parameters: dict[str, Any] | None = None,
        costs: list[float] | Literal["measured"] | None = None,
        maximize: bool = True,
        *,
        num_fidelities: int | None = None,
        candidates: list[list[Any]] | None = None,
        constraints: list[str | dict[str, str]] | dict[str, str] | None = None,
        value: str = VALUE,
        objectives: list[str] | dict[str, str] | None = None,
        reference: dict[str, float] | None = None,
        fidelities: dict[str, Any] | None = None,
        continues: bool | None = None,
        epochs: int | None = None,
        command: list[str] | None = None,
        result: str | dict[str, str] = LAST_LINE,
        timeout: float | None = None,
        environment: dict[str, str] | None = None,
        files: dict[str, str] | None = None,
    ) -> None:
        if not isinstance(parameters, Mapping):
            raise SettingError("parameters", parameters, "a mapping of names to lower and upper, or to choices")
        named = None if fidelities is None else named_fidelities(fidelities, [*parameters], costs)
        if named is None and epochs is not None:
            named = epoch_rungs(epochs)
        searched = tuple(
            from_settings(name, form, f"parameters.{name}") if isinstance(form, Mapping) else parameter_of(name, form)
            for name, form in parameters.items()
        )
        if candidates is not None and not len(candidates):
            raise SettingError("candidates", candidates, "at least one design, or left out")
        linear, limits = kinds_of(constraints)
        wanted = () if objectives is None else objectives_of(objectives, None, reference, maximize=maximize)
        if objectives is None and reference is not None:
            raise SettingError("reference", reference, "given with objectives, the names that it is about")
        if len(wanted) == 1:
            maximize, value, wanted = wanted[0].maximize, wanted[0].name, ()
        space = Space(
            searched,
            _costs(costs, num_fidelities, named),
            measured=costs == "measured",
            candidates=_places(candidates or [], searched),
            constraints=linear,
            limits=limits,
            objectives=wanted,
            fidelities=named,
            continues=one_of("continues", continues, (True, False, None)),
            epochs=epochs,
        )
        if not wanted and value in (limit.name for limit in limits):
            raise SettingError("constraints", value, "bounds on other numbers than the value to be optimised")
        given = {"result": result, "timeout": timeout, "environment": environment, "files": files}
        self.folder = os.getcwd()
        super().__init__(_objective(objective, command, given), space, maximize, value)

    @property
    def name(self) -> str:
        return type(self).__name__

    def _takes_trial(self) -> bool:
        function = self._function()
        if not isinstance(function, Program):
            return super()._takes_trial()
        self._check(function)
        return function.keeps

    def _check(self, program: Program) -> None:
        """Check that a command has a place for every parameter and the fidelity, and for nothing else."""
        design = {p.name: p.decode(p.lower) for p in self.space.parameters}
        for name in (START, FIDELITY, FOLDER):
            if name in design:
                raise SettingError("parameters", name, "another name, this one is taken where a program is run")
        own = self.space.fidelity_value(0)
        needed = [*design, *(["|".join([*own, FIDELITY])] if self.space.num_fidelities > 1 else [])]
        samples = {**design, **own, FIDELITY: 0, FOLDER: ""}
        program.check(samples, needed)
        program.check({**samples, **{p.name: "" for p in self.space.parameters if p.when}}, needed)

    def _function(self) -> Callable[..., Returned]:
        if isinstance(self.objective, str):
            return import_function(self.objective, self.folder)
        if not callable(self.objective):
            wanted = 'a function or "package.module:function", or left out where command is given'
            raise SettingError("objective", self.objective, wanted)
        return self.objective

    def _called(self, x: tuple[float, ...], fidelity: int, trial: Trial | None) -> Any:
        function = self._function()
        if isinstance(function, Program):  # every place is filled, with nothing for what is not there
            named = self.space.named(x)
            filled: dict[str, Any] = {p.name: named.get(p.name, "") for p in self.space.parameters}
            filled |= self.space.fidelity_value(fidelity)
            return function(filled, fidelity, None if trial is None else trial.folder)
        return super()._called(x, fidelity, trial)


def _objective(objective: Any, command: list[str] | None, given: dict[str, Any]) -> Any:
    """The objective, or the program that a command makes."""
    if command is None:
        for name, value in given.items():
            if value not in (None, LAST_LINE):
                raise SettingError(name, value, "left out, or given with command")
        return objective
    if objective is not None:
        raise SettingError("objective", objective, "left out where command is given")
    return Program(command, **given)


def import_function(path: str, folder: str) -> Callable[..., Returned]:
    """The function at ``"package.module:function"``, ``folder`` being on the import path; a ``SettingError`` where
    there is none."""
    module_name, _, attribute = path.partition(":")
    if not module_name.replace(".", "_").isidentifier() or not attribute.isidentifier():
        raise SettingError("objective", path, 'like "package.module:function"')
    if module_name.endswith(".py"):
        raise SettingError("objective", path, f'a module, not a file: "{module_name.removesuffix(".py")}:{attribute}"')
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
        hint = did_you_mean(attribute, [name for name, value in vars(module).items() if callable(value)])
        raise SettingError("objective", path, f"the name of a function in {place} ({attribute} is {found}){hint}")
    return function


def first_on_path(folder: str) -> None:
    """Let modules of a folder be found before all others of their name."""
    if sys.path[:1] != [folder]:
        sys.path[:] = [folder, *(other for other in sys.path if other != folder)]


def unavailable(parameters: Mapping[str, Any], fidelity: int, trial: Trial) -> float:
    """Stands in for an objective where results are only read, also for one that goes on from its checkpoints."""
    raise RuntimeError("the objective was not imported")


def _places(rows: Sequence[Sequence[Any]], parameters: Sequence[Parameter]) -> Any:
    """Designs with the places of choices instead of their labels."""
    if not any(p.choices for p in parameters) or any(len(row) != len(parameters) for row in rows):
        return tuple(rows)
    named = [zip(parameters, row, strict=True) for row in rows]
    return tuple(tuple(p.encode(value, f"candidates.{p.name}") for p, value in row) for row in named)


def _costs(
    costs: Sequence[float] | str | None, num_fidelities: int | None, named: Fidelities | None
) -> tuple[float, ...]:
    """The costs, or guesses where they are measured."""
    values = () if named is None else named.values
    if num_fidelities is not None and (values or costs != "measured"):
        size = len(values or costs or ())
        known = "values of fidelities" if values else "costs"
        whole("num_fidelities", num_fidelities, size, size, wanted=f"{size}, the number of {known}")
    proportional = None if named is None else named.costs
    if proportional is not None and costs in (None, "measured"):
        return proportional
    if costs == "measured":
        wanted = "a positive whole number where costs are measured"
        return tuple(10.0**m for m in range(len(values) or whole("num_fidelities", num_fidelities, wanted=wanted)))
    if not isinstance(costs, (list, tuple)):
        raise SettingError("costs", costs, 'a list of one number a fidelity, or "measured"')
    return tuple(costs)

"""Optimisers of other packages, in their own ask and tell, at the same capital.

Each is a function from a :class:`Ledger` and a seed that evaluates through the ledger until it is spent. Their packages
are the extra ``benchmarks``, and are imported when they run.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

from benchmarks.quality.robust.problems import noisy
from mfbo_torch.history import History, Query, Record, payable
from mfbo_torch.loop.evaluation import evaluate
from mfbo_torch.problems import Problem


class Spent(Exception):
    """What is left does not pay for the next evaluation."""


class Ledger:
    """Evaluates a problem while the capital lasts, counted as :func:`mfbo_torch.loop.runner.run` does."""

    def __init__(self, problem: Problem, capital: float) -> None:
        self.problem, self.space, self.capital = problem, problem.space, capital
        self._records: list[Record] = []
        self._spent, self._since = 0.0, time.perf_counter()

    def value(self, x: dict[str, Any], fidelity: int) -> float | None:
        """The value of a design, to be maximised; ``None`` where it fails, :class:`Spent` where too little is left."""
        cost = self.space.costs[fidelity]
        if self._spent + cost > payable(self.capital):
            raise Spent
        seconds = time.perf_counter() - self._since
        mixed, parameters = self.space.mixed, self.space.parameters
        point = self.space.point(x) if mixed else tuple(float(x[parameter.name]) for parameter in parameters)
        number = len(self._records)
        outcome = evaluate(self.problem, point, fidelity, number)
        asked = Record(number, Query(point, fidelity), cost, decision_seconds=seconds)
        seen = outcome.observation
        self._records.append(asked.failed(outcome.reason) if seen is None else asked.observed(seen))
        self._spent += cost
        self._since = time.perf_counter()
        return None if seen is None else seen.value

    def filled(self, method: Callable[[Ledger, int], None], seed: int) -> History:
        """Everything that a method has evaluated when the capital is spent, or until it is interrupted."""
        with suppress(Spent, KeyboardInterrupt):
            method(self, seed)
        return History(self._records)


def _optuna(ledger: Ledger, seed: int, kind: str, several: bool = False) -> None:
    """Trials until the capital is spent: at the target alone or, with a pruner, from the cheapest fidelity up."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    settings = {"deterministic_objective": not noisy(ledger.problem)} if kind == "GPSampler" else {}
    sampler = getattr(optuna.samplers, kind)(seed=seed, **settings)
    steps, pruner = ledger.space.num_fidelities, optuna.pruners.NopPruner()
    if several:
        pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=steps)
    name = f"seed {seed}"  # brackets go by it
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner, study_name=name)
    while True:
        trial = study.ask()
        x: dict[str, Any] = {}
        for p in ledger.space.parameters:
            if any(x.get(other) not in values for other, values in p.when):
                continue  # what it depends on stands before it
            if p.choices:
                x[p.name] = trial.suggest_categorical(p.name, p.choices)
                continue
            suggest = trial.suggest_int if p.integer else trial.suggest_float
            x[p.name] = suggest(p.name, p.lower, p.upper, log=p.log)
        state = optuna.trial.TrialState.COMPLETE
        for fidelity in range(steps) if several else [ledger.space.target]:
            value = ledger.value(x, fidelity)
            if value is None:
                state = optuna.trial.TrialState.FAIL
                break
            trial.report(value, fidelity + 1)
            if fidelity < ledger.space.target and trial.should_prune():
                state = optuna.trial.TrialState.PRUNED
                break
        study.tell(trial, value if state == optuna.trial.TrialState.COMPLETE else None, state=state)


def _smac(ledger: Ledger, seed: int, several: bool) -> None:
    """SMAC3's ask and tell; where there are several fidelities they are Hyperband's budgets 1, 3, 9, ..."""
    from ConfigSpace import ConfigurationSpace
    from smac import BlackBoxFacade, MultiFidelityFacade, Scenario
    from smac.runhistory.dataclasses import TrialValue
    from smac.runhistory.enumerations import StatusType

    space = ConfigurationSpace(seed=seed)
    _configurations(ledger, space)
    most = 3**ledger.space.target
    budgets = {"min_budget": 1, "max_budget": most} if several else {}
    trials = math.ceil(ledger.capital / ledger.space.costs[0 if several else -1])
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(space, output_directory=folder, deterministic=True, n_trials=trials, seed=seed, **budgets)
        facade = MultiFidelityFacade if several else BlackBoxFacade
        settings = {"intensifier": facade.get_intensifier(scenario, eta=3)} if several else {}
        unused = (lambda config, seed, budget: 0.0) if several else (lambda config, seed: 0.0)
        smac = facade(scenario, unused, overwrite=True, logging_level=False, **settings)
        worst = 0.0
        while True:
            info = smac.ask()
            fidelity = round(math.log(info.budget, 3)) if several else ledger.space.target
            value = ledger.value(_labelled(ledger, dict(info.config)), fidelity)
            cost = worst if value is None else -value  # it cannot fit an infinite one
            worst = max(worst, cost)
            status = StatusType.CRASHED if value is None else StatusType.SUCCESS
            smac.tell(info, TrialValue(cost=cost, status=status), save=False)


def _configurations(ledger: Ledger, space: Any) -> None:
    """Parameters and their conditions, choices by their place, as ConfigSpace has no ``None`` among them."""
    from ConfigSpace import AndConjunction, Categorical, Float, InCondition, Integer

    for p in ledger.space.parameters:
        if p.choices:
            space.add(Categorical(p.name, range(len(p.choices))))
        else:
            space.add((Integer if p.integer else Float)(p.name, (p.lower, p.upper), log=p.log))
    places = {p.name: {choice: k for k, choice in enumerate(p.choices or ())} for p in ledger.space.parameters}
    for p in ledger.space.parameters:
        when = [
            InCondition(space[p.name], space[other], [places[other].get(v, v) for v in values])
            for other, values in p.when
        ]
        if when:
            space.add(when[0] if len(when) == 1 else AndConjunction(*when))


def _labelled(ledger: Ledger, found: dict[str, Any]) -> dict[str, Any]:
    choices = {p.name: p.choices for p in ledger.space.parameters if p.choices}
    return {name: choices[name][value] if name in choices else value for name, value in found.items()}


PEERS: dict[str, Callable[[Ledger, int], None]] = {
    "OptunaTPE": partial(_optuna, kind="TPESampler"),
    "OptunaGP": partial(_optuna, kind="GPSampler"),
    "OptunaHyperband": partial(_optuna, kind="TPESampler", several=True),
    "SMACMultiFidelity": partial(_smac, several=True),
    "SMACBlackBox": partial(_smac, several=False),
}
"""At the target alone, or at several fidelities: Optuna's ``HyperbandPruner`` with a step a fidelity, SMAC3's
``MultiFidelityFacade`` (random forest and Hyperband; its ``BlackBoxFacade`` is a Gaussian process with expected
improvement)."""


def missing(method: str) -> str | None:
    """The package that a method needs and that is not there."""
    package = next((package for package in ("optuna", "smac") if method.lower().startswith(package)), None)
    return package if package and find_spec(package) is None else None


def installed(methods: Iterable[str]) -> list[str]:
    """The methods whose packages are there; what the others lack is printed."""
    lacking = {method: missing(method) for method in methods}
    for method, package in lacking.items():
        if package:
            print(f"{method} is skipped: {package} is not installed")
    return [method for method, package in lacking.items() if not package]

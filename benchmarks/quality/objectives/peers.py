"""Optimisers of several objectives of other packages, at the same capital.

Each evaluates through a :class:`Ledger` until that is spent. BoTorch's get the problem's reference point; Optuna's need
none, and the default of this package finds its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from botorch.acquisition import FixedFeatureAcquisitionFunction
from botorch.acquisition.cost_aware import InverseCostWeightedUtility
from botorch.acquisition.multi_objective import (
    MOMF,
    qLogNoisyExpectedHypervolumeImprovement,
    qMultiFidelityHypervolumeKnowledgeGradient,
)
from botorch.acquisition.multi_objective.hypervolume_knowledge_gradient import _get_hv_value_function
from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
from botorch.acquisition.utils import project_to_target_fidelity
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP, SingleTaskMultiFidelityGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf, optimize_acqf_mixed
from botorch.utils.multi_objective.box_decompositions import FastNondominatedPartitioning
from gpytorch.mlls import SumMarginalLogLikelihood
from torch import Tensor

from mfbo_torch.history import History, Query, Record, payable
from mfbo_torch.loop.evaluation import evaluate
from mfbo_torch.metrics.front import objective_values
from mfbo_torch.problems import Problem
from mfbo_torch.strategies.multi.botorch_base import FidelityCosts

PARETO = 6
"""Number of designs of the front that MF-HVKG looks ahead to."""


class Spent(Exception):
    """What is left does not pay for the next evaluation."""


class Ledger:
    """Evaluates a problem while the capital lasts."""

    def __init__(self, problem: Problem, capital: float) -> None:
        self.problem, self.space, self.capital = problem, problem.space, capital
        self.reference: Tensor = -problem.reference  # type: ignore[attr-defined]
        self.costs = torch.tensor(self.space.costs, dtype=torch.double)
        self.records: list[Record] = []
        self.spent = 0.0

    def values(self, u: Tensor, fidelity: int) -> Tensor:
        """The values of a design of the unit cube, to be maximised, and the slacks of its limits, ``K + c``;
        :class:`Spent` where too little is left."""
        cost = self.space.costs[fidelity]
        if self.spent + cost > payable(self.capital):
            raise Spent
        x = tuple(self.space.from_unit(u.reshape(-1).double()).tolist())
        found = evaluate(self.problem, x, fidelity, len(self.records))
        assert found.observation is not None, found.reason
        self.records.append(Record(len(self.records), Query(x, fidelity), cost).observed(found.observation))
        self.spent += cost
        slacks = [limit.bound - self.records[-1].outcomes[limit.name].value for limit in self.space.limits]
        slacks = [slack if limit.upper else -slack for slack, limit in zip(slacks, self.space.limits, strict=True)]
        values = objective_values(self.records[-1:], self.space.objectives)[0]
        return torch.cat([values, torch.tensor(slacks, dtype=torch.double)])

    def filled(self, method: Callable[[Ledger, int], None], seed: int) -> History:
        """Everything that a method has evaluated when the capital is spent, or until it is interrupted."""
        with suppress(Spent, KeyboardInterrupt), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            method(self, seed)
        return History(self.records)

    def sobol(self, n: int, seed: int) -> Tensor:
        """Designs that fill the cube."""
        engine = torch.quasirandom.SobolEngine(self.space.dim, scramble=True, seed=seed)
        return engine.draw(n, dtype=torch.double)

    @property
    def first(self) -> int:
        """Number of first designs."""
        return min(2 * (self.space.dim + 1), int(self.capital / self.space.costs[-1] / 2))


def _sobol(ledger: Ledger, seed: int) -> None:
    for u in ledger.sobol(4096, seed):
        ledger.values(u, ledger.space.target)


def _fitted(X: Tensor, Y: Tensor, fidelity: bool = False) -> ModelListGP:
    kind: Any = partial(SingleTaskMultiFidelityGP, data_fidelities=[X.shape[-1] - 1]) if fidelity else SingleTaskGP
    outputs = [kind(X, Y[:, k : k + 1], outcome_transform=Standardize(1)) for k in range(Y.shape[-1])]
    model = ModelListGP(*outputs)
    fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
    return model


def _at_target(ledger: Ledger, seed: int) -> None:
    """BoTorch's ``qLogNoisyExpectedHypervolumeImprovement`` at the target."""
    torch.manual_seed(seed)
    target, X = ledger.space.target, ledger.sobol(ledger.first, seed)
    Y = torch.stack([ledger.values(u, target) for u in X])
    while True:
        u = improving(ledger, X, Y)
        X, Y = torch.cat([X, u]), torch.cat([Y, ledger.values(u, target)[None]])


def improving(ledger: Ledger, X: Tensor, Y: Tensor) -> Tensor:
    """The next design, ``1 x d``, by models of the target alone."""
    K, outputs = len(ledger.reference), Y.shape[-1]
    improvement = qLogNoisyExpectedHypervolumeImprovement(
        _fitted(X, Y),
        ledger.reference,
        X,
        prune_baseline=True,
        objective=IdentityMCMultiOutputObjective([*range(K)], num_outcomes=outputs),
        constraints=[partial(_broken, output=k) for k in range(K, outputs)] or None,
    )
    u, _ = optimize_acqf(improvement, _cube(ledger.space.dim), 1, 5, 128, options={"maxiter": 100})
    return u.detach()


def _broken(samples: Tensor, output: int) -> Tensor:
    return -samples[..., output]


def _cube(dim: int) -> Tensor:
    return torch.tensor([[0.0], [1.0]]).double().expand(2, dim)


def _begun(ledger: Ledger, seed: int) -> tuple[Tensor, Tensor]:
    """Designs with the fidelity, from 0 to 1, in the last column, a third of the capital of the first designs cheap."""
    torch.manual_seed(seed)
    n, target = max(2, ledger.first * 2 // 3), ledger.space.target
    counts = [*[max(n, 5 * n // target)] * target, n]
    pairs = [(u, m) for m, count in enumerate(counts) for u in ledger.sobol(count, seed + m)]
    X = torch.stack([torch.cat([u, torch.tensor([m / target]).double()]) for u, m in pairs])
    return X, torch.stack([ledger.values(u, m) for u, m in pairs])


def _several(ledger: Ledger, seed: int, method: str) -> None:
    """Designs and fidelities until the capital is spent."""
    X, Y = _begun(ledger, seed)
    while True:
        u = at_any_fidelity(method, ledger, X, Y)
        level = round(u[0, -1].item() * ledger.space.target)
        X, Y = torch.cat([X, u]), torch.cat([Y, ledger.values(u[0, :-1], level)[None]])


def at_any_fidelity(method: str, ledger: Ledger, X: Tensor, Y: Tensor) -> Tensor:
    """The next design and its fidelity, ``1 x (d + 1)``."""
    acquisition, options = SEVERAL[method]
    d = ledger.space.dim
    levels = [{d: m / ledger.space.target} for m in range(ledger.space.num_fidelities)]
    u, _ = optimize_acqf_mixed(acquisition(ledger, X, Y), _cube(d + 1), 1, fixed_features_list=levels, **options)
    return u.detach()


def _momf(ledger: Ledger, X: Tensor, Y: Tensor) -> MOMF:
    """The fidelity is one more objective, as in BoTorch's tutorial."""
    trusted = torch.cat([Y, X[:, -1:]], -1)
    reference = torch.cat([ledger.reference, torch.zeros(1).double()])
    boxes = FastNondominatedPartitioning(reference, trusted)
    cost = FidelityCosts(ledger.costs / ledger.costs[-1])
    return MOMF(_fitted(X, trusted), reference, boxes, cost_call=cost)


def _knowledge_gradient(ledger: Ledger, X: Tensor, Y: Tensor) -> qMultiFidelityHypervolumeKnowledgeGradient:
    d = X.shape[-1] - 1
    model, worst = _fitted(X, Y, True), ledger.reference
    now = FixedFeatureAcquisitionFunction(
        _get_hv_value_function(model, worst, use_posterior_mean=True), d + 1, [d], [1.0]
    )
    _, value = optimize_acqf(now, _cube(d), PARETO, 1, 64, options={"maxiter": 30})
    return qMultiFidelityHypervolumeKnowledgeGradient(
        model,
        worst,
        target_fidelities={d: 1.0},
        num_fantasies=4,
        num_pareto=PARETO,
        current_value=value.detach(),
        cost_aware_utility=InverseCostWeightedUtility(FidelityCosts(ledger.costs)),
        project=partial(project_to_target_fidelity, target_fidelities={d: 1.0}, d=d + 1),
    )


def _optuna(ledger: Ledger, seed: int, kind: str, **settings: Any) -> None:
    """Trials at the target."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    K = len(ledger.space.objectives)
    if ledger.space.limits:
        settings["constraints_func"] = _violations
    sampler = getattr(optuna.samplers, kind)(seed=seed, **settings)
    study = optuna.create_study(directions=["maximize"] * K, sampler=sampler)
    while True:
        trial = study.ask()
        u = [trial.suggest_float(p.name, 0.0, 1.0) for p in ledger.space.parameters]
        found = ledger.values(torch.tensor(u), ledger.space.target)
        trial.set_user_attr("violations", (-found[K:]).tolist())
        study.tell(trial, found[:K].tolist())


def _violations(trial: Any) -> Any:
    return trial.user_attrs["violations"]


SEVERAL: dict[str, tuple[Callable[[Ledger, Tensor, Tensor], Any], dict[str, Any]]] = {
    "MOMF": (_momf, {"num_restarts": 3, "raw_samples": 64, "options": {"maxiter": 50}}),
    "MF-HVKG": (_knowledge_gradient, {"num_restarts": 2, "raw_samples": 16, "options": {"maxiter": 30}}),
}
PEERS: dict[str, Callable[[Ledger, int], None]] = {
    "Sobol": _sobol,
    "NSGA-II": partial(_optuna, kind="NSGAIISampler", population_size=8),
    "TPE": partial(_optuna, kind="TPESampler"),
    "OptunaGP": partial(_optuna, kind="GPSampler", deterministic_objective=True),
    "qLogNEHVI": _at_target,
    "MOMF": partial(_several, method="MOMF"),
    "MF-HVKG": partial(_several, method="MF-HVKG"),
}
"""BoTorch's three, with the settings of its tutorials where time allows; Optuna's three; random designs."""

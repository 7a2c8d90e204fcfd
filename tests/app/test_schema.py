"""What is no whole number, no number or none of a few words is refused wherever it is given, by name."""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from refusals import refused
from toy import Hill, Walk

from mfbo_torch import confidence, models, problems, strategies
from mfbo_torch.confidence.concentration import SubGaussian, anytime_width
from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History
from mfbo_torch.loop import executors
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.models import EmpiricalConditional, GaussianConditional, PolicyConditional
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.indirect import IndirectSpace, Window
from mfbo_torch.utils.init_signature import settings_of

WRONG: dict[str, tuple[Any, ...]] = {
    "whole": (2.5, "10", True, math.nan, None, -1, [1]),
    "number": ("10", True, math.nan, math.inf, None, [1.0, 2.0], 1j),
    "word": ("nothing", 1, True, None, ["gaussian"]),
    "flag": ("yes", 1, 0, None, [True]),
    "list": (3, "ab", None, [], [True], ["10"], [math.nan], [None]),
}


class Row(NamedTuple):
    """What takes settings, those that it needs, what each of them is, and how the error names a setting."""

    make: Callable[..., Any]
    given: dict[str, Any]
    kinds: str  # a key of WRONG for each setting, with ? behind it where it may be None
    named: str = "{}"


MODELLED = "refit_every:whole dtype:word"
ONE = MODELLED + " initial:whole?"
BAND = ONE + " beta:number? delta:number a:number b:number r:number scale:number norm:number"
SEVERAL = MODELLED + " initial_capital:number?"
SEARCHED = SEVERAL + " num_restarts:whole raw_samples:whole max_iterations:whole"
AVERAGES = MODELLED + " initial:whole"
TOLD = AVERAGES + " num_max_value_samples:whole sampler:word form:word"
STRATEGIES: dict[type, str] = {
    strategies.RandomSearch: "",
    strategies.Direct: "eps:number",
    strategies.GPUCB: BAND,
    strategies.ExpectedImprovement: ONE,
    strategies.ProbabilityOfImprovement: ONE,
    strategies.GPBUCB: BAND + " initialisation:whole gain:number",
    strategies.NaiveRepeat: BAND,
    strategies.NaiveTop: BAND,
    strategies.QUpperConfidenceBound: BAND + " samples:whole",
    strategies.QLogExpectedImprovement: ONE + " samples:whole",
    strategies.SimulationMatching: BAND + " policy:word batch_size:whole num_simulations:whole num_candidates:whole",
    strategies.FreezeThaw: "",
    strategies.MFNaive: BAND + " explore:word limit:whole",
    strategies.MFGPUCB: SEVERAL + " link:word beta:number? hedge:flag strict:flag",
    strategies.BOCA: SEVERAL + " beta:number?",
    strategies.MFSKO: SEVERAL,
    strategies.MFEHVI: SEVERAL,
    strategies.MFGIBBON: SEARCHED + " num_candidates:whole",
    strategies.MFKnowledgeGradient: SEARCHED + " num_fantasies:whole",
    strategies.MFUCB: "rho:number rewards:word scale:number?",
    strategies.UCB: "rho:number rewards:word scale:number?",
    strategies.SuccessiveElimination: "delta:number rewards:word",
    strategies.CMES: TOLD + " resolutions:word strict:flag",
    strategies.CMETS: TOLD + " children:whole? strict:flag",
    strategies.ShrinkingWindow: AVERAGES + " beta:number? delta:number",
    strategies.QueryUCB: AVERAGES + " beta:number? delta:number scale:number",
    strategies.QueryEI: AVERAGES,
    strategies.QueryMES: AVERAGES,
}


def told(**settings: Any) -> None:
    opt = Optimizer(Walk(space=Hill().space))
    opt.ask()
    opt.tell(**{"id": 0, "value": 1.0, **settings})


def asked(**settings: Any) -> None:
    Optimizer(Walk(space=Hill().space)).ask(**settings)


def streamed(trial: Any) -> None:
    problems.Currin().trial = trial


def started(executor: Any = "processes", **settings: Any) -> None:
    executors.start(executor, **settings)


K = torch.eye(3).double()
A = Parameter("a", 0.0, 1.0)
INDIRECT = {"parameters": (A,), "costs": (1.0,), "inputs": [[0.0], [1.0]], "feedback": Window([0.1])}
SAMPLES = {"X": torch.rand(4, 1), "A": torch.rand(4, 1)}
USER = {"objective": lambda parameters, fidelity: 0.0, "parameters": {"x": {"lower": 0, "upper": 1}}}
THEOREM = "t:whole delta:number"
NOISY, BATCH = {"covariance": K, "noise": 0.1}, {"batch": 3, "dim": 2}

TABLE = {
    # confidence
    "practical_beta": Row(confidence.practical_beta, {"t": 1, "dim": 2}, "t:whole dim:whole"),
    "mf_gp_ucb_beta": Row(
        confidence.mf_gp_ucb_beta,
        {"t": 1, "dim": 2, "num_fidelities": 2},
        THEOREM + " dim:whole num_fidelities:whole a:number b:number r:number",
    ),
    "finite_alpha": Row(confidence.finite_alpha, {"t": 1, "size": 3}, THEOREM + " size:whole"),
    "box_alpha": Row(confidence.box_alpha, {"t": 1, "dim": 2}, THEOREM + " dim:whole a:number b:number side:number"),
    "rkhs_alpha": Row(confidence.rkhs_alpha, {"t": 1, "gain": 1.0}, THEOREM + " gain:number norm:number"),
    "gp_bucb_beta": Row(confidence.gp_bucb_beta, {"alpha": 1.0, "gain": 1.0}, "alpha:number gain:number"),
    "information_gain": Row(confidence.information_gain, {"covariance": K}, "noise:number"),
    "uncertainty_sampling": Row(confidence.uncertainty_sampling, {**NOISY, "size": 2}, "noise:number size:whole"),
    "batch_gain_bound": Row(confidence.batch_gain_bound, {**NOISY, "batch": 2}, "noise:number batch:whole"),
    "linear_initialization": Row(confidence.linear_initialization, BATCH, "batch:whole dim:whole eta:number"),
    "matern_initialization": Row(
        confidence.matern_initialization, {"batch": 3}, "batch:whole nu:number epsilon:number"
    ),
    "rbf_initialization": Row(confidence.rbf_initialization, BATCH, "batch:whole dim:whole eta:number"),
    # concentration
    "SubGaussian": Row(SubGaussian, {}, "scale:number"),
    "anytime_width": Row(
        anytime_width,
        {"plays": torch.ones(2), "cells": 2, "tail": SubGaussian(), "delta": 0.1},
        "cells:whole delta:number",
    ),
    # spaces
    "Parameter": Row(Parameter, {"name": "a", "lower": 0.0, "upper": 1.0}, "lower:number upper:number", "a.{}"),
    "Space": Row(Space, {"parameters": (A,), "costs": (1.0,)}, "costs:list zeta:list?"),
    "IndirectSpace": Row(IndirectSpace, INDIRECT, "costs:list noise_std:list?"),
    "Window": Row(Window, {"widths": [0.1]}, "widths:list shape:word"),
    "Prior": Row(Prior, {}, "kernel:word lengthscale:number outputscale:number noise:number mean:number", "prior.{}"),
    # conditionals
    "EmpiricalConditional": Row(EmpiricalConditional, SAMPLES, "regularization:number?"),
    "GaussianConditional": Row(GaussianConditional, {"width": 0.1}, "width:number num_samples:whole? seed:whole"),
    "UniformConditional": Row(models.UniformConditional, {"width": 0.1}, "width:number num_samples:whole? seed:whole"),
    "PolicyConditional": Row(PolicyConditional, {"policy": torch.softmax}, "arms:whole"),
    # problems
    "Problem.trial": Row(streamed, {}, "trial:whole?"),
    "Problem.evaluate": Row(problems.Currin().evaluate, {"x": (0.5, 0.5), "fidelity": 0}, "fidelity:whole x:list"),
    "Currin": Row(problems.Currin, {}, "noise_std:number? costs:list?"),
    "Electrodes": Row(problems.Electrodes, {}, "seed:whole noise_std:number"),
    "GPSample": Row(problems.GPSample, {"sizes": [5]}, "seed:whole sizes:list"),
    "SVM": Row(problems.SVM, {}, "data:word sizes:list? seed:whole"),
    "SALSA": Row(problems.SALSA, {}, "seed:whole"),
    "MultiFidelityBandit": Row(
        problems.MultiFidelityBandit,
        {"means": [[0.5, 0.4], [0.1, 0.3]], "zeta": [0.2, 0.0], "costs": [1, 10]},
        "zeta:list costs:list rewards:word scale:number? trial:whole?",
    ),
    "SyntheticBandit": Row(problems.SyntheticBandit, {}, "number:whole seed:whole trial:whole?"),
    "ClassifierBandit": Row(problems.ClassifierBandit, {}, "shares:list zeta:list? trial:whole?"),
    "IndirectBranin": Row(
        problems.IndirectBranin,
        {"num_samples": 5},
        "transformation:word resolutions:whole grid:whole? noise:number num_samples:whole seed:whole",
    ),
    "IndirectBandit": Row(
        problems.IndirectBandit, {}, "num_arms:whole num_agents:whole num_samples:whole noise:number seed:whole"
    ),
    "DiseaseMap": Row(problems.DiseaseMap, {"side": 5}, "side:whole num_units:whole noise:number seed:whole"),
    "Satellite": Row(problems.Satellite, {}, "footprints:list noise:number seed:whole"),
    "ShiftedPeak": Row(problems.ShiftedPeak, {}, "widths:list noise:number"),
    "swiss_roll": Row(problems.swiss_roll, {}, "num_points:whole num_slices:whole noise:number seed:whole"),
    "UserProblem": Row(problems.UserProblem, {**USER, "costs": [1.0]}, "costs:list num_fidelities:whole?"),
    "UserProblem, measured": Row(problems.UserProblem, {**USER, "costs": "measured"}, "num_fidelities:whole"),
    # strategies
    **{kind.__name__: Row(kind, {}, f"seed:whole {kinds}") for kind, kinds in STRATEGIES.items()},
    "Strategy.ask": Row(lambda n: strategies.RandomSearch(space=Hill().space).ask(History(), n), {}, "n:whole"),
    # ask and tell, and workers
    "Optimizer.ask": Row(asked, {}, "capital:number n:whole"),
    "Optimizer.tell": Row(told, {}, "id:whole evaluation_seconds:number cost:number?"),
    "start": Row(started, {}, "executor:word workers:whole? timeout:number?"),
}


def cases() -> list[Any]:
    return [
        pytest.param(row, setting, value, id=f"{name}({setting}={value!r})")
        for name, row in TABLE.items()
        for setting, kind in (each.split(":") for each in row.kinds.split())
        for value in WRONG[kind.removesuffix("?")]
        if not (value is None and kind.endswith("?")) and not allowed(name, setting, value)
    ]


def allowed(name: str, setting: str, value: Any) -> bool:
    """Where one of the wrong values is right."""
    if value == math.inf:
        return (name, setting) == ("Optimizer.ask", "capital")
    if isinstance(value, list) and value == [1.0, 2.0]:
        return setting in ("lengthscale", "width")
    return False


@pytest.mark.parametrize(("row", "setting", "value"), cases())
def test_what_cannot_be_is_named(row, setting, value):
    refused(rf"^{re.escape(row.named.format(setting))} = ", row.make, **{**row.given, setting: value})


def test_every_strategy_has_its_settings_in_the_table():
    """But for what is no number and no word: spaces, devices, priors, functions and flags."""
    other = {"space", "capital", "device", "prior", "lazy", "locally_biased", "zeta", "gamma"}
    for kind in [getattr(strategies, name) for name in strategies.__all__ if name != "Strategy"]:
        missing = set(settings_of(kind)) - other - {"seed", *re.findall(r"\w+(?=:)", STRATEGIES[kind])}
        assert missing <= ({"scale"} if kind is strategies.SuccessiveElimination else set()), kind


@pytest.mark.parametrize("count", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_of_numpy_are_whole_numbers(count):
    assert confidence.finite_alpha(count, count) == confidence.finite_alpha(3, 3)
    assert problems.SyntheticBandit(count).number == 3
    assert len(problems.GPSample([count]).space.candidates) == 3

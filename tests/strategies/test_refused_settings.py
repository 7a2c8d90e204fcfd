"""Settings that no strategy can work with, each refused by name: where it is made, or before anything is queried."""

import math

import pytest
import torch
from refusals import refused
from strategy_table import SPACE, box, step

from mfbo_torch import strategies
from mfbo_torch.confidence.concentration import Tail
from mfbo_torch.confidence.prior import Prior
from mfbo_torch.history import History, Query
from mfbo_torch.problems import IndirectBranin
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import CMES, CMETS, GPBUCB, MFGPUCB, MFUCB, UCB, MFNaive, ShrinkingWindow
from mfbo_torch.utils import init_signature

PRIOR = Prior("matern52", [0.3, 0.5], outputscale=2.0, noise=0.01)
GRID = Space.finite(torch.cartesian_prod(torch.linspace(0, 1, 12), torch.linspace(0, 1, 11)).double(), (1.0,))
BARE = Space((Parameter("arm", 0, 4, integer=True),), (1.0, 3.0, 10.0))
ARMS = Space(BARE.parameters, BARE.costs, zeta=(0.4, 0.15, 0.0))

FITTED = {"refit_every": [0], "dtype": ["int", "float16"], "device": ["nowhere", "meta", None]}
OUT_OF_RANGE = {
    "GPUCB": {"initial": [0], "beta": [-1.0, math.nan], **FITTED},
    "GPBUCB": {"beta": [-1.0, "practice", math.nan], "delta": [1.0], "scale": [0.0], "gain": [-0.1], "initial": [0]},
    "RandomSearch": {"seed": [-1, 2**64]},
    "Direct": {"eps": [-1.0]},
    "NaiveTop": {"beta": [-1.0]},
    "QLogExpectedImprovement": {"samples": [0]},
    "SimulationMatching": {"policy": ["pi"], "batch_size": [0], "num_simulations": [0], "num_candidates": [1.5]},
    "MFNaive": {"explore": ["all"], "limit": [0]},
    "MFGPUCB": {"link": ["chained"], "beta": [-1.0, math.nan, math.inf], "initial_capital": [0.0], **FITTED},
    "MFSKO": {"initial_capital": [0.0]},
    "MFGIBBON": {"num_candidates": [0], "num_restarts": [0]},
    "MFKnowledgeGradient": {"num_fantasies": [0], "max_iterations": [1.5]},
    "CMES": {
        "initial": [0],
        "form": ["exact"],
        "sampler": ["sobol"],
        "num_max_value_samples": [0],
        "resolutions": ["both"],
    },
    "ShrinkingWindow": {"beta": [-1.0]},
    "UCB": {"rho": [0.0], "scale": [-1.0], "rewards": ["poisson"]},
    "SuccessiveElimination": {"delta": [1.0]},
}
ROWS = [
    pytest.param(getattr(strategies, kind), name, value, id=f"{kind}({name}={value!r})")
    for kind, settings in OUT_OF_RANGE.items()
    for name, values in settings.items()
    for value in values
]


@pytest.mark.parametrize(("kind", "name", "value"), ROWS)
def test_a_setting_out_of_its_range(kind, name, value):
    refused(rf"^{name} = {value!r}: must be ", kind, **{name: value})


EVERY = [getattr(strategies, name) for name in strategies.__all__ if name != "Strategy"]
MODELLED = [kind for kind in EVERY if "device" in init_signature.settings_of(kind)]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("kind", MODELLED, ids=lambda kind: kind.__name__)
def test_a_device_that_is_not_here(kind):
    """Before anything is paid for, as in a config."""
    refused(r"^device = 'cuda': must be a device of this machine: .*CUDA", kind, device="cuda")


def asked(strategy, history=None, n=1, **bound):
    return (strategy.bind(**bound) if bound else strategy).ask(history or History(), n)


def known(**settings):
    """MF-GP-UCB as published, on a space of two fidelities."""
    return asked(MFGPUCB(link="independent", initial_capital=2.0, **settings), space=SPACE)


def played(arm, fidelity, value):
    return step(History(), Query((float(arm),), fidelity), ARMS, value)


TOGETHER = [
    *((lambda s=s: MFGPUCB(**s), "independent") for s in ({"zeta": [1.0]}, {"gamma": [1.0]}, {"prior": PRIOR})),
    (lambda: MFGPUCB(strict=True), "independent"),
    *((lambda zeta=zeta: known(zeta=zeta), "zeta") for zeta in ([1.0, 2.0, 0.0], [1.0, 0.5], [-1.0])),
    *((lambda gamma=gamma: known(gamma=gamma), "gamma") for gamma in ([1.0, 1.0], 3.0)),
    (lambda: asked(MFNaive(space=SPACE)), "capital"),
    (lambda: GPBUCB(initial=-1, prior=PRIOR), "initial = -1"),
    (lambda: asked(GPBUCB(prior=PRIOR, space=GRID), n=133), "^n = 133: must be at most 132"),
    (lambda: asked(GPBUCB(prior=Prior(lengthscale=[0.1, 0.2, 0.3]), space=GRID), n=2), r"prior.lengthscale"),
    (lambda: asked(CMES(space=box(2))), "space = 'Space': must be an IndirectSpace for CMES"),
    (lambda: CMETS(children=1), "children = 1: must be a whole number from 2 to 256, or None"),
    (lambda: asked(ShrinkingWindow(space=IndirectBranin(known=True).space)), "a Window around the query itself"),
    (lambda: UCB(rewards="bounded", scale=1.0), "scale = 1.0: must be left out unless"),
    (lambda: UCB(space=Space.box([[0.0], [1.0]], [1, 2])), r"space = \['x1'\]: must be one parameter of whole"),
    *(
        (lambda zeta=zeta: asked(MFUCB(zeta=zeta), space=BARE), "zeta = .*must be 3 numbers that decrease to 0")
        for zeta in (None, (0.1, 0.2, 0.0), (0.2, 0.1, 0.1), (0.1, 0.0))
    ),
    (lambda: Space(BARE.parameters, BARE.costs, zeta="abc"), "zeta = 'abc': must be 3 numbers"),
    (lambda: asked(MFUCB(rewards="bounded"), played(0, 0, 1.5), space=ARMS), "value = 1.5: must be between 0 and 1"),
    (lambda: asked(UCB(), played(7, 0, 1.5), space=ARMS), "arm = 7.0: must be from 0 to 4"),
    (lambda: Tail(lambda e: e, lambda y: 2 * y), "psi = .*must be an increasing function"),
]


@pytest.mark.parametrize(("make", "said"), TOGETHER)
def test_settings_that_do_not_fit_together(make, said):
    refused(said, make)

"""Strategies whose arms are averages, in Ax: they bring a space of their own, which is stored with them."""

import json
from dataclasses import fields, replace

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from ax_problem import COSTS, SPACE, Run, client_of, read_of, sixty_trials
from refusals import refused

from mfbo_torch import CMES, IndirectSpace, Optimizer, Parameter
from mfbo_torch.app.builder import strategy_from_settings, strategy_to_settings
from mfbo_torch.ax import BestInput, StrategyNode, ValueAgainstCost, best_point, multi_fidelity_client
from mfbo_torch.models import UniformConditional
from mfbo_torch.problems.indirect.branin import linear
from mfbo_torch.space.indirect import Policy, Samples, Window
from mfbo_torch.strategies.common.initial_design import sobol

WIDTHS = torch.tensor([0.3, 0.2, 0.1], dtype=torch.double)


def latent(X: torch.Tensor) -> torch.Tensor:
    """What is to be minimised, of ``... x 2`` inputs: a valley with one lowest place, at (0.7, 0.3)."""
    x, y = X.unbind(-1)
    return (y - 0.3 - 0.5 * (x - 0.7) * x).square() + 0.5 * (x - 0.7).square()


def average(parameters: dict) -> float:
    """Of the inputs in a window that narrows from fidelity to fidelity around where a query is in its box."""
    x = torch.tensor([parameters["x"], parameters["rate"]], dtype=torch.double)
    return latent(SPACE.to_unit(x) + 2 * WIDTHS[parameters["fidelity"]] * (sobol(2, 64, 7) - 0.5)).mean().item()


def space() -> IndirectSpace:
    """200 inputs, and 210 examples of what queries average over."""
    U = sobol(2, 210, 3)
    levels = torch.arange(210).remainder(3)
    X = U + WIDTHS[levels].unsqueeze(-1) * (2 * torch.rand(210, 2, generator=torch.Generator().manual_seed(0)) - 1)
    A = torch.cat([SPACE.from_unit(U), levels.unsqueeze(-1)], -1)
    inputs = torch.cat([torch.tensor([[0.7, 0.3]], dtype=torch.double), sobol(2, 199, 5)])
    return IndirectSpace(SPACE.parameters, COSTS, inputs=inputs, feedback=Samples(X, A), noise_std=(0.01,) * 3)


def strategy() -> CMES:
    return CMES(resolutions="all", num_max_value_samples=4, refit_every=4, space=space(), seed=1)


@pytest.mark.slow
def test_averages_in_sqlite(database):
    """Four at a time, out of order, with failures, an abandoned and an attached trial, reloaded every ten."""
    client = client_of(strategy(), storage_config=database)
    run = Run(client, Optimizer(strategy()), lambda client: Client.load_from_database("run", database), average)
    sixty_trials(run, trials=36)
    history = run.optimizer.history
    (card,) = run.client.compute_analyses([ValueAgainstCost()], display=False)
    assert card.df["spent"].iloc[-1] == pytest.approx(history.spent)
    best, advised = best_point(run.client), run.optimizer.recommend()
    assert isinstance(best, BestInput)
    assert (best.x, -best.mean, best.deviation) == (advised.x, advised.mean, advised.deviation)
    assert sum(best.spent) == pytest.approx(history.spent)
    value = latent(torch.tensor(best.x, dtype=torch.double)).item()
    assert abs(value - best.mean) < 3 * best.deviation
    assert value < latent(space().inputs).quantile(0.1)


def policy(A: torch.Tensor) -> torch.Tensor:
    """Probabilities of three inputs."""
    return (A[..., :1] * torch.tensor([1.0, 2.0, 5.0]).to(A)).softmax(-1)


class Odd:
    """Has a ``predict_proba``, as a fitted classifier."""

    def predict_proba(self, A): ...


SQUARE = (Parameter("a", 0.0, 2.0), Parameter("b", 0.1, 3.0))
CHOICES = torch.tensor([[0.1, 0.7], [0.9, 2.3], [1.3, 1.1]], dtype=torch.double)


def choosing(**settings) -> IndirectSpace:
    given = {"inputs": [[0.0], [0.1], [1.0]], "feedback": Policy(policy), "choices": CHOICES, **settings}
    return IndirectSpace(SQUARE, (2.0,), **given)


def choosing_client(space: IndirectSpace, **options) -> Client:
    configs = [RangeParameterConfig(p.name, (p.lower, p.upper), "float") for p in SQUARE]
    return multi_fidelity_client(configs, [2.0], "gain", CMES(space=space), name="run", **options)


def test_choices_are_asked_again(database):
    """Ax gives an arm that is asked again the name it has; its trials remain observations of their own."""
    client, optimizer = choosing_client(choosing(), storage_config=database), Optimizer(CMES(space=choosing()))
    noise = torch.Generator().manual_seed(0)
    for _ in range(3):
        trials, records = client.get_next_trials(max_trials=4), optimizer.ask(4)
        assert [(p["a"], p["b"]) for p in trials.values()] == [r.query.x for r in records]
        client = Client.load_from_database("run", database)
        for index in reversed(trials):
            gain = round(trials[index]["a"] + 0.1 * torch.randn((), generator=noise).item(), 10)
            client.complete_trial(index, {"gain": gain})
            optimizer.tell(index, gain)
    assert len(client._experiment.arms_by_name) == 3
    assert read_of(client).history.done == [replace(r, decision_seconds=0.0) for r in optimizer.history.done]
    assert {r.query.x for r in optimizer.history} == set(map(tuple, CHOICES.tolist()))


@pytest.mark.parametrize(
    "feedback",
    [
        Policy(policy),
        Window([0.1], linear, "uniform"),
        Window([[0.1, 1 / 3]]),
        Samples([[0.1, 1 / 3], [1e-17, 2.0]], [[0.0, 1 / 7], [1.0, 2.0]]),
    ],
)
def test_every_feedback_is_stored_to_the_last_digit(feedback):
    inputs = torch.rand(5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    given = {"inputs": inputs, "feedback": feedback, "choices": CHOICES, "noise_std": (1 / 7,)}
    space = IndirectSpace(SQUARE, (1 / 3,), constraints=(((1.0, 1.0), 1 / 3),), **given)
    stored = json.dumps(object_to_json(StrategyNode(CMES(space=space), [1 / 3])))
    again = object_from_json(json.loads(stored)).strategy.space
    assert again == space
    for name in ("inputs", "choices"):
        assert torch.equal(getattr(again, name), getattr(space, name))
    assert type(again.feedback) is type(feedback)
    for field in fields(feedback):
        had, has = getattr(feedback, field.name), getattr(again.feedback, field.name)
        assert torch.equal(had, has) if isinstance(had, torch.Tensor) else has == had


NAMELESS = Window([0.1], lambda A: A)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feedback": NAMELESS}, r"CMES\.space\.feedback\.location = '\w+:<lambda>': must be a function at the top"),
        ({"feedback": Policy(torch.sin)}, r"CMES\.space\.feedback\.probabilities = .*functions at the top level"),
        ({"feedback": Policy(Odd())}, r"CMES\.space\.feedback\.probabilities = 'Odd': must be what can be stored"),
        ({"feedback": UniformConditional(policy, policy)}, r"CMES\.space\.feedback = 'UniformConditional'"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_the_first_trial(changes, message):
    refused(message, choosing_client, choosing(**changes))


def test_a_function_that_is_gone(monkeypatch):
    stored = strategy_to_settings(CMES(space=choosing()))
    monkeypatch.delattr(f"{__name__}.policy")
    said = "function = 'test_ax_indirect:policy': must be one .* named before loading"
    refused(said, strategy_from_settings, stored)


@pytest.mark.parametrize(
    ("parameters", "costs", "settings", "message"),
    [
        (SQUARE[::-1], (2.0,), {}, r"space\.parameters = \['b', 'a'\]: must be \['a', 'b'\], as in the Ax experiment"),
        (SQUARE[:1], (2.0,), {}, r"space\.parameters = \['a'\]"),
        ((Parameter("a", 0.0, 3.0), SQUARE[1]), (2.0,), {}, r"strategy\.space\.a\.upper = 3\.0: must be 2\.0, as in"),
        ((SQUARE[0], Parameter("b", 0.1, 3.0, log=True)), (2.0,), {}, r"space\.b\.log = True: must be False"),
        (SQUARE, (3.0,), {}, r"space\.costs = \(3\.0,\): must be \(2\.0,\)"),
        (SQUARE, (2.0,), {"measured": True}, r"space\.measured = True: must be False"),
        (SQUARE, (2.0,), {"constraints": (((1.0, 1.0), 1.0),)}, r"space\.constraints = "),
    ],
)
def test_a_space_that_is_not_the_experiment_s(parameters, costs, settings, message):
    own = IndirectSpace(parameters, costs, inputs=[[0.0]], feedback=Window([0.1]), **settings)
    refused(message, choosing_client, own)


def test_no_input_is_advised_before_there_is_an_observation():
    client = choosing_client(choosing())
    client.get_next_trials(1)
    refused("no completed trial", best_point, client)

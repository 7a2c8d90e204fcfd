"""Several objectives of an Ax experiment."""

import math

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax_problem import read_of, same_decisions
from refusals import refused

from mfbo_torch import Optimizer, Parameter, Space
from mfbo_torch.ax import best_front, best_point, multi_fidelity_client
from mfbo_torch.history import Status
from mfbo_torch.space.objectives import Objective
from mfbo_torch.strategies import MFEHVI

CONFIGS = [RangeParameterConfig("x", (0.0, 1.0), "float")]


def measured(x: float, fidelity: int) -> dict[str, float]:
    found = {"loss": (x - 0.2) ** 2 + 0.1 * (1 - fidelity), "speed": -((x - 0.8) ** 2), "size": x}
    return {name: round(value, 10) for name, value in found.items()}


def client_of(objective="-loss, speed", **settings) -> Client:
    return multi_fidelity_client(CONFIGS, [1, 5], objective, outcome_constraints=["size <= 0.9"], **settings)


def test_decisions_are_those_of_ask_and_tell_and_the_front_is_found():
    """Also after the client was stored and loaded."""
    objectives = Objective("loss"), Objective("speed", maximize=True)
    space = Space([Parameter("x", 0.0, 1.0)], [1, 5], objectives=objectives, limits={"size": "<= 0.9"})
    optimizer = Optimizer(MFEHVI(space=space))
    client = same_decisions(client_of(), optimizer, 8, measured)
    for x in (0.3, 0.5, 0.95, 0.1):  # the last two: too large, and beaten by 0.3
        client.complete_trial(client.attach_trial({"x": x, "fidelity": 1}), measured(x, 1))
    history = read_of(client).history
    assert [(r.value, r.outcomes) for r in history][:8] == [(r.value, r.outcomes) for r in optimizer.history]
    found = best_front(client)
    assert {0.3, 0.5} <= {one.parameters["x"] for one in found}
    assert not {0.95, 0.1} & {one.parameters["x"] for one in found}
    assert all(one.parameters["fidelity"] == 1 and 0.2 - 1e-9 <= one.parameters["x"] <= 0.8 + 1e-9 for one in found)
    losses = [one.values["loss"] for one in found]
    assert losses == sorted(losses)
    assert found[0].values == {name: measured(**found[0].parameters)[name] for name in ("loss", "speed")}
    assert best_point(client).parameters in [one.parameters for one in found]


def test_missing_metrics_thresholds_and_mistakes():
    client = client_of()
    ((index, _),) = client.get_next_trials(1).items()
    client.complete_trial(index, {"loss": 1.0, "size": 0.5, "speed": math.nan})
    assert [r.status for r in read_of(client).history] == [Status.FAILED]
    thresholds = ["loss <= 0.5", "size <= 0.9"]
    limited = multi_fidelity_client(CONFIGS, [1, 5], "-loss, speed", outcome_constraints=thresholds)
    space = limited._generation_strategy._nodes[0].bound(limited._experiment)[0].space
    assert space.objectives == (Objective("loss", reference=0.5), Objective("speed", maximize=True))
    assert [limit.name for limit in space.limits] == ["size"]
    refused("one metric between two commas", client_of, "-loss, 2*speed")
    refused("MFEHVI and RandomSearch take several", client_of, strategy="MFGPUCB")
    one = multi_fidelity_client(CONFIGS, [1, 5], "-loss")
    with pytest.raises(ValueError, match="best_point has the best of one"):
        best_front(one)

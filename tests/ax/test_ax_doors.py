"""What Ax's own analyses say of a strategy, choices by name, and observations of before."""

import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.analysis_card import AnalysisCardGroup, ErrorAnalysisCard
from ax_problem import bound, read_of
from refusals import refused

from mfbo_torch.ax import attach_observations, best_point, multi_fidelity_client
from mfbo_torch.strategies import ExpectedImprovement, RandomSearch

NAMES = ["red", "green", "blue", "grey", "pink"]


def client_of(strategy) -> Client:
    parameters = [
        RangeParameterConfig("x", (0.0, 1.0), "float"),
        ChoiceParameterConfig("colour", NAMES, "str", is_ordered=False),
    ]
    return multi_fidelity_client(parameters, [1, 10], "-loss", strategy)


def loss(parameters) -> float:
    return (parameters["x"] - 0.3) ** 2 + 0.1 * (NAMES.index(parameters["colour"]) - 2) ** 2


def cards(card):
    yield card
    for child in card.children if isinstance(card, AnalysisCardGroup) else ():
        yield from cards(child)


def test_names_of_any_number_are_searched_and_analysed():
    client = client_of(ExpectedImprovement(initial=4))
    for _ in range(8):
        for index, parameters in client.get_next_trials(1).items():
            assert parameters["colour"] in NAMES
            client.complete_trial(index, {"loss": loss(parameters)})
    (space,) = {bound(client)[0].space}
    assert space.parameters[1].choices == tuple(NAMES)
    assert len({trial.arm.parameters["colour"] for trial in client._experiment.trials.values()}) > 1
    best = best_point(client)
    assert loss(best.parameters) == min(loss(t.arm.parameters) for t in client._experiment.trials.values())
    shown = [card for card in client.compute_analyses(display=False) for card in cards(card)]
    assert not [card.name for card in shown if isinstance(card, ErrorAnalysisCard)]
    assert {"Summary", "BestTrials"} <= {card.name for card in shown}


def test_observations_of_before_are_free_and_known():
    client = client_of(ExpectedImprovement(initial=2))
    rows = [{"x": 0.1 * i, "colour": "blue", "fidelity": i % 2} for i in range(4)]
    rows = [{**row, "loss": (loss(row), 0.1)} for row in rows]
    assert attach_observations(client, [*rows, {"x": 0.9, "colour": "pink", "loss": 2.0}]) == [0, 1, 2, 3, 4]
    history = read_of(client).history
    assert [(r.query.fidelity, r.cost) for r in history] == [(0, 0.0), (1, 0.0), (0, 0.0), (1, 0.0), (1, 0.0)]
    assert [r.standard_error for r in history] == [0.1] * 4 + [None]
    assert history.best(1).value == pytest.approx(-rows[3]["loss"][0])
    (index,) = client.get_next_trials(1)
    assert index == 5
    assert read_of(client).history.spent == 10.0
    again = Client._from_json_snapshot(client._to_json_snapshot())
    assert [r.cost for r in read_of(again).history] == [0.0] * 5 + [10.0]


def test_observations_need_only_the_parameters_that_are_there():
    parameters = [
        ChoiceParameterConfig("kind", ["sgd", "adam"], "str", dependent_parameters={"sgd": ["momentum"]}),
        RangeParameterConfig("momentum", (0.0, 0.9), "float"),
    ]
    client = multi_fidelity_client(parameters, [1], "loss", RandomSearch())
    attach_observations(client, [{"kind": "adam", "loss": 1.0}, {"kind": "sgd", "momentum": 0.5, "loss": 2.0}])
    assert [record.value for record in read_of(client).history] == [1.0, 2.0]
    refused("must be in the search space", attach_observations, client, [{"kind": "sgd", "loss": 1.0}])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"x": 0.5, "colour": "red"}, r"observations\[1\] = .*must be given with 'loss'"),
        ({"x": 0.5, "loss": 1.0}, r"must be given with colour"),
        ({"x": 0.5, "color": "red", "loss": 1.0}, r"= 'color': must be .*did you mean colour\?"),
        ({"x": 1.5, "colour": "red", "loss": 1.0}, r"must be in the search space"),
        ({"x": 0.5, "colour": "violet", "loss": 1.0}, r"must be in the search space"),
        ({"x": 0.5, "colour": "red", "fidelity": 2, "loss": 1.0}, r"must be in the search space"),
        ({"x": 0.5, "colour": "red", "loss": float("nan")}, r"loss = nan: must be a finite number"),
        ({"x": 0.5, "colour": "red", "loss": "low"}, r"loss = 'low'"),
        (3, r"must be a mapping"),
    ],
)
def test_nothing_is_attached_where_one_is_wrong(row, message):
    client = client_of(RandomSearch())
    refused(message, attach_observations, client, [{"x": 0.1, "colour": "red", "loss": 1.0}, row])
    assert not client._experiment.trials


def test_trainings_continue():
    """What is asked again at more epochs costs what is missing, in the accounts and in decisions, stored or not."""
    parameters = [RangeParameterConfig("x", (0.0, 1.0), "float")]
    client = multi_fidelity_client(
        parameters, objective="-loss", strategy=RandomSearch(), fidelities={"epochs": [3, 9, 27]}, continues=True
    )
    for epochs in (3, 9, 27):
        client.complete_trial(client.attach_trial({"x": 0.5, "epochs": epochs}), {"loss": 1.0 / epochs})
    client.attach_trial({"x": 0.25, "epochs": 27})
    assert [r.cost for r in read_of(client).history] == [3.0, 6.0, 18.0, 27.0]
    again = Client._from_json_snapshot(client._to_json_snapshot())
    assert [r.cost for r in read_of(again).history] == [3.0, 6.0, 18.0, 27.0]
    strategy, _ = bound(again)
    assert strategy.space.continues
    refused("continues = 'yes'", multi_fidelity_client, parameters, [1, 2], "-loss", continues="yes")

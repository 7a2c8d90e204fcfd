"""A problem of three fidelities for Ax, a run of it, and the same run by ask and tell."""

import math
import random
from collections.abc import Callable

from ax.api.client import Client
from ax.api.configs import RangeParameterConfig

from mfbo_torch import Optimizer, Parameter, Space
from mfbo_torch.ax import multi_fidelity_client
from mfbo_torch.ax.best import node_of
from mfbo_torch.ax.history import META, read
from mfbo_torch.history import Query
from mfbo_torch.strategies import Strategy

COSTS = [1.0, 4.0, 16.0]
PARAMETERS = [
    RangeParameterConfig("x", (-1.0, 2.0), "float"),
    RangeParameterConfig("rate", (0.01, 100.0), "float", scaling="log"),
]
NAMES = ("x", "rate")


def loss(parameters) -> float:
    """To be minimised; 0 at the target at x = 0.7, rate = 1. More digits than storage keeps."""
    x, z = parameters["x"] - 0.7, math.log10(parameters["rate"])
    bias = 0.3 * (2 - parameters["fidelity"])
    return x * x + 0.3 * z * z + bias * math.sin(3 * x + z) / 3 + bias


def client_of(strategy: Strategy, **options) -> Client:
    return multi_fidelity_client(PARAMETERS, COSTS, "-loss", strategy, name="run", **options)


def bound(client: Client):
    """The strategy of a client, in its experiment's space, and the codec between the two."""
    return node_of(client._generation_strategy).bound(client._experiment)


def read_of(client: Client):
    """The history of a client, and the trials that it was read from."""
    return read(client._experiment, bound(client)[1])


def noted(client: Client, index: int):
    """What Ax keeps of a trial's query."""
    (run,) = client._experiment.trials[index].generator_runs
    (metadata,) = run.candidate_metadata_by_arm_signature.values()
    return metadata[META]


class Run:
    """A client, stored by ``reload``, and an optimiser that are told the same and must decide the same."""

    def __init__(self, client: Client, optimizer: Optimizer, reload: Callable[[Client], Client], loss=loss) -> None:
        self.client, self.optimizer, self.reload, self.loss = client, optimizer, reload, loss
        self.flying: dict[int, dict] = {}
        self.order = random.Random(0)

    def ask(self, n: int) -> None:
        trials = self.client.get_next_trials(max_trials=n)
        for (index, parameters), record in zip(trials.items(), self.optimizer.ask(n), strict=True):
            assert (index, noted(self.client, index)) == (record.id, record.query.meta)
            x = tuple(parameters[name] for name in NAMES)
            assert (x, parameters["fidelity"]) == (record.query.x, record.query.fidelity)
        self.flying |= trials

    def attach(self, parameters) -> None:
        index = self.client.attach_trial(parameters)
        x = tuple(parameters[name] for name in NAMES)
        cost = COSTS[parameters["fidelity"]]
        self.optimizer._history = self.optimizer.history.asked(Query(x, parameters["fidelity"]), cost)
        self.flying[index] = parameters

    def end(self, how: str = "done") -> None:
        """One of the trials in flight ends."""
        index = self.order.choice(sorted(self.flying))
        parameters = self.flying.pop(index)
        if how == "done":
            value = self.loss(parameters)
            self.client.complete_trial(index, {"loss": value})
            self.optimizer.tell(index, -round(value, 10))
        elif how == "failed":
            self.client.mark_trial_failed(index, failed_reason="a test")
            self.optimizer.fail(index, "a test")
        else:
            self.client.mark_trial_abandoned(index)
            self.optimizer.fail(index, how)

    def store(self) -> None:
        self.client = self.reload(self.client)


SPACE = Space((Parameter("x", -1.0, 2.0), Parameter("rate", 0.01, 100.0, log=True)), tuple(COSTS))


def sixty_trials(run: Run, batch: int = 4, trials: int = 60) -> None:
    """Trials in flight are refilled to ``batch``; five fail, two are abandoned, one is attached."""
    ends = {7: "failed", 12: "failed", 23: "failed", 37: "failed", 51: "failed", 18: "abandoned", 44: "abandoned"}
    ended = stored = 0
    while ended < trials:
        asked = len(run.optimizer.history)
        if ended == 20:
            run.attach({"x": 0.25, "rate": 3.0, "fidelity": 1})
        elif asked < trials:
            run.ask(min(batch - len(run.flying), trials - asked))
        if len(run.optimizer.history) // 10 > stored:
            stored = len(run.optimizer.history) // 10
            assert run.flying
            run.store()
        for _ in range(run.order.randint(1, len(run.flying))):
            run.end(ends.get(ended, "done"))
            ended += 1
            if ended == 20:
                break


def same_decisions(client: Client, optimizer: Optimizer, rounds: int, measured, told=dict) -> Client:
    """Both decide the same in each round and are told the same; the client is stored and loaded half-way."""
    for number in range(rounds):
        ((index, parameters),) = client.get_next_trials(1).items()
        (record,) = optimizer.ask()
        assert (parameters["x"], parameters["fidelity"]) == (record.query.x[0], record.query.fidelity)
        client.complete_trial(index, measured(**parameters))
        optimizer.tell(record.id, told(measured(**parameters)))
        if number == rounds // 2:
            client = Client._from_json_snapshot(client._to_json_snapshot())
    return client

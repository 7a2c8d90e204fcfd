"""A user's program, which ``mypy --strict`` finds nothing in and which runs."""

from collections.abc import Mapping, Sequence

import torch

from mfbo_torch import MFGPUCB, History, Optimizer, Parameter, Record, Result, Space, UserProblem, minimize, run
from mfbo_torch.problems import Problem
from mfbo_torch.strategies import RandomSearch


def loss(parameters: Mapping[str, float], fidelity: int) -> float:
    return (parameters["rate"] - 0.1) ** 2 + 0.1 * (1 - fidelity)


class Bowl(Problem):
    maximize = False

    def __init__(self) -> None:
        self.space = Space((Parameter("rate", 1e-3, 1.0, log=True),), (1.0, 10.0))

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        return loss(self.space.named(x), fidelity)


def main() -> None:
    space = Space([Parameter("rate", 1e-3, 1.0, log=True), Parameter("width", 1, 9, integer=True)], costs=[1, 10])
    found: Result = minimize(loss, space, 24, strategy=RandomSearch())
    value: float = found.fun
    best: float = found.parameters["rate"]
    history: History = found.history
    records: list[Record] = history.done
    costs: list[float] = [record.cost for record in records]
    print(value, best, sum(costs), found.success, found.nfev)

    optimizer = Optimizer(MFGPUCB(space=space, seed=1))
    for record in optimizer.ask(2):
        optimizer.tell(record.id, -loss(space.named(record.query.x), record.query.fidelity))
    print(optimizer.recommend(), space.bounds.to(torch.float32).shape)

    ended: History = run(Bowl(), RandomSearch(), 20.0, progress=False)
    parameters = {"rate": {"lower": 1e-3, "upper": 1.0, "log": True}}
    print(len(ended), UserProblem(loss, parameters, costs=[1.0, 10.0], maximize=False).evaluate([0.1], 1))


if __name__ == "__main__":
    main()

"""What Ax costs a trial, beside the decision itself: MFGPUCB through a client, in memory and in SQLite.

    python -m benchmarks.speed.ax_overhead [--trials 100]

One trial at a time of Hartmann-3D: ``get_next_trials`` and ``complete_trial``, in seconds of the processor, means over
the last ten trials; ``decision`` is the part spent in the strategy, ``ax`` the rest. Writes ``ax_overhead.json``.
"""

import logging
import tempfile
from collections.abc import Sequence
from statistics import mean

from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig

from benchmarks.common import parser, quiet, write_json
from benchmarks.timing import processor_seconds, timed
from mfbo_torch.ax import multi_fidelity_client
from mfbo_torch.problems import Hartmann3
from mfbo_torch.strategies import MFGPUCB

LAST = 10


def client_of(storage_config: StorageConfig | None) -> Client:
    """A client for Hartmann-3D."""
    space = Hartmann3().space
    parameters = [RangeParameterConfig(p.name, (p.lower, p.upper), "float") for p in space.parameters]
    return multi_fidelity_client(
        parameters, space.costs, "value", MFGPUCB(), name="overhead", storage_config=storage_config
    )


def measure(client: Client, trials: int) -> dict[str, float]:
    """Seconds a trial, the last ten of them."""
    problem, rows = Hartmann3(), []
    for _ in range(trials):
        with timed({"decision": [(MFGPUCB, "ask")]}, ["decision"]) as spent:
            asked = dict[int, dict[str, float]]()
            total = processor_seconds(lambda asked=asked: asked.update(client.get_next_trials(max_trials=1)))
        ((index, p),) = asked.items()
        found = {"value": problem.reward([p[n.name] for n in problem.space.parameters], p["fidelity"])}
        total += processor_seconds(lambda index=index, found=found: client.complete_trial(index, found))
        rows.append((spent["decision"], total))
    decision, total = (mean(seconds[-LAST:]) for seconds in zip(*rows, strict=True))
    return {"decision": decision, "ax": total - decision}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    given = parser(__doc__, trials=100).parse_args(arguments)
    quiet()
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        stores = {"memory": None, "sqlite": StorageConfig(url=f"sqlite:///{folder}/ax.db")}
        seconds = {name: measure(client_of(config), given.trials) for name, config in stores.items()}
    for name, row in seconds.items():
        print(f"{name:8s}", "  ".join(f"{part} {value:.3f} s" for part, value in row.items()))
    write_json(given.results / "ax_overhead.json", {"trials": given.trials, "processor_seconds": seconds})


if __name__ == "__main__":
    main()

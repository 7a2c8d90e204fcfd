"""How long a play takes: many trials at once beside one play at a time.

    python -m benchmarks.speed.bandit [--arms 10 30 100 300 1000 3000] [--trials 20]

The K = 1,000 problem of Fig. 2 with a capital of 3,000, and then Bernoulli rewards at three fidelities against the
number of arms: a plain Python loop, the strategy asked one play at a time, and the simulator with all trials; all three
must decide alike, or nothing is reported. Processor time per play and trial. Writes ``bandit-speed.json``.
"""

import time
from collections.abc import Sequence

import torch

from benchmarks.common import parser, quiet, write_json
from benchmarks.quality.bandit import plain
from mfbo_torch.loop.bandit_simulation import simulate
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import MultiFidelityBandit, SyntheticBandit
from mfbo_torch.strategies import MFUCB

ARMS = (10, 30, 100, 300, 1000, 3000)


def seconds_a_play(problem: MultiFidelityBandit, capital: float, trials: int) -> dict[str, float]:
    """Processor seconds per play and trial of the three ways, which must decide alike."""
    strategy = MFUCB(rewards="bounded")
    started = time.process_time()
    simulation = simulate(problem, strategy, capital, trials)
    at_once = time.process_time() - started
    lengths = (simulation.arms >= 0).sum(1)
    wanted = list(zip(simulation.arms[0].tolist(), simulation.fidelities[0].tolist(), strict=True))[: lengths[0]]
    started = time.process_time()
    looped = plain.trial(problem, capital)
    loop = time.process_time() - started
    started = time.process_time()
    history = run(problem, strategy, capital, progress=False)
    asked = time.process_time() - started
    played = [(round(r.query.x[0]), r.query.fidelity) for r in history]
    if not wanted == looped == played:
        raise RuntimeError("the three ways decide differently")
    plays = len(played)
    return {"simulator": at_once / int(lengths.sum()), "strategy": asked / plays, "loop": loop / plays}


def bernoulli(arms: int) -> MultiFidelityBandit:
    """Arms in random order with three fidelities."""
    generator = torch.Generator().manual_seed(arms)
    target = torch.linspace(0.1, 0.9, arms, dtype=torch.double)[torch.randperm(arms, generator=generator)]
    return around(target, generator)


def around(target: torch.Tensor, generator: torch.Generator) -> MultiFidelityBandit:
    """Arms with some means at the target and, at two cheaper fidelities, random ones near them."""
    zeta = torch.tensor([0.2, 0.1, 0.0], dtype=torch.double)
    noise = torch.rand(len(target), 3, generator=generator, dtype=torch.double) * 2 - 1
    means = (target.unsqueeze(-1) + noise * zeta).clamp(0.0, 1.0)
    return MultiFidelityBandit(means.tolist(), zeta.tolist(), (1, 10, 100), "bernoulli")


def main(arguments: Sequence[str] | None = None) -> None:
    """Check, time, draw, write."""
    options = parser(__doc__, arms=ARMS, trials=20, capital=3000.0).parse_args(arguments)
    quiet()
    large = seconds_a_play(SyntheticBandit(4), options.capital, options.trials)
    ratio = large["loop"] / large["simulator"]
    line = {way: f"{1e6 * value:.1f} us" for way, value in large.items()}
    print(f"K = 1,000: {ratio:.0f} times the plain loop", line)
    rows = [seconds_a_play(bernoulli(arms), 3.0 * arms + 300.0, options.trials) for arms in options.arms]
    for arms, row in zip(options.arms, rows, strict=True):
        print(f"{arms:6d} arms", {way: f"{1e6 * value:.1f} us" for way, value in row.items()})
    report = {
        "unit": "processor seconds per play and trial",
        "trials": options.trials,
        "problem_4": {**large, "loop_over_simulator": ratio},
        "by_arms": dict(zip(map(str, options.arms), rows, strict=True)),
    }
    write_json(options.results / "bandit-speed.json", report)


if __name__ == "__main__":
    main()

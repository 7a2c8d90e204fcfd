"""Parallel workers without waiting for them: a discrete-event simulation."""

import heapq
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from mfbo_torch.history import History, Record
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.problems.base import Problem
from mfbo_torch.strategies import Strategy


class Ended(NamedTuple):
    """The end of an evaluation: its record, when (simulated), and processor time of all decisions until then."""

    id: int
    time: float
    seconds: float


def simulate(
    problem: Problem,
    strategy: Strategy,
    capital: float,
    workers: int,
    duration: Callable[[Record], float],
    asynchronous: bool = True,
) -> tuple[History, list[Ended]]:
    """Spend a capital with simulated workers; the history, and the evaluations in the order in which they ended.

    ``duration`` is how long an evaluation takes. Asynchronous workers get the next query as soon as they are free;
    else all wait for the last one, and the next batch is decided then.
    """
    optimizer = Optimizer(strategy.bind(problem.space, capital))
    running: list[tuple[float, int]] = []
    ended: list[Ended] = []
    clock = seconds = 0.0
    while True:
        free = workers - len(running) if asynchronous or not running else 0
        if free:
            started = time.process_time()
            records = optimizer.ask(free, capital=capital)
            seconds += time.process_time() - started
            for record in records:
                heapq.heappush(running, (clock + duration(record), record.id))
        if not running:
            return optimizer.history, ended
        clock, number = heapq.heappop(running)
        query = optimizer.history.records[number].query
        optimizer.tell(number, problem.observe(query.x, query.fidelity, number))
        ended.append(Ended(number, clock, seconds))


def varying(seed: int, spread: float) -> Callable[[Record], float]:
    """Run times that are log-normal with mean the cost; ``spread`` is the deviation of their logarithm."""

    def duration(record: Record) -> float:
        generator = torch.Generator().manual_seed(1_000_003 * seed + record.id)
        shock = torch.randn((), generator=generator, dtype=torch.double).item()
        return record.cost * math.exp(spread * shock - spread**2 / 2)

    return duration

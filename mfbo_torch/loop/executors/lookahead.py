"""Queries decided before a worker asks for them, where workers would wait for decisions."""

from __future__ import annotations

import math
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mfbo_torch.history import History
    from mfbo_torch.loop.optimizer import Decision, Optimizer

PARTS = 8
"""Number of parts in which queries decided on the same history are given out: some strategies decide several at once in
less time."""
QUICK = 0.5
"""Number of workers that become free during a decision, up to which nothing is decided ahead."""
FITS = 4
"""Number of last decisions of which the slowest counts: now and then one fits a model."""
FIRST = 1.0
"""Seconds that a decision is expected to take as long as no model has decided: the first that does is fitted."""
BLIND = ("initial", "random")
"""The stages of first and of random designs, which no model has decided."""
RECENT = 64
"""Number of last evaluations whose mean time counts."""


def depth(workers: int, deciding: float, evaluating: float) -> int:
    """How many queries are kept ahead: as many as workers become free during a decision, ``workers * deciding /
    evaluating``, two for each worker at most; none where that is :data:`QUICK` or less, or for one worker.

    Args:
        workers: How many evaluate at once.
        deciding: Seconds that a decision is expected to take, however many queries it is about.
        evaluating: Mean seconds of an evaluation, from when it is sent.
    """
    free = workers * deciding / max(evaluating, 1e-9)
    return min(math.ceil(free), 2 * workers) if workers > 1 and free > QUICK else 0


def due(workers: int, kept: int, deciding: float, evaluating: float) -> int:
    """How many queries a decision ahead is about: none where :func:`depth` are kept, else twice that, two a worker
    at most."""
    ahead = depth(workers, deciding, evaluating)
    return min(2 * ahead, 2 * workers) if kept < ahead else 0


def warm() -> None:
    """Let PyTorch load what the first fit needs, half a second's work, while the first evaluations run."""
    import torch

    torch.broadcast_shapes((1,), (1,))


class Lookahead:
    """Decides in a thread beside the evaluations, and keeps what no worker has been given yet.

    Where a decision is quick, one query is decided whenever a worker is free, and nothing is kept; until a model has
    decided, a decision is expected to take :data:`FIRST`. Else a decision begins when fewer than :func:`depth` queries
    are kept (:func:`due`): at most four for each worker are kept. They count as pending for each other, and are given
    out in their order, the first while the next are being decided. What is kept is in no history, so it is lost with
    the driver and decided anew. It is dropped once decisions are quick again, or the capital does not pay for the next
    one.

    Args:
        optimizer: Decides.
        allowed: Whether queries may be kept.
    """

    def __init__(self, optimizer: Optimizer, allowed: bool = True) -> None:
        self.optimizer, self.allowed = optimizer, allowed
        self._running: deque[Future[Decision]] = deque()
        self._thread = ThreadPoolExecutor(1, "mfbo-decide")
        self._kept: deque[tuple[Decision, History]] = deque()
        self._warm = threading.Thread(target=warm, name="mfbo-warm", daemon=True)
        self._known, self._given = optimizer.history, optimizer.history
        self._valid, self._blind, self._deciding = True, True, deque([0.0], maxlen=FITS)
        self._evaluating: deque[float] = deque(maxlen=RECENT)

    @property
    def running(self) -> Future[Decision] | None:
        """The next part, while it is being decided or is not collected yet."""
        return self._running[0] if self._running else None

    def due(self, workers: int, flying: int) -> int:
        """How many queries are to be decided now, beside so many in flight."""
        if flying >= workers and self._warm.ident is None:
            self._warm.start()
        deciding = max(*self._deciding, FIRST if self._blind else 0.0)
        times = deciding, fmean(self._evaluating) if self._evaluating else math.inf
        if self.allowed and depth(workers, *times):
            return due(workers, len(self._kept), *times)
        self.drop()
        return int(flying < workers)

    def begin(self, n: int, capital: float = math.inf) -> None:
        """Decide the next ``n`` queries in the thread, in eight equal parts, or as many as the rest of the capital
        pays for at the cheapest fidelity; what is left over by the parts is not decided."""
        self._known, self._valid = self.optimizer.history, True
        self._deciding.append(0.0)
        kept = [query for decision, _ in self._kept for query in decision.queries]
        if n > 1 and not self.optimizer.space.measured:
            most = (capital - self._known.spent) / min(self.optimizer.space.costs) - len(kept)
            n = max(1, int(min(most, n)))
        part = max(1, n // PARTS)
        decide = self.optimizer.deciding(part, kept)
        self._running.extend(self._thread.submit(decide) for _ in range(n // part))

    def collect(self) -> None:
        """Keep what has been decided; raises what deciding has raised."""
        while self._running and self._running[0].done():
            decision = self._running.popleft().result()
            self._deciding[-1] += decision.seconds * len(decision.queries)
            self._blind = self._blind and all(query.meta.get("stage") in BLIND for query in decision.queries)
            if self._valid:
                self._kept.extend((decision._replace(queries=[query]), self._known) for query in decision.queries)

    def next(self) -> Decision | None:
        """The next query, to be made pending now; ``None`` where none is kept."""
        if not self._kept:
            return None
        decision, self._given = self._kept.popleft()
        return decision

    def took(self, seconds: float) -> None:
        """Note the time of an evaluation, from when it was sent to when its value was taken in."""
        self._evaluating.append(seconds)

    def refused(self) -> bool:
        """Drop all, as the capital does not pay for the last one given; whether it was decided on all that is known."""
        self.drop()
        return self._given is self.optimizer.history

    def drop(self) -> None:
        """Forget what is kept, and what is being decided after it."""
        self._kept.clear()
        self._valid = False
        while len(self._running) > 1:
            self._running.pop().cancel()

    def close(self) -> None:
        """Decide nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

"""Runs without a progress bar, and histories without times."""

import time
from dataclasses import replace

from mfbo_torch.history import History
from mfbo_torch.loop.runner import run


def timeless(history: History) -> History:
    return History(replace(r, decision_seconds=0.0, evaluation_seconds=0.0) for r in history)


def until(condition, seconds=600) -> None:
    """Wait for what another thread or process does."""
    give_up = time.monotonic() + seconds
    while not condition() and time.monotonic() < give_up:
        time.sleep(0.002)
    assert condition()


def quiet(problem, strategy, capital, **settings):
    return run(problem, strategy, capital, progress=False, **settings)

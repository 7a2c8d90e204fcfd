"""Runs without a progress bar, and histories without times."""

from dataclasses import replace

from mfbo_torch.history import History
from mfbo_torch.loop.runner import run


def timeless(history: History) -> History:
    return History(replace(r, decision_seconds=0.0, evaluation_seconds=0.0) for r in history)


def quiet(problem, strategy, capital, **settings):
    return run(problem, strategy, capital, progress=False, **settings)

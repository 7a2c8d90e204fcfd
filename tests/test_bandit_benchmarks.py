"""What the bandit benchmarks promise."""

from __future__ import annotations

import pytest

from benchmarks.bandit import speed
from mfbo_torch.problems import MultiFidelityBandit


def test_speed_is_told_only_of_equal_decisions(monkeypatch):
    monkeypatch.setattr(speed.plain, "trial", lambda problem, capital: [(1, 0)])
    with pytest.raises(RuntimeError, match="decide differently"):
        speed.seconds_a_play(MultiFidelityBandit([[0.1], [0.2]], [0.0], [1.0], "bernoulli"), 10.0, 1)

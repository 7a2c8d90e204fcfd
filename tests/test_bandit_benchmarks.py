"""The bandit benchmarks at tiny sizes."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.bandit import figure2, speed
from mfbo_torch.problems import MultiFidelityBandit


def test_figure_2(tmp_path, monkeypatch, capsys):
    arguments = ["figure2", "--trials", "2", "--problems", "3", "--share", "0.01", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    figure2.main()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "bandit.md",
        "bandit.json",
        "bandit-regret.csv",
        "bandit-regret.png",
        "bandit-plays.png",
        "bandit-bounds.png",
    }
    assert len((tmp_path / "bandit-regret.csv").read_text().splitlines()) == 1 + 3 * figure2.POINTS
    assert json.loads((tmp_path / "bandit.json").read_text())["trials"] == 2
    assert "| 3 | MF-UCB |" in capsys.readouterr().out


def test_speed(tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "SyntheticBandit", lambda number: speed.bernoulli(12))
    monkeypatch.setattr(
        sys, "argv", ["speed", "--arms", "5", "--trials", "2", "--capital", "60", "--out", str(tmp_path)]
    )
    speed.main()
    report = json.loads((tmp_path / "bandit-speed.json").read_text())
    assert report["by_arms"]["5"].keys() == {"simulator", "strategy", "loop"}
    assert (tmp_path / "bandit-speed.png").exists()


def test_speed_is_told_only_of_equal_decisions(monkeypatch):
    monkeypatch.setattr(speed.plain, "trial", lambda problem, capital: [(1, 0)])
    with pytest.raises(RuntimeError, match="decide differently"):
        speed.seconds_a_play(MultiFidelityBandit([[0.1], [0.2]], [0.0], [1.0], "bernoulli"), 10.0, 1)

"""What attacks the files of runs finds what is there to be found."""

import pytest

from benchmarks.robustness import bit_flips
from benchmarks.speed import bandit
from mfbo_torch.history.storage import journal
from mfbo_torch.problems import MultiFidelityBandit


def test_a_change_that_is_not_found_is_reported(tmp_path, monkeypatch, capsys):
    """Without the checksums of rows the attack succeeds, and says where."""
    monkeypatch.setattr(journal, "wrong", lambda rows: iter(()))
    assert bit_flips.main(["--rows", "12", "--every", "211", "--check", "1", "--results", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "missed: bit " in out
    assert "'missed': " in out


def test_speed_is_reported_only_of_equal_decisions(monkeypatch):
    monkeypatch.setattr(bandit.plain, "trial", lambda problem, capital: [(1, 0)])
    with pytest.raises(RuntimeError, match="decide differently"):
        bandit.seconds_a_play(MultiFidelityBandit([[0.1], [0.2]], [0.0], [1.0], "bernoulli"), 10.0, 1)

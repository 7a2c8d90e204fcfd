"""What attacks the files of runs, at a size that takes no time."""

import json

import pytest

from benchmarks import bit_flips, fuzz, limits
from benchmarks.runs import read
from mfbo_torch.history.storage import journal
from mfbo_torch.strategies.common import subsample


def test_bits_of_a_journal_that_changed_are_found_or_harmless(tmp_path, capsys):
    """In memory and on disk alike."""
    more = ["--rows", "12", "--every", "67", "--check", "3", "--results", str(tmp_path)]
    assert bit_flips.main(more) == 0
    assert "'detected'" in capsys.readouterr().out
    assert json.loads((tmp_path / "bit_flips.json").read_text())["wrong"] == []


def test_a_change_that_is_not_found_is_reported(tmp_path, monkeypatch, capsys):
    """Without the checksums of rows the attack succeeds, and says where."""
    monkeypatch.setattr(journal, "wrong", lambda rows: iter(()))
    assert bit_flips.main(["--rows", "12", "--every", "211", "--check", "1", "--results", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "missed: bit " in out
    assert "'missed': " in out


def test_damaged_files_of_every_kind_are_read_without_harm(tmp_path, capsys):
    pytest.importorskip("resource")
    assert fuzz.main(["--each", "12", "--seed", "3", "--results", str(tmp_path)]) == 0
    assert "0 not; the slowest" in capsys.readouterr().out


def test_long_runs_with_and_without_a_limit_on_what_models_are_made_of(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "PROBLEMS", {"Currin": 1})
    assert not limits.main(["--results", f"{tmp_path}", "--seeds", "1", "--evaluations", "30", "--limit", "8"])
    limited, whole = read(tmp_path / "limits.csv")
    assert (limited["limit"], whole["limit"]) == ("8", "0")
    assert int(limited["most_of_a_fidelity"]) > 8
    assert float(limited["regret"]) >= 0
    assert subsample.MOST == 1000

"""What attacks the files of runs, at a size that takes no time."""

import pytest

from benchmarks import bit_flips, fuzz
from mfbo_torch import journal


def test_bits_of_a_journal_that_changed_are_found_or_harmless(capsys):
    assert bit_flips.main(["--rows", "12", "--every", "211"]) == 0
    assert "'detected'" in capsys.readouterr().out


def test_a_change_that_is_not_found_is_reported(monkeypatch, capsys):
    """Without the checksums of rows the attack succeeds, and says where."""
    monkeypatch.setattr(journal, "wrong", lambda rows: iter(()))
    assert bit_flips.main(["--rows", "12", "--every", "211"]) == 1
    out = capsys.readouterr().out
    assert "missed: bit " in out
    assert "'missed': " in out


def test_damaged_files_of_every_kind_are_read_without_harm(capsys):
    pytest.importorskip("resource")
    assert fuzz.main(["--each", "12", "--seed", "3"]) == 0
    assert "0 not; the slowest" in capsys.readouterr().out

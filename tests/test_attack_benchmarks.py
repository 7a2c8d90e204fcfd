"""What attacks the files of runs, at a size that takes no time."""

import pytest

from benchmarks import bit_flips, fuzz


def test_bits_of_a_journal_that_changed_are_found_or_harmless(capsys):
    assert bit_flips.main(["--rows", "12", "--every", "211"]) == 0
    assert "'detected'" in capsys.readouterr().out


def test_damaged_files_of_every_kind_are_read_without_harm(capsys):
    pytest.importorskip("resource")
    assert fuzz.main(["--each", "12", "--seed", "3"]) == 0
    assert "0 not; the slowest" in capsys.readouterr().out

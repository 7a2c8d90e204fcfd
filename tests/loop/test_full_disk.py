"""Runs whose disk is full for a while."""

import subprocess
import sys

import pytest
from quiet_runs import quiet, timeless
from toy import Hill, Walk

from mfbo_torch.history.storage.journal import DiskFull, Journal
from mfbo_torch.loop import runner


class Full(Journal):
    """Without room, ``refusals`` times, for a query or for a value."""

    refusals, asking = 2, False

    def refuse(self):
        if self.refusals:
            self.refusals -= 1
            raise DiskFull(self.path, "on a disk with room: database or disk is full")

    def asked(self, records, seen=None):
        if self.asking and self._sequence > 2:
            self.refuse()
        super().asked(records, seen)

    def ended(self, record):
        if not self.asking and record.id == 1:
            self.refuse()
        super().ended(record)


@pytest.mark.parametrize("asking", [False, True])
def test_a_full_disk_is_waited_for_and_nothing_is_lost_or_given_out(tmp_path, monkeypatch, capsys, asking):
    monkeypatch.setattr(runner, "DISK_WAITS", (0.0, 0.0))
    monkeypatch.setattr(Full, "asking", asking)

    class Watching(Hill):
        def evaluate(self, x, fidelity):
            assert tuple(x) in [r.query.x for r in journal.history().pending]
            return super().evaluate(x, fidelity)

    with Full(tmp_path / "a.sqlite") as journal:
        history = quiet(Watching(), Walk(), 30.0, journal=journal)
        assert journal.history() == history
    assert timeless(history) == timeless(quiet(Hill(), Walk(), 30.0))
    assert capsys.readouterr().err.count("trying again in 0 s, nothing is lost") == 2
    with Full(tmp_path / "b.sqlite") as journal:
        journal.refusals = 3
        with pytest.raises(DiskFull):
            quiet(Watching(), Walk(), 30.0, journal=journal)
        assert not (asking and journal.history().pending)
        journal.refusals = 0
        assert timeless(quiet(Watching(), Walk(), 30.0, journal=journal)) == timeless(history)


def test_a_limit_on_the_size_of_files_is_a_full_disk(tmp_path):
    code = """
import resource, sys
from mfbo_torch.history import Query, Record
from mfbo_torch.history.storage.journal import DiskFull, Journal
with Journal(sys.argv[1]) as journal:
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    try:
        journal.asked([Record(0, Query((0.0,), 0, {"note": "x" * 50_000}), 1.0)])
    except DiskFull:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        journal.asked([Record(0, Query((0.0,), 0, {"note": "x" * 50_000}), 1.0)])
        print(len(journal.history()))
"""
    found = subprocess.run([sys.executable, "-c", code, tmp_path / "a.sqlite"], capture_output=True, text=True)
    assert found.stdout == "1\n", found.stderr

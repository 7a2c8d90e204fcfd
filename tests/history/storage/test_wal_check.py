"""A log that a killed process left behind: damage in it is not passed over."""

import shutil

import pytest
from journals import fill

from mfbo_torch.history import Query
from mfbo_torch.history.storage.journal import Journal, JournalError
from mfbo_torch.history.storage.repair import salvage
from mfbo_torch.history.storage.wal_check import HEADER, damaged


@pytest.fixture
def left(tmp_path):
    """What is on disk while a journal is open, as after a SIGKILL."""
    path = tmp_path / "left.sqlite"
    with Journal(tmp_path / "a.sqlite") as journal:
        fill(journal)
        for suffix in ("", "-wal"):
            shutil.copy(f"{journal.path}{suffix}", f"{path}{suffix}")
    return path


def changed(path, byte):
    log = path.with_name(f"{path.name}-wal")
    content = bytearray(log.read_bytes())
    content[byte] ^= 4
    log.write_bytes(content)


def test_a_whole_log_is_read(left):
    assert not damaged(left)
    for read_only in (True, False):
        with Journal(left, read_only=read_only) as journal:
            assert journal.sequence == 5


@pytest.mark.parametrize("byte", [0, 9, 18, 30, HEADER + 2, HEADER + 9, HEADER + 17, HEADER + 999])
def test_damage_is_told_and_not_repeated(left, byte):
    changed(left, byte)
    with pytest.raises(JournalError, match=r"undamaged journal: left.sqlite-wal not as written; mfbo repair saves"):
        Journal(left, read_only=True)


def test_the_rows_before_are_saved(left, tmp_path):
    changed(left, len(left.with_name(f"{left.name}-wal").read_bytes()) // 2)
    assert 0 < salvage(left, tmp_path / "new.sqlite") < 5


@pytest.mark.parametrize("cut", [1, 2000, 4120, 5000])
def test_half_a_transaction_at_the_end_is_no_damage(left, cut):
    """What a loss of power leaves: the event was not told to anyone."""
    log = left.with_name(f"{left.name}-wal")
    log.write_bytes(log.read_bytes()[:-cut])
    with Journal(left, read_only=True) as journal:
        assert journal.sequence == 4


def test_a_log_that_began_anew_is_whole(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        fill(journal)
        journal._connection.execute("PRAGMA wal_checkpoint(RESTART)")
        journal.asked([journal.history().asked(Query((1.0,), 0), 1.0).records[-1]], 5)
        assert not damaged(journal.path)

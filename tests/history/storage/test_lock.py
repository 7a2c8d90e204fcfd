"""One writer, whatever the file is called."""

import os
import subprocess
import sys

import pytest

from mfbo_torch.history.query import Query
from mfbo_torch.history.storage import lock
from mfbo_torch.history.storage.journal import Journal, JournalError
from mfbo_torch.history.storage.lock import Held, Lock

OTHER = """import sys; from pathlib import Path
from mfbo_torch.history.storage.lock import Lock
Lock(Path(sys.argv[1])).acquire(b"content")"""


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_a_second_writer_is_not_let_in_through_a_link(tmp_path, link):
    (tmp_path / "other").mkdir()
    path, other = tmp_path / "a.sqlite", tmp_path / "other" / "b.sqlite"
    with Journal(path):
        link(path, other)
        with pytest.raises(JournalError, match="written by one process; close the one that is open in this process"):
            Journal(other)
        found = subprocess.run([sys.executable, "-c", OTHER, str(other)], capture_output=True, text=True)
        assert "Held" in found.stderr
    Journal(other).close()


def test_file_systems_without_locks_have_the_one_beside(tmp_path, monkeypatch):
    class Without:
        LOCK_EX = LOCK_NB = 0

        @staticmethod
        def flock(*_):
            raise OSError(95, "Operation not supported")

    for there in (Without, None):
        monkeypatch.setattr(lock, "fcntl", there)
        first, second = Lock(tmp_path / "a"), Lock(tmp_path / "a")
        first.acquire(b"content")
        with monkeypatch.context() as patch:
            patch.setattr(lock, "_HELD", {})
            with pytest.raises(Held):
                second.acquire(b"content")
        first.release()
        second.acquire(b"content")
        second.release()


def test_a_lock_that_is_dropped_is_given_back(tmp_path):
    first = Lock(tmp_path / "a")
    first.acquire(b"content")
    del first
    again = Lock(tmp_path / "a")
    again.acquire(b"content")
    again.release()


def test_links_in_a_circle_make_way(tmp_path):
    (tmp_path / "a.sqlite").symlink_to("a.sqlite")
    with Journal(tmp_path / "a.sqlite") as journal:
        assert len(journal.history()) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_does_not_write(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        asked = journal.history().asked(Query((1.0,), 0), 1.0)
        if not (child := os.fork()):
            code = 1
            try:
                journal.asked(asked)
            except JournalError as error:
                code = 7 if "not by a fork" in str(error) else 1
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert len(journal.history()) == 0

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from journals import AWKWARD, change, fill, other_columns
from refusals import refused

from mfbo_torch.history import History, Query, Record, Status
from mfbo_torch.history.storage import journal as storage
from mfbo_torch.history.storage.beside import beside
from mfbo_torch.history.storage.journal import SCHEMA_VERSION, DiskFull, Journal, JournalError


def test_history_comes_back_exactly_from_a_path_with_awkward_characters(tmp_path):
    path = tmp_path / "50% ?mode=ro#é.sqlite"
    with Journal(path) as journal:
        written = fill(journal)
        assert journal.history() == written
    assert path.is_file()
    with Journal(path) as journal:
        assert journal.history() == written
    assert [r.status for r in written] == [Status.DONE, Status.FAILED, Status.PENDING]


def test_a_look_from_the_process_that_writes_loses_nothing(tmp_path):
    """To open and close a file as such would end the locks of the process: another program would clear the log away."""
    with Journal(tmp_path / "a.sqlite") as journal:
        journal.given([Record(0, Query((0.1,), 0), 1.0).done(1.0)])
        with Journal(journal.path, read_only=True) as reader:
            assert len(reader.history()) == 1
        with pytest.raises(JournalError, match="close the one that is open in this process first"):
            Journal(journal.path)
        read = f"import sqlite3; sqlite3.connect({str(journal.path)!r}).execute('select * from event').fetchall()"
        subprocess.run([sys.executable, "-c", read], check=True)
        journal.given([Record(1, Query((0.2,), 0), 1.0).done(2.0)])
        copied = tmp_path / "copied"
        shutil.copytree(tmp_path, copied, ignore=shutil.ignore_patterns("copied", "*-shm"))
    with Journal(copied / "a.sqlite", read_only=True) as reader:
        assert len(reader.history()) == 2


def test_a_reader_sees_what_is_written_after_it_was_opened(tmp_path):
    path = tmp_path / "a.sqlite"
    Journal(path).close()
    reader = Journal(path, read_only=True)  # nobody writes
    for number in range(2):
        with Journal(path) as journal:
            journal.given([Record(number, Query((0.1,), 0), 1.0).done(1.0)])
        assert len(reader.history()) == number + 1
    reader.close()
    with pytest.raises(JournalError, match="must be open"):
        reader.history()


def test_names_with_a_point_share_no_files(tmp_path):
    paths = [tmp_path / name for name in ("lr0.1", "lr0.5", "a.sqlite")]
    assert [beside(path, "trials").name for path in paths] == ["lr0.1.trials", "lr0.5.trials", "a.trials"]


@pytest.mark.parametrize("there", [False, True])
def test_a_new_journal_is_never_half_there(tmp_path, monkeypatch, there):
    """Whoever looks while it is made, or continues after a kill, finds none or a whole one: SQLite changes nothing."""
    path = tmp_path / "a.sqlite"
    if there:
        path.touch()
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_connect", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Journal(path)
    whole = path.read_bytes()
    with Journal(path) as journal:
        assert not len(journal.history())
        assert path.read_bytes() == whole
        assert not path.with_name("a.sqlite-journal").exists()
        written = fill(journal)
    with Journal(path, read_only=True) as journal:
        assert journal.history() == written


@pytest.mark.parametrize("value", AWKWARD)
def test_values_are_exact(tmp_path, value):
    record = Record(0, Query((value,), 0), abs(value))
    with Journal(tmp_path / "a.sqlite") as journal:
        journal.asked([record])
        journal.ended(record.done(value))
        (read,) = journal.history()
    assert (read.value, read.cost, read.query.x) == (value, abs(value), (value,))


def test_replay_gives_the_history_at_every_decision(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        steps, history = [], History()
        for ends in ((), (0,), (), (2, 1)):
            query = Query((float(len(history)),), 0, {"n": len(history)})
            steps.append((history, query))
            history = history.asked(query, 1.0)
            journal.asked(history.records[-1:])
            for id_ in ends:
                record = history.records[id_].done(float(id_))
                journal.ended(record)
                history = history.updated(record)
        assert list(journal.replay()) == steps
        assert journal.history() == history


def test_rows_are_on_disk_at_once_and_never_changed(tmp_path):
    path = tmp_path / "a.sqlite"
    journal = Journal(path)
    written = fill(journal)
    with Journal(path, read_only=True) as onlooker:
        assert onlooker.history() == written
        refused("writable journal", onlooker.asked, [Record(3, Query((0.0,), 0), 1.0)])
    other = sqlite3.connect(path)
    for statement in ("DELETE FROM event", "UPDATE event SET cost = 0"):
        with pytest.raises(sqlite3.IntegrityError, match="append only"):
            other.execute(statement)
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    other.close()
    journal.close()


def test_a_reader_sees_what_came_after_it_was_opened(tmp_path):
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        fill(journal)
        with Journal(path, read_only=True) as early, Journal(path, read_only=True) as late:
            before = early.history()
            written = before.updated(before.records[2].done(1.0))
            journal.ended(written.records[2])
            assert early.history() == late.history() == journal.history() == written
    with Journal(path) as journal:
        further = written.asked(Query((0.5,), 0), 1.0)
        journal.asked(further.records[-1:])
        assert journal.history() == further


def test_a_batch_is_written_whole_or_not_at_all(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        good, bad = Record(0, Query((0.0,), 0), 1.0), Record(1, Query((1.0,), 0, {"beta": float("nan")}), 1.0)
        refused(r"meta = .*must be finite JSON values", journal.asked, [good, bad])
        assert len(journal.history()) == 0
        refused("each query once", journal.asked, [good, good])
        assert len(journal.history()) == 0
        journal.asked([good])
        assert len(journal.history()) == 1


QUERIES = [Query((0.0,), 0, {"a": [float("inf")]}), Query((0.0,), 0, {"a": object()}), Query((float("nan"),), 0)]


@pytest.mark.parametrize(("query", "setting"), [*zip(QUERIES, ("meta", "meta", "x"), strict=True)])
def test_what_json_cannot_hold_is_refused_and_nothing_ends_twice(tmp_path, query, setting):
    with Journal(tmp_path / "a.sqlite") as journal:
        refused(f"^{setting} = ", journal.asked, [Record(0, query, 1.0)])
        record = Record(0, Query((0.0,), 0), 1.0)
        journal.asked([record])
        journal.ended(record.done(1.0))
        refused("each query once", journal.ended, record.done(2.0))
        assert journal.history().records[0].value == 1.0


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path, monkeypatch):
    path = tmp_path / "a.sqlite"
    with Journal(path) as first:
        written = fill(first)
        refused("written by one process; close the one that is open in this process", Journal, path)
        with monkeypatch.context() as patch:
            patch.setattr("mfbo_torch.history.storage.lock._HELD", {})  # as another process sees it
            refused("written by one process; another one is writing it now", Journal, path)
        with Journal(path, read_only=True) as one, Journal(path, read_only=True) as two:
            assert one.history() == two.history() == written
    with Journal(path) as second:
        assert second.history() == written


def test_a_retry_is_an_event_of_its_own(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        history = History().asked(Query((0.1,), 0), 0.1).asked(Query((0.2,), 1), 0.7)
        journal.asked(history.records)
        record = history.records[0]
        for reason, cost in (("TimeoutError: late", 0.1 + 0.1), ("RuntimeError: no", 0.1 + 0.2)):
            record = record.retried(reason, cost)
            journal.retried(record)
            assert journal.history() == history.updated(record)
        assert (record.retries, record.reason, record.value) == (2, "RuntimeError: no", None)
        assert record.cost - record.sunk == pytest.approx(0.1)
        journal.ended(record.done(3.0))
        assert journal.history().records[0] == record.done(3.0)
        assert record.done(3.0).reason == ""


def test_a_decision_remembers_what_it_had_seen(tmp_path):
    """Two values come in while the third query is decided: its replay does without them."""
    with Journal(tmp_path / "a.sqlite") as journal:
        before = History().asked(Query((0.0,), 0), 1.0).asked(Query((1.0,), 0), 1.0)
        journal.asked(before.records)
        seen, after = journal.sequence, before
        for id_ in (1, 0):
            after = after.updated(after.records[id_].done(float(id_)))
            journal.ended(after.records[id_])
        after = after.asked(Query((2.0,), 0), 1.0).asked(Query((3.0,), 0), 1.0)
        journal.asked(after.records[2:3], seen)
        journal.asked(after.records[3:])
        bases = [history for history, _ in journal.replay()]
    assert journal.path.exists()
    assert bases[0] == History()
    assert bases[1] == History(before.records[:1])
    assert bases[2] == before
    assert bases[3] == History(after.records[:3])


def test_a_full_disk_is_named_and_writing_goes_on_when_there_is_room(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
        journal._connection.execute(f"PRAGMA max_page_count = {pages}")
        large = Record(0, Query((0.0,), 0, {"note": "x" * 50_000}), 1.0)
        with pytest.raises(DiskFull, match="must be on a disk with room: database or disk is full"):
            journal.asked([large])
        assert len(journal.history()) == 0
        journal._connection.execute("PRAGMA max_page_count = 1000000")
        journal.asked([large])
        assert journal.history().records == (large,)


@pytest.mark.parametrize("at", ["BEGIN IMMEDIATE", "COMMIT"])
@pytest.mark.parametrize("late", [False, True])
def test_interrupted_while_writing(tmp_path, at, late):
    """Ctrl-C before or after a statement: the row is there or is not, and writing goes on."""

    class Interrupting:
        def __init__(self, connection):
            self.connection = connection

        def execute(self, statement):
            if statement == at and late:
                self.connection.execute(statement)
            if statement == at:
                raise KeyboardInterrupt
            return self.connection.execute(statement)

        def __getattr__(self, name):
            return getattr(self.connection, name)

    first, second = Record(0, Query((0.0,), 0), 1.0), Record(1, Query((0.0,), 0), 1.0)
    with Journal(tmp_path / "a.sqlite") as journal:
        connection = journal._connection
        journal._connection = Interrupting(connection)
        with pytest.raises(KeyboardInterrupt):
            journal.asked([first])
        journal._connection = connection
        written = at == "COMMIT" and late
        assert len(journal.history()) == written
        journal.asked([second] if written else [first, second])
        assert journal.history().records == (first, second)


def text_file(path, text="not a database, and longer than the hundred bytes of the header of one " * 3):
    path.write_text(text)
    return "a journal of mfbo_torch"


def short_file(path):
    return text_file(path, "SQLite format 3\0")


def other_database(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE event (a)")
    connection.close()
    return "a journal of mfbo_torch"


def newer_schema(path, version=SCHEMA_VERSION + 1):
    with Journal(path) as journal:
        fill(journal)
        journal._connection.execute(f"PRAGMA user_version = {version}")
    return f"a journal of schema {SCHEMA_VERSION}; this one has schema {version}"


def older_schema(path):
    return newer_schema(path, SCHEMA_VERSION - 1)


def truncated(path, size=9000):
    with Journal(path) as journal:
        for i in range(300):
            journal.asked([Record(i, Query((0.0,) * 20, 0), 1.0)])
    path.write_bytes(path.read_bytes()[:size])
    return "journal"


def damaged(path):
    said = truncated(path, None)
    content = bytearray(path.read_bytes())
    for start in range(4096, len(content), 1024):
        content[start : start + 64] = os.urandom(64)
    path.write_bytes(content)
    return said


def unreadable_json(path):
    with Journal(path) as journal:
        journal.asked([Record(0, Query((0.0,), 0), 1.0)])
    change(path, "UPDATE event SET x = '[0.'")
    return "undamaged journal"


@pytest.mark.parametrize(
    "make",
    [
        *(text_file, short_file, other_database, newer_schema, older_schema, other_columns),
        *(damaged, truncated, unreadable_json),
    ],
)
def test_a_file_that_cannot_serve_is_refused_and_left_alone(tmp_path, make):
    path = tmp_path / "a.sqlite"
    said = make(path)
    before = path.read_bytes()
    with pytest.raises(JournalError) as caught, Journal(path) as journal:
        journal.history()
    message = str(caught.value)
    assert said in message
    assert str(path) in message
    assert "\n" not in message
    assert path.read_bytes() == before


def test_an_empty_file_left_by_a_crash_is_used(tmp_path):
    path = tmp_path / "a.sqlite"
    path.touch()
    refused("an existing journal; this file is empty", Journal, path, read_only=True)
    with Journal(path) as journal:
        fill(journal)
    header = path.read_bytes()[:100]
    assert header[68:72] == b"mfbo"
    assert struct.unpack(">I", header[60:64])[0] == SCHEMA_VERSION


def test_places_without_a_journal(tmp_path):
    refused("an existing journal", Journal, tmp_path / "a.sqlite", read_only=True)
    refused("in a folder that exists", Journal, tmp_path / "no" / "a.sqlite")
    refused("a readable file", Journal, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_knows_its_thread_and_its_end(tmp_path):
    journal = Journal(tmp_path / "a.sqlite")
    record = Record(0, Query((0.0,), 0), 1.0)
    with ThreadPoolExecutor(1) as other:
        for use in (lambda: journal.asked([record]), journal.history):
            refused("open, and used in the thread that opened it: .*thread", other.submit(use).result)
    journal.asked([record])
    assert len(journal.history()) == 1
    journal.close()
    refused("open, and used in the thread .*: Cannot operate on a closed database", journal.history)


FORGED = {
    "trigger swallow": "CREATE TRIGGER swallow BEFORE INSERT ON event BEGIN SELECT RAISE(IGNORE); END",
    "view other": "CREATE VIEW other AS SELECT * FROM event",
    "index other": "CREATE INDEX other ON event (kind)",
    "table other": "CREATE TABLE other (a)",
    "table event": "ALTER TABLE event RENAME TO events; CREATE VIEW event AS WITH RECURSIVE e(sequence) AS"
    " (SELECT 1 UNION ALL SELECT sequence + 1 FROM e) SELECT sequence FROM e",
    "trigger event_is_never_removed": "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, 'ABORT',"
    " 'ROLLBACK') WHERE name = 'event_is_never_removed'",
}


@pytest.mark.parametrize("what", FORGED)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_schema_that_holds_anything_else_is_refused(tmp_path, what, read_only):
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        fill(journal)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FORGED[what])
    name = what.partition(" ")[2]
    refused(rf"its \w+ {name} is not as in schema", Journal, path, read_only=read_only, error=JournalError)


def test_a_row_that_is_not_kept_is_no_row_written(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        written = fill(journal)
        journal._connection.execute(FORGED["trigger swallow"])
        refused("it kept 0", journal.asked, [written.asked(Query((1.0,), 0), 1.0).records[-1]], error=JournalError)
        assert journal.history() == written


@pytest.mark.parametrize("beside", ["", "-wal", "-journal", "-shm"])
def test_a_pipe_is_not_waited_for(tmp_path, beside):
    path = tmp_path / "a.sqlite"
    if beside:
        with Journal(path) as journal:
            fill(journal)
        (tmp_path / f"a.sqlite{beside}").unlink(missing_ok=True)
    os.mkfifo(tmp_path / f"a.sqlite{beside}")
    for read_only in (True, False):
        refused("not a regular file", Journal, path, read_only=read_only, error=JournalError)


def test_a_check_that_takes_for_ever_is_ended(tmp_path, monkeypatch):
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        fill(journal)
    monkeypatch.setattr(storage, "LEAST_STEPS", -(10**9))
    monkeypatch.setattr(storage, "STEPS", 1)
    refused("readable journal: interrupted", Journal, path, read_only=True, error=JournalError)

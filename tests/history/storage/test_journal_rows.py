"""Databases of strangers: another schema than a journal's, files that are none, rows that someone has signed anew."""

import os
import struct
import time
from functools import partial

import pytest
from journals import fill, forge
from refusals import refused

from mfbo_torch.history import Query, Record
from mfbo_torch.history.storage.journal import Journal, JournalError
from mfbo_torch.history.storage.repair import salvage
from mfbo_torch.utils.files import LONGEST


@pytest.fixture
def path(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        fill(journal)
    return tmp_path / "a.sqlite"


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_only_regular_files_are_opened(path, tmp_path, suffix, kind):
    place = path.with_name(f"{path.name}{suffix}")
    place.unlink(missing_ok=True)
    (tmp_path / "elsewhere").write_bytes(b"mine")
    {"pipe": os.mkfifo, "folder": os.mkdir, "link": lambda to: to.symlink_to(tmp_path / "elsewhere")}[kind](place)
    for read_only in (True, False):
        said = (
            "is a file, not a link|not a regular file|directory" if suffix else "readable file|a journal of mfbo_torch"
        )
        refused(said, Journal, path, read_only=read_only, error=JournalError)
    if kind != "link" and suffix in ("", "-wal"):
        refused("a readable file", salvage, path, tmp_path / "new.sqlite", error=JournalError)
    assert (tmp_path / "elsewhere").read_bytes() == b"mine"


def test_pages_that_nobody_has_looked_at_are_not_put_in_place(path):
    path.with_name(f"{path.name}-journal").write_bytes(b"x" * 600)
    refused("a journal without a.sqlite-journal beside it", Journal, path, error=JournalError)


def test_holes_take_no_memory(path, tmp_path):
    log = path.with_name(f"{path.name}-wal")
    with log.open("wb") as file:
        file.truncate(LONGEST + 1)
    save = partial(salvage, path, tmp_path / "b")
    for make in (partial(Journal, path, read_only=True), partial(Journal, path), save):
        refused("longer than 1,073,741,824 bytes", make, error=JournalError)
    log.unlink()
    with path.open("ab") as file:
        file.truncate(LONGEST + 1)
    refused("longer than 1,073,741,824 bytes", save, error=JournalError)


DEEP = "'" + "[" * 2000 + "]" * 2000 + "'"
FORGED = [
    (1, {"x": DEEP}, "recursion"),
    (1, {"x": "'3'"}, "a list and a mapping"),
    (1, {"x": "'[true]'"}, "x = True: must be a finite number"),
    (1, {"x": "'[1e999]'"}, "x = inf: must be a finite number"),
    (1, {"x": f"'[{'9' * 400}]'"}, "must be a finite number"),
    (1, {"meta": "'[1]'"}, "a list and a mapping"),
    (1, {"meta": f"'{{\"a\": {DEEP[1:-1]}}}'"}, "recursion"),
    (1, {"fidelity": "'low'"}, "fidelity is a str"),
    (1, {"fidelity": "-1"}, "fidelity = -1"),
    (1, {"id": "7"}, "id = 7"),
    (1, {"cost": "'dear'"}, "cost is a str"),
    (1, {"cost": "9e999"}, "cost = inf"),
    (1, {"cost": "-1"}, r"cost = -1\.0"),
    (1, {"seen": "5"}, "seen = 5"),
    (1, {"decision_seconds": "'long'"}, "decision_seconds is a str"),
    (1, {"evaluation_seconds": "''"}, "evaluation_seconds is a str"),
    (4, {"id": "-1"}, "id = -1"),
    (4, {"reason": "NULL"}, "reason = None: must be a text"),
    (4, {"evaluation_seconds": "x'00'"}, "evaluation_seconds is a bytes"),
    (
        5,
        {"id": "1", "kind": "'retried'", "status": "NULL", "value": "NULL", "standard_error": "NULL"},
        "a pending query",
    ),
    (5, {"value": "'high'"}, "value is a str"),
    (5, {"value": "9e999"}, "value = inf"),
    (5, {"standard_error": "'small'"}, "standard_error is a str"),
    (5, {"outcomes": "'[1]'"}, "no attribute 'items'"),
    (5, {"outcomes": "'{\"a\": 3}'"}, "must be an iterable"),
    (5, {"outcomes": "'{\"a\": [1, null, 3]}'"}, "a is met = 3"),
    (5, {"outcomes": "'{\"a\": [NaN, null, true]}'"}, "a = nan: must be a finite number"),
]


@pytest.mark.parametrize(("sequence", "values", "said"), FORGED)
def test_a_row_that_was_signed_anew_is_named(path, sequence, values, said):
    forge(path, sequence, **values)
    wrong = f"row {sequence}(: | not as a journal writes it: .*){said}"
    refused(wrong, lambda: Journal(path, read_only=True).history(), error=JournalError)
    assert sequence == 1 or salvage(path, path.with_name("b.sqlite")) == sequence - 1


def test_a_decision_that_has_seen_the_future_is_no_decision(path):
    for seen in ("-9e15", "9e15"):
        forge(path, 3, seen=seen)
        with Journal(path, read_only=True) as journal:
            refused("row 3 not as a journal writes it: seen", lambda opened: [*opened.replay()], journal)


def test_pages_that_lead_in_circles(tmp_path):
    """The children of a page, and theirs, are all the same page: its rows come again and again."""
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        journal.given(Record(i, Query((0.1 * i,), 0), 1.0).done(0.5) for i in range(1000))
        (root,) = journal._connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'event'").fetchone()
    pages = [bytearray(path.read_bytes()[i : i + 4096]) for i in range(0, path.stat().st_size, 4096)]
    top, (count,) = pages[root - 1], struct.unpack(">H", pages[root - 1][3:5])
    cells = struct.unpack(f">{count}H", top[12 : 12 + 2 * count])
    children = [struct.unpack(">I", top[at : at + 4])[0] for at in cells]
    chain = [root, *children[:6]]
    for number, child in zip(chain, [*chain[1:], children[7]], strict=True):
        page = top.copy()
        for at in (8, *cells):
            page[at : at + 4] = struct.pack(">I", child)
        pages[number - 1] = page
    path.write_bytes(b"".join(pages))
    started = time.perf_counter()
    refused(r"row \d+ follows row \d+", Journal, path, read_only=True, error=JournalError)
    refused("a journal with a good row", salvage, path, tmp_path / "new.sqlite", error=JournalError)
    assert time.perf_counter() - started < 3

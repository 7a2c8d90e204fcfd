"""Databases of strangers: another schema than a journal's, files that are none, rows that someone has signed anew."""

import os

import pytest
from journals import fill, forge
from refusals import refused

from mfbo_torch.history.storage.journal import Journal, JournalError
from mfbo_torch.history.storage.repair import salvage


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


DEEP = "'" + "[" * 2000 + "]" * 2000 + "'"
FORGED = [
    (1, {"x": DEEP}, "recursion"),
    (1, {"x": "'3'"}, "a list and a mapping"),
    (1, {"x": "'[true]'"}, "x = True: must be a finite number"),
    (1, {"x": "'[1e999]'"}, "x = inf: must be a finite number"),
    (1, {"x": f"'[{'9' * 400}]'"}, "must be a finite number"),
    (1, {"meta": "'[1]'"}, "a list and a mapping"),
    (1, {"meta": f"'{{\"a\": {DEEP[1:-1]}}}'"}, "recursion"),
    (1, {"fidelity": "'low'"}, "fidelity = 'low'"),
    (1, {"fidelity": "-1"}, "fidelity = -1"),
    (1, {"id": "7"}, "id = 7"),
    (1, {"cost": "'dear'"}, "cost = 'dear'"),
    (1, {"cost": "9e999"}, "cost = inf"),
    (1, {"cost": "-1"}, r"cost = -1\.0"),
    (1, {"seen": "5"}, "seen = 5"),
    (1, {"decision_seconds": "'long'"}, "decision_seconds = 'long'"),
    (4, {"id": "-1"}, "id = -1"),
    (4, {"reason": "NULL"}, "reason = None: must be a text"),
    (4, {"evaluation_seconds": "x'00'"}, "evaluation_seconds = b"),
    (
        5,
        {"id": "1", "kind": "'retried'", "status": "NULL", "value": "NULL", "standard_error": "NULL"},
        "a pending query",
    ),
    (5, {"value": "'high'"}, "value = 'high'"),
    (5, {"value": "9e999"}, "value = inf"),
    (5, {"standard_error": "'small'"}, "standard_error = 'small'"),
    (5, {"outcomes": "'[1]'"}, "no attribute 'items'"),
    (5, {"outcomes": "'{\"a\": 3}'"}, "must be an iterable"),
    (5, {"outcomes": "'{\"a\": [1, null, 3]}'"}, "a is met = 3"),
    (5, {"outcomes": "'{\"a\": [NaN, null, true]}'"}, "a = nan: must be a finite number"),
]


@pytest.mark.parametrize(("sequence", "values", "said"), FORGED)
def test_a_row_that_was_signed_anew_is_named(path, sequence, values, said):
    forge(path, sequence, **values)
    with Journal(path, read_only=True) as journal:
        refused(f"row {sequence} not as a journal writes it: .*{said}", journal.history, error=JournalError)


def test_a_decision_that_has_seen_the_future_is_no_decision(path):
    for seen in ("-9e15", "'x'", "9e300"):
        forge(path, 3, seen=seen)
        with Journal(path, read_only=True) as journal:
            refused("row 3 not as a journal writes it: seen", lambda opened: [*opened.replay()], journal)

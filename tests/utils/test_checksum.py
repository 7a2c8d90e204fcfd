"""Rows that are not as they were written are found and named."""

from hashlib import blake2b

import pytest
from journals import change, fill

from mfbo_torch.history import History, Query
from mfbo_torch.history.storage.journal import Journal, JournalError
from mfbo_torch.utils.checksum import chained, spans, wrong

CHANGES = [
    "UPDATE event SET value = 4.0 WHERE sequence = 5",
    "UPDATE event SET x = '[0.0, 0.5]' WHERE sequence = 1",
    "UPDATE event SET meta = '{}' WHERE sequence = 3",
    "UPDATE event SET cost = 1.25 WHERE sequence = 2",
    "UPDATE event SET seen = 1 WHERE sequence = 3",
    "UPDATE event SET reason = 'none' WHERE sequence = 4",
    "UPDATE event SET checksum = x'00' WHERE sequence = 3",
    "DELETE FROM event WHERE sequence = 4",
    "DELETE FROM event WHERE sequence = 1",
    "UPDATE event SET sequence = 6 WHERE sequence = 5",
]


@pytest.mark.parametrize("statement", CHANGES)
def test_a_changed_row_is_named(tmp_path, statement):
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        fill(journal)
    change(path, statement)
    before = path.read_bytes()
    row = 4 if "= 4" in statement and "DELETE" in statement else int(statement[-1])
    for read_only in (True, False):
        with pytest.raises(JournalError, match=f"must be an undamaged journal: row {row}\\b.*; mfbo repair saves"):
            Journal(path, read_only=read_only)
    assert path.read_bytes() == before


def test_numbers_of_every_kind_are_stored_as_they_are_signed(tmp_path):
    """A cost that is whole, a zero with a sign, no time at all: what comes back is what was signed."""
    record = History().asked(Query((1, -0.0), True, {"a": 1}), 3).records[0]
    with Journal(tmp_path / "a.sqlite") as journal:
        journal.asked([record])
        journal.ended(record.done(-0.0, evaluation_seconds=float("nan"), cost=2))
    with Journal(tmp_path / "a.sqlite", read_only=True) as journal:
        assert journal.history().records[0].cost == 2


def test_a_checksum_is_of_the_columns_that_have_a_value():
    """Their names and values in the order of the names, whatever these are."""
    for row in (
        {"b": 1.5, "a": "é\ud800", "checksum": b"x", "c": None},
        {"100%s": (1, 2)},
        {"%r": -0.0, "'": b"%"},
        {},
    ):
        known = repr(sorted((name, value) for name, value in row.items() if value is not None and name != "checksum"))
        content = known.encode("utf-8", "surrogatepass")
        assert list(chained([row], b"before")) == [blake2b(content, digest_size=8, key=b"before").digest()]


def test_a_chain_by_hand():
    rows = [{"sequence": i, "value": float(i)} for i in (1, 2, 3)]
    signed = [{**row, "checksum": sign} for row, sign in zip(rows, chained(rows), strict=True)]
    assert list(wrong(signed)) == []
    assert list(wrong([{**row, "later": None} for row in signed])) == []
    assert list(wrong([signed[0], {**signed[1], "value": 2.5}, signed[2]])) == [2]
    assert list(wrong([signed[0], {**signed[1], "checksum": b"8 bytes."}, signed[2]])) == [2, 3]
    assert list(wrong([signed[0], signed[2]])) == [2]
    assert spans([3, 17, 18, 19, 21]) == "3, 17 to 19, 21"

"""The five programs run as they stand, and the page says how long they are."""

import pytest

from benchmarks.first_result import PAGE, lines, programs, seconds

PROGRAMS = programs()


def test_there_are_five():
    rows = [f"| {user} | {lines(text)} | " for user, text in PROGRAMS.items()]
    assert len(rows) == 5
    assert all(row in PAGE.read_text("utf-8") for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("user", PROGRAMS)
def test_each_has_its_result(user):
    assert 0 < seconds(PROGRAMS[user]) < 120

"""Figures on the pages are those of the results."""

import pytest

from benchmarks.figures import quoted


def test_pages_quote_the_results():
    assert quoted.wrong() == []


@pytest.mark.parametrize(
    ("value", "shown", "right"),
    [
        *((0.4153, "0.4", True), (2.038, "2.0", True), (0.00034, "4e-4", False), (3.5e-15, "0", True)),
        *((0.4, "0", False), (1234.4, "1,234", True), (-0.047, "-0.048", False), (float("inf"), "3", False)),
        *((0.0015, "0.1", False), (0.05, "0.0", True), (12.6, "13", True)),
    ],
)
def test_rounding(value, shown, right):
    assert quoted.rounds_to(value, shown) == right


def test_a_wrong_figure_is_named():
    """Line breaks and bold figures count for nothing, a figure that is gone is an error too."""
    quote = quoted.Quote("a.md", "takes {} s, and {} s there", [0.41, 2.04])
    assert [*quoted.check(quote, "It takes\n0.4 s, and **2.0** s there.")] == []
    (said,) = quoted.check(quote, "It takes 0.5 s, and 2.0 s there.")
    assert "has 0.5, the results have 0.41" in said
    (said,) = quoted.check(quote, "It takes long.")
    assert said.startswith("a.md: there is no")

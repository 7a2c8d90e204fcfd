"""An objective that breaks in the same way from the start is not asked on, and what it took costs nothing."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from toy import Hill, Patient, Walk

from mfbo_torch import Space, minimize
from mfbo_torch.history import GIVEN, Query, Record, Status
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.early_failures import ALIKE, Hopeless
from mfbo_torch.loop.run_options import RunOptions
from mfbo_torch.loop.runner import drive, run
from mfbo_torch.problems import UserProblem


class Broken(Hill):
    """Breaks in the ways of ``whys``, one an evaluation, then no more."""

    def __init__(self, *whys: str):
        super().__init__()
        self.whys = list(whys)

    def evaluate(self, x, fidelity):
        if self.whys:
            raise KeyError(self.whys.pop(0))
        return super().evaluate(x, fidelity)


class Nothing(Hill):
    def evaluate(self, x, fidelity):
        return float("nan")


class Wrong(Hill):
    """Returns what is no observation, with another value for each design."""

    def __init__(self, form):
        super().__init__()
        self.form = form

    def evaluate(self, x, fidelity):
        return self.form(super().evaluate(x, fidelity))


def quiet(problem, capital=40.0, **settings):
    return run(problem, Walk(), capital, progress=False, **settings)


@pytest.mark.parametrize("threads", [0, 3])
def test_the_same_three_times_ends_a_run_and_is_free(tmp_path, threads):
    how = {"executor": ThreadPoolExecutor(threads) if threads else None, "max_pending": threads or 1}
    with Journal(tmp_path / "a.sqlite") as journal:
        with pytest.raises(
            Hopeless, match=r"^the first [3-5] evaluations broke in the same way, with KeyError"
        ) as error:
            quiet(Broken(*["widht"] * 9), journal=journal, **how)
        assert "test_early_failures.py" in str(error.value)
        assert "\n" not in str(error.value)
        assert not error.value.spent
        asked = journal.history()
        assert ALIKE <= len(asked) <= ALIKE + threads
        assert len(asked.pending) == len(asked)
        with pytest.raises(Hopeless, match="broke in the same way"):  # not repaired yet: nothing new is asked
            quiet(Broken(*["widht"] * 9), journal=journal)
        assert [r.query for r in journal.history()] == [r.query for r in asked]
        repaired = quiet(Hill(), journal=journal)
    assert not repaired.select(Status.FAILED)
    assert repaired.spent == sum(Hill().space.costs[r.query.fidelity] for r in repaired.done) <= 40.0


@pytest.mark.parametrize(
    "form",
    [
        lambda value: np.array([value, value]),
        lambda value: (value, -1.0 - abs(value)),
        lambda value: (value, value, value),
        lambda value: {"loss": value},
        lambda value: {"value": value, "standard_error": -1.0 - abs(value)},
        str,
    ],
    ids=["array", "no deviation", "triple", "no value", "negative error", "text"],
)
def test_the_same_wrong_return_ends_a_run_whatever_its_numbers(form):
    said = rf"^the first {ALIKE} evaluations broke in the same way, with SettingError: .* \(they cost nothing more\)$"
    with pytest.raises(Hopeless, match=said) as caught:
        quiet(Wrong(form))
    assert ".py" not in str(caught.value), "where the package found it helps nobody"


def test_a_dict_taken_for_a_number_is_explained():
    problem = UserProblem(lambda wrong: wrong**2, {"rate": (0, 1)}, costs=[1])
    with pytest.raises(Hopeless, match="an argument without a parameter's name is a dict of all of them"):
        quiet(problem)


def test_different_wrong_returns_are_failures():
    forms = iter([str, lambda value: {"loss": value}, str])
    history = quiet(Wrong(lambda value: next(forms, float)(value)), 60.0)
    assert [r.status for r in history][:4] == [Status.FAILED] * 3 + [Status.DONE]


def test_other_failures_are_failures():
    """Two of one kind and another, or a value, are not the objective's mistake; nor is what is no exception."""
    for whys in (["a", "a", "b", "a", "a", "a"], ["a", "a"]):
        history = quiet(Broken(*whys), 60.0)
        assert [r.status for r in history][: len(whys)] == [Status.FAILED] * len(whys)
        assert history.done
    with pytest.raises(Hopeless, match=r"^all 10 evaluations failed, the last with the value is not finite"):
        quiet(Nothing(), 1000.0)
    with pytest.raises(Hopeless, match=r"^all 2 evaluations failed, the last with KeyError"):
        quiet(Broken("a", "a"), 2.0)


def test_what_a_run_began_with_is_no_value():
    given = [Record(0, Query((1.0,), 1, GIVEN), 0.0, 0.5, Status.DONE)]
    for problem, said in ((Broken(*["a"] * 9), "broke in the same way"), (Nothing(), "^all 10 evaluations failed")):
        with pytest.raises(Hopeless, match=said):
            drive(problem, Walk(), 1000.0, RunOptions(1), progress=False, given=given)


def test_retries_come_first():
    with pytest.raises(Hopeless, match="broke in the same way"):
        quiet(Broken(*["a"] * 9), 60.0, retries=1)
    assert quiet(Broken("a", "a", "a", "a"), 60.0, retries=2).done


@pytest.mark.parametrize("threads", [0, 3])
def test_nothing_waits_for_what_is_held_back(threads):
    """A query that is held back is pending, but no value will come of it."""
    how = {"executor": ThreadPoolExecutor(threads) if threads else None, "max_pending": threads or 1}
    history = run(Broken("once"), Patient(every=99), 3.0, progress=False, **how)
    assert [record.status for record in history].count(Status.DONE) == 2


@pytest.mark.parametrize("threads", [0, 2])
def test_a_run_goes_on_where_what_is_left_paid_for_no_more_of_the_first(threads):
    """Trainings that fail in their first epoch are held back at their full cost, and charged for that epoch alone."""

    def training(parameters, trial):
        for epoch in trial.epochs():
            if parameters["rate"] > 0.6:
                raise RuntimeError("diverged")
            trial.report(parameters["rate"] + 1 / epoch)

    with ThreadPoolExecutor(threads or 1) as pool:
        settings = {"executor": pool if threads else None, "max_pending": threads or None, "progress": False}
        result = minimize(training, Space({"rate": (0.0, 1.0)}, epochs=27), 60, strategy="RandomSearch", **settings)
    assert result.spent > 27

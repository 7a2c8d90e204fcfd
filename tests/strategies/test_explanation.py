"""Why a query was made, in words, and by how much its value surprised."""

import math
from dataclasses import replace

import pytest
import torch
from strategy_table import ROWS, SPACE, each, loop, toy
from toy import Hill

from mfbo_torch.history import ENQUEUED, GIVEN, History, Query
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import GPUCB, MFGPUCB, RandomSearch
from mfbo_torch.strategies.explanation import FIXED, Explanation
from mfbo_torch.utils.errors import SettingError

EPOCHS = Space((Parameter("rate", 0.0, 1.0),), (1.0, 4.0), fidelities={"epochs": [3, 12]})
MODEL = {"stage": "model", "mean": -0.5, "deviation": 0.3, "spread": 0.5}


def told(meta: dict, value: float | None = None, fidelity: int = 0, **done) -> History:
    """One query that notes something, with its value."""
    history = History().asked(Query((0.25,), fidelity, meta), 1.0)
    return history if value is None else history.updated(history.records[0].done(value, **done))


def text(history: History, signed=float, space: Space = EPOCHS) -> str:
    return str(Explanation(history.records[-1], history, space, signed))


@pytest.mark.parametrize("row", each(ROWS))
def test_every_query_of_every_strategy_is_explained(row):
    """What was expected is what the model predicted before it knew the value."""
    strategy = row.make(0).bind(row.adapt(row.space), row.capital)
    history = loop(strategy, toy(row.space), row.steps)
    for record in history:
        said = Explanation(record, history, row.space)
        assert str(said).startswith(f"Query {record.id} ")
        assert "notes no reason" not in str(said)
        assert said.outcome.startswith("The value was ")
        meta = record.query.meta
        if "mean" in meta and "model" not in meta:
            before = History(history.records[: record.id])
            mean, deviation = strategy.predict(before, torch.tensor([record.query.x], dtype=torch.double))
            m = record.query.fidelity
            assert (meta["mean"], meta["deviation"]) == pytest.approx(
                (mean[0, m].item(), deviation[0, m].item()), rel=1e-4
            )
        if "mean" in meta:
            assert meta["spread" if "spread" in meta else "deviation"] >= meta["deviation"]
            assert f"{meta['mean'] + 0.0:.5g} ± {meta['deviation']:.2g}" in said.why


def test_what_each_fidelity_explains_is_the_share_of_the_variance_that_goes_through_it():
    """Independent of the thresholds: the variance left at the target once a fidelity is known exactly there."""
    strategy = MFGPUCB(initial_capital=2.0, hedge=False).bind(SPACE, 40.0)
    history = loop(strategy, toy(SPACE), 9)
    record = next(r for r in reversed(history.records) if "explains" in r.query.meta)
    before = History(history.records[: record.id])
    model = strategy.rule.model(strategy.snapshot(before))
    u = SPACE.to_unit(torch.tensor([record.query.x], dtype=torch.double))
    with torch.no_grad():
        joint = model.posterior(torch.cat([u.repeat(2, 1), torch.tensor([[0.0], [1.0]])], -1)).mvn.covariance_matrix
    share = joint[0, 1] ** 2 / (joint[0, 0] * joint[1, 1])
    assert record.query.meta["explains"] == pytest.approx([share.item()], rel=0.02)
    assert record.query.meta["enough"] == [0.25]
    assert f"explains {share:.0%}" in Explanation(record, history, SPACE).why


@pytest.mark.parametrize(("value", "z"), [(0.0, 1.0), (-2.0, -3.0), (-0.5, 0.0)])
def test_the_surprise_is_in_standard_deviations_of_the_observation(value, z):
    history = told(MODEL, value)
    assert Explanation(history.records[0], history, EPOCHS).surprise == pytest.approx(z)
    noisy = told(MODEL, value, standard_error=0.4)
    assert Explanation(noisy.records[0], noisy, EPOCHS).surprise == pytest.approx((value + 0.5) / math.hypot(0.3, 0.4))


def test_values_are_in_the_sign_of_the_problem():
    signed = Hill(maximize=False).signed
    said = text(told(MODEL, -2.0), signed)
    assert "expected 0.5 ± 0.3 at epochs = 3" in said
    assert "The value was 2, a surprise: 3.0 standard deviations worse than expected." in said
    assert "3.0 standard deviations worse" in text(told(MODEL, -2.0))
    assert "was 0," in text(told(MODEL, -0.0), signed)


@pytest.mark.parametrize("stage", [*FIXED, "verify", "own", None])
def test_stages(stage):
    said = text(told({} if stage is None else {"stage": stage}))
    assert said == f"Query 0 {FIXED.get(stage, 'was chosen by the strategy, which notes no reason')}. " + (
        "Its value is still to come."
    )


def test_ends_without_a_value():
    history = told(MODEL)
    record = history.records[0]
    assert text(history.updated(record.failed("ValueError: no\n  line 3"))).endswith("It failed: ValueError: no.")
    assert "stopped at step 2" in text(history.updated(record.stopped("stopped at step 2")))


@pytest.mark.parametrize(
    "meta",
    [
        {"stage": 3, "model": [], "mean": "much", "deviation": None, "shares": 4, "explains": {}, "check": "x"},
        {"stage": "model", "mean": math.nan, "deviation": 1.0, "explains": ["a"], "enough": [1.0], "in_flight": "two"},
        {"stage": "model", "mean": 1.0, "deviation": -1.0, "shares": {"linked": "all"}, "explains": [0.5] * 9},
        {"stage": "verify", "node": 1, "because": "<b>", "mean": 1.0, "explains": [], "enough": []},
    ],
)
def test_notes_of_a_stranger_are_no_error(meta):
    assert text(told(meta, 1.0, fidelity=1)).startswith("Query 0 ")


def test_an_optimizer_explains_its_queries():
    optimizer = Optimizer(RandomSearch(space=EPOCHS))
    record = optimizer.ask()[0]
    waiting = optimizer.ask()[0]
    optimizer.tell(record.id, 2.0)
    said = optimizer.explain(record)
    assert said == optimizer.explain(0) == optimizer.explain(record.query)
    assert said.startswith("Query 0 is a random design; no model proposed it. The value was 2. It is the best value at")
    assert "The values of one other query were still to come." in optimizer.explain(waiting)
    for wrong in (2, -1, "0", replace(record.query, fidelity=0)):
        with pytest.raises(SettingError):
            optimizer.explain(wrong)
    assert optimizer.add({"rate": 0.5}, 1, 3.0).query.meta == GIVEN
    assert optimizer.enqueue({"rate": 0.1}).query.meta == ENQUEUED
    assert "cost nothing" in optimizer.explain(2)
    assert "asked for by hand" in optimizer.explain(3)


def test_batches_say_what_was_still_out():
    strategy = GPUCB(initial=2).bind(EPOCHS, 40.0)
    history = loop(strategy, toy(EPOCHS), 3)
    for query in strategy.ask(history, 3):
        history = history.asked(query, 1.0)
    assert [r.query.meta.get("in_flight", 0) for r in history.records[-3:]] == [0, 1, 2]

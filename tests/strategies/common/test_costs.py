"""Costs that depend on the design, and what they predict."""

import json
import math
import re
from dataclasses import replace

import dense
import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import Matern
from toy import Hill

from mfbo_torch.app.cli import main
from mfbo_torch.history import History, Query
from mfbo_torch.loop.eta import Forecast, duration, forecast
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.loop.progress import Progress
from mfbo_torch.models import cost_model
from mfbo_torch.models.cost_model import MIN_RECORDS, CostModel
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import MFGPUCB, RandomSearch
from mfbo_torch.strategies.snapshot import Snapshot

NOMINAL = (1.0, 10.0, 100.0)


def seconds(points: torch.Tensor) -> torch.Tensor:
    """A training of which the width costs, with a start that every fidelity pays."""
    return 0.5 + torch.tensor([0.1, 1.0, 10.0]).double()[points[:, -1].long()] * (0.2 + 4 * points[:, 0] ** 2)


def test_log_cost_is_the_average_of_dense_processes():
    """Each hypothesis conditioned by hand, its coefficients as part of the covariance."""
    points, test = dense.points(3, 12), dense.points(3, 5, seed=2)
    Y = (seconds(points).log() - torch.tensor(NOMINAL).double().log()[points[:, -1].long()]).numpy()
    below = np.log(np.array(NOMINAL)) - math.log(NOMINAL[-1])

    def parts(p: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        x, ratio = p[:, :-1].numpy(), below[p[:, -1].long().numpy()]
        return np.c_[x, 1 - ratio / below[0]], np.c_[np.ones(len(p)), x - 0.5, ratio]

    (X, H), (Xt, Ht) = parts(points), parts(test)
    V = np.diag([cost_model.OFFSET, cost_model.SLOPE, cost_model.SLOPE, cost_model.GROWTH])
    logs, means, noises = [], [], []
    for scale in cost_model.OUTPUTSCALES:
        for length in cost_model.LENGTHSCALES:
            k = Matern(length * math.sqrt(X.shape[1]), nu=2.5)
            for noise in cost_model.NOISES:
                C = scale * k(X) + H @ V @ H.T + noise * np.eye(len(X))
                logs.append(multivariate_normal(np.full(len(Y), Y.mean()), C).logpdf(Y))
                means.append(Y.mean() + (scale * k(Xt, X) + Ht @ V @ H.T) @ np.linalg.solve(C, Y - Y.mean()))
                noises.append(noise)
    w = np.exp(np.array(logs) - max(logs))
    w = np.where(w > 1e-3, w, 0)
    w /= w.sum()
    levels = test[:, -1].long()
    wanted = np.log(np.array(NOMINAL))[levels.numpy()] + w @ np.array(means) + 0.5 * w @ np.array(noises)
    found = CostModel(points, seconds(points), NOMINAL)(test[:, :-1])
    assert found.shape == (5, 3)
    assert torch.allclose(found.log().gather(1, levels[:, None])[:, 0], torch.from_numpy(wanted), atol=1e-6)


def test_log_cost_beats_the_mean_and_knows_what_never_ran():
    points, test = dense.points(3, 30), dense.points(3, 200, seed=2)
    points[:, -1].clamp_(max=1)  # the target never ran
    found = CostModel(points, seconds(points), NOMINAL)(test[:, :-1])
    for m, most in ((0, 0.1), (1, 0.1), (2, 0.8)):
        truth = seconds(torch.cat([test[:, :-1], torch.full((200, 1), m)], -1))
        off = (found[:, m] / truth).log().abs().mean()
        assert off < most
        if m < 2:
            assert off < (seconds(points[points[:, -1] == m]).mean() / truth).log().abs().mean() / 3


def timed(n: int, measured: bool = True) -> tuple[Space, History]:
    space = Space((Parameter("width", 1.0, 100.0, log=True),), (1.0, 10.0), measured)
    history = History()
    for i in range(n):
        x = 100 ** (i / max(n - 1, 1))
        history = history.asked(Query((x,), i % 2, {"stage": "model"}), 1.0, decision_seconds=0.5)
        cost = (2.0, 20.0)[i % 2] * x
        history = history.updated(history.records[-1].done(-x, cost=cost, evaluation_seconds=cost))
    return space, history


def test_costs_at_a_design():
    space, history = timed(MIN_RECORDS)
    strategy, u = RandomSearch(space=space), torch.tensor([0.5])
    costs_at = lambda history, strategy=strategy: strategy.snapshot(history).costs_at(u)  # noqa: E731
    assert costs_at(history) == pytest.approx((20.0, 200.0), rel=0.05)
    assert strategy.cost(Query((1.0,), 1), history) == pytest.approx(20.0, rel=0.05)
    assert costs_at(history) == RandomSearch(space=space, seed=3).snapshot(history).costs_at(u[None])
    few = History(history.records[:-1])
    assert costs_at(few) == strategy.costs(few)
    free = [replace(r, id=i, cost=0.0) for i, r in enumerate(history)]  # those a run begins with
    assert costs_at(History([replace(r, id=i) for i, r in enumerate([*free, *history])])) == costs_at(history)
    assert costs_at(History([replace(r, cost=r.cost + 7, sunk=7.0) for r in history])) == costs_at(history)
    hung = replace(few.records[0], cost=few.records[0].cost + 3600, sunk=3600.0)
    assert costs_at(few.updated(hung)) == costs_at(few)
    given, history = timed(MIN_RECORDS, measured=False)
    assert costs_at(history, RandomSearch(space=given)) is given.costs


def test_budget_counts_what_a_design_costs():
    """What is left pays for a cheap design and not for the mean one."""
    space, history = timed(2 * MIN_RECORDS)

    class Cheap(RandomSearch):
        def decide(self, history: History) -> Query:
            return Query((1.0,), 1)

    optimizer = Optimizer(Cheap(space=space))
    optimizer.give(list(history))
    assert max(optimizer.strategy.costs(history)) > 100
    (record,) = optimizer.ask(capital=history.spent + 25)
    assert record.cost == pytest.approx(20.0, rel=0.1)
    assert optimizer.ask(capital=history.spent + 25) == []


def test_fidelity_is_chosen_by_costs_at_the_design(monkeypatch):
    """Where the target costs hardly more than the approximation, the target is asked."""
    space = Space((Parameter("x", 0.0, 10.0),), (1.0, 10.0), measured=True)
    problem, strategy = Hill(), MFGPUCB(space=space, hedge=False)
    optimizer = Optimizer(strategy)
    for _ in range(14):
        (record,) = optimizer.ask()
        x, fidelity = record.query.x, record.query.fidelity
        optimizer.tell(record.id, problem.reward(x, fidelity), cost=space.costs[fidelity])
    snapshot = strategy.snapshot(optimizer.history)
    model = strategy.rule.model(snapshot)
    asked = {}
    for ratio in (1e-6, 0.999):
        monkeypatch.setattr(Snapshot, "costs_at", lambda self, u, r=ratio: (10.0 * r, 10.0))
        asked[ratio] = strategy.rule.level(model, torch.tensor([[0.3]]).double(), snapshot).fidelity
    assert asked == {1e-6: 0, 0.999: 1}


@pytest.mark.parametrize("workers", [1, 4])
def test_forecast(workers):
    space, history = timed(2 * MIN_RECORDS, measured=False)
    strategy = RandomSearch(space=space)
    found = forecast(strategy, history, history.spent + 10.5 * ((1 + 10) / 2), workers)
    evaluating = sum(r.evaluation_seconds for r in history) / len(history)
    assert found.evaluations == 10
    assert found.seconds == pytest.approx(10 * evaluating / workers + (5.0 if workers == 1 else 0.0))
    assert forecast(strategy, history, history.spent) is None
    assert forecast(strategy, History(history.records[:2]), 1e9) is None
    initial = History(replace(r, query=replace(r.query, meta={"stage": "initial"})) for r in history)
    assert forecast(strategy, initial, 1e9) is None
    pending = history.asked(Query((1.0,), 0), 1.0)
    assert forecast(strategy, pending, pending.spent).evaluations == 0
    space, history = timed(2 * MIN_RECORDS)
    found = forecast(RandomSearch(space=space), history, 2 * history.spent, workers)
    assert found.evaluations == pytest.approx(20, abs=1)
    assert found.seconds == pytest.approx(history.spent / workers, rel=0.2)


def test_forecast_in_words_and_in_the_bar(monkeypatch):
    assert str(Forecast(14, 7200.0)) == "about 14 more evaluations, 2.0 h"
    assert str(Forecast(1, 30.0)) == "about 1 more evaluation, 30.0 s"
    assert duration(600) == "10.0 min"
    history = History().asked(Query((0.5,), 1), 4.0)
    with Progress(Hill(), 60.0, True, lambda history: Forecast(14, 7200.0)) as bar:
        bar.show(history.updated(history.records[0].done(-1.0)))
        assert bar.bar is not None
        assert bar.bar.postfix == "best -1, queries 0/1, at target"  # what fits 80 columns
    monkeypatch.setenv("COLUMNS", "160")
    with Progress(Hill(), 60.0, True, lambda history: Forecast(14, 7200.0)) as bar:
        bar.show(history.updated(history.records[0].done(-1.0)))
        assert bar.bar is not None
        assert "about 14 more evaluations, 2.0 h" in bar.bar.postfix
        assert "56 left" in bar.bar.postfix


def test_forecast_is_shown(tmp_path, capsys):
    out = tmp_path / "out"
    flags = ["--problem", "toy.Hill", "--strategy", "toy.Walk", "--out", str(out)]
    assert main(["run", *flags, "--capital", "60"]) == 0
    capsys.readouterr()
    assert json.loads((out / "summary.json").read_text())["forecast"] is None
    config = out / "config.yaml"
    config.write_text(config.read_text().replace("capital: 60.0", "capital: 600.0"))
    assert main(["show", str(out), "--html"]) == 0
    assert re.search(r"To come\W.*about 1", (out / "report.html").read_text(), re.S)

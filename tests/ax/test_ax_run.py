"""A whole experiment in Ax: every decision is that of ask and tell, through failures and storage."""

import importlib.util
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import strategy_table
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax_problem import COSTS, NAMES, SPACE, Run, client_of, loss, sixty_trials

from mfbo_torch import MFGPUCB, Optimizer, Query, strategies
from mfbo_torch.ax import best_point, multi_fidelity_client
from mfbo_torch.strategies.common.initial_design import sobol
from mfbo_torch.utils.global_state import GlobalState


def from_json(tmp_path):
    def reload(client):
        path = str(tmp_path / "snapshot.json")
        client.save_to_json_file(path)
        return Client.load_from_json_file(path)

    return reload


def strategy_of(link: str) -> MFGPUCB:
    return MFGPUCB(link=link, initial_capital=1.0, hedge=False, seed=1)


@pytest.mark.slow
def test_sixty_trials_in_sqlite(database):
    client = client_of(strategy_of("recursive"), storage_config=database)
    optimizer = Optimizer(strategy_of("recursive").bind(SPACE))
    run = Run(client, optimizer, lambda client: Client.load_from_database("run", database))
    sixty_trials(run)
    history = run.optimizer.history
    assert len(run.client._experiment.trials) == len(history) == 60
    assert sum(record.status == "failed" for record in history) == 7
    assert history.best(2) is not None
    best = best_point(run.client)
    assert best.parameters["fidelity"] == 2
    assert sum(best.spent) == pytest.approx(history.spent)
    points = SPACE.from_unit(sobol(2, int(sum(best.spent) / COSTS[-1]), 0)).tolist()
    assert best.observed < min(loss({**dict(zip(NAMES, x, strict=True)), "fidelity": 2}) for x in points)


@pytest.mark.slow
def test_checks_and_thresholds_survive_json(tmp_path):
    """The published method's ζ, γ and checks are folds over what Ax keeps of each query."""
    strategy = strategy_of("independent")
    run = Run(client_of(strategy), Optimizer(strategy_of("independent").bind(SPACE)), from_json(tmp_path))
    sixty_trials(run, trials=25)
    assert any("check" in record.query.meta for record in run.optimizer.history)


def test_batches_of_eight(tmp_path):
    run = Run(client_of(strategies.GPBUCB()), Optimizer(strategies.GPBUCB(space=SPACE)), from_json(tmp_path))
    for _ in range(3):
        run.ask(8)
        run.store()
        for _ in range(8):
            run.end()
    assert best_point(run.client).parameters["fidelity"] == 2


@pytest.mark.parametrize("row", strategy_table.each(strategy_table.ROWS))
def test_every_strategy(row, tmp_path):
    """Whatever is in the table of strategies runs in Ax, and through its storage, as by ask and tell."""
    space = row.adapt(row.space)
    value = strategy_table.toy(space)
    configs = []
    for p in space.parameters:
        kind, scaling = "int" if p.integer else "float", "log" if p.log else None
        configs.append(RangeParameterConfig(p.name, (p.lower, p.upper), kind, scaling=scaling))
    client = multi_fidelity_client(configs, space.costs, "y", row.make(0).bind(space, row.capital))
    optimizer = Optimizer(row.make(0).bind(space, row.capital))
    for _ in range(min(3, row.steps // 2)):
        trials = client.get_next_trials(max_trials=2)
        records = optimizer.ask(2)
        asked = [Query(tuple(p[n.name] for n in space.parameters), p["fidelity"]) for p in trials.values()]
        assert [(q.x, q.fidelity) for q in asked] == [(r.query.x, r.query.fidelity) for r in records]
        client = from_json(tmp_path)(client)
        for record in reversed(records):
            y = value(record.query)
            client.complete_trial(record.id, {"y": y})
            optimizer.tell(record.id, round(y, 10))


def test_an_objective_in_the_same_process_cannot_change_decisions():
    def trials(careless):
        client, found = client_of(strategy_of("recursive")), []
        for _ in range(9):
            ((index, parameters),) = client.get_next_trials(max_trials=1).items()
            found.append(parameters)
            client.complete_trial(index, {"loss": loss(parameters)})
            if careless:
                torch.set_grad_enabled(False)
                torch.manual_seed(0)
                np.seterr(all="raise")
        return found

    clean, state = trials(False), GlobalState()
    with state.restored():
        assert trials(True) == clean


def test_two_failures_do_not_stop_the_script_that_tunes_the_svm(monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("ax_svm", Path(__file__).parents[2] / "configs" / "ax_svm.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "ProcessPoolExecutor", ThreadPoolExecutor)
    monkeypatch.setattr(script.SVM, "evaluate", lambda self, x, fidelity: -(math.log10(x[0]) ** 2) - 0.1 * x[1])
    clients = []
    make = script.multi_fidelity_client
    monkeypatch.setattr(script, "multi_fidelity_client", lambda *a, **k: clients.append(make(*a, **k)) or clients[0])
    script.tune(trials=13)
    assert clients[0].summarize()["trial_status"].value_counts().to_dict() == {"COMPLETED": 11, "FAILED": 2}
    assert "'fidelity': 1}" in capsys.readouterr().out

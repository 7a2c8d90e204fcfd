"""A run as a study of Optuna: every query as a trial, the best one that of the run."""

import json
from wsgiref.util import setup_testing_defaults

import pytest
import yaml
from command_line import fails
from pages import EVIL, PARAMETERS, hostile, made

from mfbo_torch.app import cli
from mfbo_torch.history import History, Query, Status
from mfbo_torch.history.observation import Outcome
from mfbo_torch.problems.user.function import FunctionProblem
from mfbo_torch.space import Parameter, Space
from mfbo_torch.space.objectives import objectives_of

optuna = pytest.importorskip("optuna")
export = pytest.importorskip("mfbo_torch.optuna.export")


def loaded(path):
    storage = f"sqlite:///{path}"
    (name,) = optuna.get_all_study_names(storage)
    return optuna.load_study(study_name=name, storage=storage)


def test_every_query_is_a_trial(tmp_path):
    run = hostile(40)
    assert export.write(run.history, run.problem, tmp_path / "a.db", lambda record: f"because {record.id}") == 40
    study = loaded(tmp_path / "a.db")
    assert study.direction == optuna.study.StudyDirection.MINIMIZE
    best = min((r for r in run.history.done if r.query.fidelity == 1), key=lambda r: -r.value)
    assert (study.best_trial.number, study.best_value) == (best.id, -best.value)
    for record, trial in zip(run.history, study.trials, strict=True):
        assert [trial.params[name] for name in PARAMETERS] == pytest.approx(record.query.x, rel=1e-12)
        assert trial.params["fidelity"] == record.query.fidelity
        assert trial.user_attrs["cost"] == record.cost
        assert trial.user_attrs["why"] == f"because {record.id}"
        assert trial.user_attrs.get("reason") == (record.reason or None)
        below = record.status == Status.DONE and record.query.fidelity == 0
        assert trial.state == (optuna.trial.TrialState.PRUNED if below else export.STATES[record.status])
        if below:
            assert trial.intermediate_values == {0: pytest.approx(-record.value)}
    assert EVIL in study.best_params


def test_choices_conditions_and_epochs(tmp_path):
    space = Space(
        (Parameter("kind", choices=["sgd", None, 3]), Parameter("momentum", 0.0, 1.0, when={"kind": "sgd"})),
        (1.0, 3.0),
        fidelities={"epochs": [3, 9]},
    )
    problem = FunctionProblem(lambda kind, momentum, epochs: 1.0, space, maximize=True)
    history = made(problem, 30)
    assert export.write(history, problem, tmp_path / "a.sqlite3") == 30
    trials = loaded(tmp_path / "a.sqlite3").trials
    for record, trial in zip(history, trials, strict=True):
        assert {k: v for k, v in trial.params.items() if k != "epochs"} == space.named(record.query.x)
        assert trial.params["epochs"] == (3, 9)[record.query.fidelity]


def test_several_objectives(tmp_path):
    space = Space(
        (Parameter("a", 0.0, 1.0),), (1.0,), objectives=objectives_of({"loss": "minimize", "hits": "maximize"})
    )
    problem = FunctionProblem(lambda a: {"loss": a, "hits": a}, space, maximize=False)
    history = History()
    for a, loss, hits in ((0.1, 1.0, 1.0), (0.2, 2.0, 5.0), (0.3, 3.0, 4.0)):
        history = history.asked(Query((a,), 0), 1.0)
        seen = {"loss": Outcome(loss, None, True), "hits": Outcome(hits, None, True)}
        history = history.updated(history.records[-1].done(-loss, outcomes=seen))
    export.write(history, problem, tmp_path / "a.db")
    study = loaded(tmp_path / "a.db")
    assert study.metric_names == ["loss", "hits"]
    assert [trial.number for trial in study.best_trials] == [0, 1]
    assert study.trials[1].values == [2.0, 5.0]


def test_the_dashboard_of_optuna_opens_it(tmp_path):
    wsgi = pytest.importorskip("optuna_dashboard", reason="optuna-dashboard is not installed").wsgi
    run = hostile(40)
    export.write(run.history, run.problem, tmp_path / "a.db")
    app = wsgi(optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'a.db'}"))

    def asked(path):
        environment, statuses = {}, []
        setup_testing_defaults(environment)
        body = b"".join(app({**environment, "PATH_INFO": path}, lambda status, *_: statuses.append(status)))
        return statuses[0], body

    assert asked("/dashboard/")[0] == "200 OK"
    (study,) = json.loads(asked("/api/studies")[1])["study_summaries"]
    shown = json.loads(asked(f"/api/studies/{study['study_id']}")[1])
    assert (shown["directions"], len(shown["trials"])) == (["minimize"], 40)
    assert {parameter["name"] for parameter in shown["trials"][0]["params"]} == {*PARAMETERS, "fidelity"}


def test_the_command(tmp_path, capsys):
    settings = {"problem": "toy.Hill", "strategy": "toy.Walk", "capital": 14}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(settings))
    out = tmp_path / "what? 1%41"
    assert cli.main(["run", str(tmp_path / "run.yaml"), "--out", str(out)]) == 0
    capsys.readouterr()
    assert cli.main(["export", str(out), "--to", "optuna"]) == 0
    assert f"trials in {out / 'study.db'}" in capsys.readouterr().out
    assert cli.main(["export", str(out), str(tmp_path / "a.db"), "--to", "optuna"]) == 0
    assert loaded(tmp_path / "a.db").best_trial.user_attrs["why"].startswith("Query ")
    capsys.readouterr()
    fails(capsys, ["export", str(out), str(tmp_path / "a.csv"), "--to", "optuna"], "ends with .db or .sqlite3")
    fails(capsys, ["export", str(out), str(tmp_path / "no" / "a.db"), "--to", "optuna"], "a file that can be written")
    fails(capsys, ["export", str(out), "--to", "elsewhere"], "invalid choice")
    assert [path.name for path in out.iterdir() if path.name.endswith(".part")] == []

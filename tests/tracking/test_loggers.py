"""The loggers against the libraries themselves, without a network."""

import pytest

from mfbo_torch import Space, minimize

SPACE = Space({"x": (0, 1), "k": ["a", "bb"]}, fidelities={"mesh": [1, 4]})


def loss(parameters, mesh):
    if parameters["k"] == "bb" and parameters["x"] > 0.9:
        raise RuntimeError("too long")
    return parameters["x"] + len(parameters["k"]) + 1 / mesh


def searched(logger):
    return minimize(loss, SPACE, 24, callbacks=[logger])


def test_mlflow(tmp_path):
    pytest.importorskip("mlflow", reason="needs the extra mfbo-torch[tracking]")
    from mfbo_torch.tracking.mlflow import MLflowLogger

    logger = MLflowLogger("tuning", f"sqlite:///{tmp_path / 'a.db'}", "first")
    found, client = searched(logger), logger.client
    whole = client.get_run(logger.run_id)
    assert whole.info.status == "FINISHED"
    assert whole.data.metrics == {"best": found.fun, "spent": found.spent}
    assert whole.data.params == {f"best {name}": str(value) for name, value in found.parameters.items()}
    runs = client.search_runs([logger.experiment_id], f"tags.`mlflow.parentRunId` = '{logger.run_id}'")
    assert len(runs) == found.nfev
    for run in runs:
        record = found.history.records[int(run.info.run_name.removeprefix("evaluation "))]
        named = {**SPACE.named(record.query.x), "fidelity": SPACE.fidelities.values[record.query.fidelity]}
        assert run.data.params == {name: str(value) for name, value in named.items()}
        if record.value is None:
            assert (run.info.status, "value" in run.data.metrics) == ("FAILED", False)
        else:
            assert run.data.metrics["value"] == -record.value
    again = MLflowLogger("tuning", f"sqlite:///{tmp_path / 'a.db'}")
    assert again.experiment_id == logger.experiment_id


def test_names_that_mlflow_has_for_others(tmp_path):
    """A parameter may be called as the fidelity is, where there is one; signs that MLflow does not take may differ."""
    pytest.importorskip("mlflow", reason="needs the extra mfbo-torch[tracking]")
    from mfbo_torch.tracking.mlflow import MLflowLogger

    logger = MLflowLogger("tuning", f"sqlite:///{tmp_path / 'a.db'}")
    space = Space({"fidelity": (0, 1), "a%": (0, 1), "a#": (0, 1)}, costs=[1])
    found = minimize(lambda parameters: sum(parameters.values()), space, 2, callbacks=[logger])
    runs = logger.client.search_runs([logger.experiment_id], "attributes.run_name LIKE 'evaluation%'")
    assert len(runs) == 2
    for run in runs:
        x = found.history.records[int(run.info.run_name.removeprefix("evaluation "))].query.x
        assert run.data.params == dict(zip(("fidelity", "a_", "a__2"), map(str, x), strict=True))


def test_weights_and_biases(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="needs the extra mfbo-torch[tracking]")
    monkeypatch.setenv("WANDB_SILENT", "true")
    from mfbo_torch.tracking.wandb import WandbLogger

    logger, rows = WandbLogger("tuning", mode="offline", dir=str(tmp_path)), []
    log, finish, summary = logger.run.log, logger.run.finish, {}
    monkeypatch.setattr(logger.run, "log", lambda row: (rows.append(row), log(row)))
    monkeypatch.setattr(logger.run, "finish", lambda **how: (summary.update(dict(logger.run.summary)), finish(**how)))
    found = searched(logger)
    assert [row["number"] for row in rows] == [record.id for record in found.history]
    assert [row.get("value") for row in rows] == [found.problem.value_of(record) for record in found.history]
    assert summary["best"] == found.fun
    assert wandb.run is None
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra mfbo-torch[tracking]")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from mfbo_torch.tracking.tensorboard import TensorBoardLogger

    found = searched(TensorBoardLogger(tmp_path))
    events = EventAccumulator(str(tmp_path)).Reload()
    best = {event.step: event.value for event in events.Scalars("best")}
    assert best[found.history.records[-1].id] == pytest.approx(found.fun)
    for m, mesh in enumerate((1, 4)):
        logged = {event.step: event.value for event in events.Scalars(f"value/fidelity_{mesh}")}
        own = {r.id: -r.value for r in found.history.done if r.query.fidelity == m}
        assert logged == pytest.approx(own)
    assert len(list(tmp_path.glob("evaluation *"))) == len(found.history.done)


def test_mlflow_takes_names_that_it_does_not_allow(tmp_path):
    pytest.importorskip("mlflow", reason="needs the extra mfbo-torch[tracking]")
    from mfbo_torch.tracking.mlflow import MLflowLogger

    logger = MLflowLogger("tuning", f"sqlite:///{tmp_path / 'a.db'}")

    def measured(parameters):
        return {"value": parameters["x(1)"], "cost": 7.0, "seconds": 3.0}

    space = Space({"x(1)": (0, 1)}, costs=[1.0], limits={"cost": "<= 9", "seconds": "<= 9"})
    minimize(measured, space, 2, strategy="RandomSearch", callbacks=[logger])
    runs = logger.client.search_runs([logger.experiment_id], "attributes.status = 'FINISHED'")
    assert len(runs) == 3
    evaluations = [run.data for run in runs if run.info.run_id != logger.run_id]
    assert all(data.metrics["outcome cost"] == 7.0 and data.metrics["cost"] == 1.0 for data in evaluations)
    assert all("x_1_" in data.params for data in evaluations)

"""``mfbo init`` of trainings that report each epoch."""

import json

import pytest

from mfbo_torch.app.cli import main


@pytest.fixture
def init(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *flags: main(["init", "t.yaml", "-p", "rate:1e-4:1:log", "-p", "kind:a,b", *flags])


@pytest.mark.parametrize("flags", [("--epochs", "9"), ("--fidelities", "epochs:9")])
@pytest.mark.parametrize("goal", ["--minimize", "--maximize"])
def test_the_config_and_the_training_run_as_written(init, tmp_path, capsys, flags, goal):
    assert init(*flags, goal, "--capital", "36") == 0
    written = (tmp_path / "t.yaml").read_text()
    assert "epochs: 9" in written
    assert "FreezeThaw" in written
    assert main(["run", "t.yaml"]) == 0
    assert "epochs = 9" in capsys.readouterr().out
    summary = json.loads((tmp_path / "runs" / "t" / "summary.json").read_text())
    assert summary["spent"] <= 36
    assert summary["best_value"] is not None


def test_the_capital_is_that_of_twelve_trainings_unless_given(init, tmp_path):
    assert init("--epochs", "9") == 0
    assert "capital: 108" in (tmp_path / "t.yaml").read_text()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--epochs", "1"), "a whole number from 2 on"),
        (("--epochs", "9.5"), "a whole number from 2 on"),
        (("--epochs", "nine"), "a whole number from 2 on"),
        (("--epochs", "9", "--program", "./train"), "which a function does"),
        (("--epochs", "9", "--costs", "1,10"), "not allowed with argument"),
    ],
)
def test_what_cannot_work_is_refused(init, capsys, flags, says):
    assert init(*flags) == 2
    assert says in capsys.readouterr().err

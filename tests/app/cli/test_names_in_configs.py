"""Names that YAML reads as something else, and folders whose history is gone."""

import pytest

from mfbo_torch.app.cli import main


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("def f(true, fidelity):\n    return true\n")
    flags = ["--objective", "own:f", "-p", "true:0.5:1", "--costs", "1,10", "--capital", "12"]
    assert main(["init", "c.yaml", *flags]) == 0
    return tmp_path / "c.yaml"


def test_names_are_quoted_where_they_have_to_be(config, capsys):
    assert "'true':" in config.read_text()
    assert main(["run", "c.yaml"]) == 0
    config.write_text(config.read_text().replace("'true'", "true"))
    capsys.readouterr()
    assert main(["run", "c.yaml"]) == 2
    assert "the key true, from line 10 on, is read as true or false: write 'true'" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["x:y:1", "x:y:0.5:1", "x:0:y:log"])
def test_a_bound_that_is_no_number_is_refused(tmp_path, monkeypatch, capsys, given):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "c.yaml", "--objective", "own:f", "-p", given, "--costs", "1,10", "--capital", "12"]) == 2
    assert "must be a name and two bounds" in capsys.readouterr().err


@pytest.mark.parametrize("left", [b"", None])
def test_a_run_whose_history_is_gone_does_not_begin_again(config, capsys, left):
    assert main(["run", "c.yaml", "--out", "out"]) == 0
    journal = config.parent / "out" / "history.sqlite"
    journal.unlink()
    if left is not None:
        journal.write_bytes(left)
    capsys.readouterr()
    assert main(["run", "c.yaml", "--out", "out"]) == 2
    assert "history.sqlite that its summary.json is of" in capsys.readouterr().err

"""Nothing that is read from a file imports a module or calls what it names."""

import json
import sys

import pytest
import yaml
from refusals import refused

from mfbo_torch import Space
from mfbo_torch.app import cli, run_folder
from mfbo_torch.app.setting_types import is_foreign, located
from mfbo_torch.problems import Currin
from mfbo_torch.problems.indirect.branin import IndirectBranin
from mfbo_torch.problems.problem_snapshot import known_of, stand_in
from mfbo_torch.problems.user.function import FunctionProblem

MARK = "from pathlib import Path; Path({mark!r}).touch()\n"
CODE = """
from toy import Hill, Walk
class Problem(Hill): pass
class Strategy(Walk): pass
def f(parameters, fidelity): return 0.0
"""
USER = {
    "class_path": "mfbo_torch.problems.UserProblem",
    "init_args": {"objective": "evilmod:f", "parameters": {"x": {"lower": 0.0, "upper": 10.0}}, "costs": [1, 10]},
}
INNER = {"class_path": "evilmod.Problem", "init_args": {}}


@pytest.fixture
def mark(tmp_path, monkeypatch):
    """There once the module ``evilmod`` was imported, which can be found."""
    folder, found = tmp_path / "modules", tmp_path / "imported"
    folder.mkdir()
    (folder / "evilmod.py").write_text(MARK.format(mark=str(found)) + CODE)
    monkeypatch.syspath_prepend(folder)
    yield found
    sys.modules.pop("evilmod", None)


def made(tmp_path, **changes):
    """A finished run whose config was changed afterwards."""
    out = tmp_path / "out"
    settings = {"problem": {"class_path": "toy.Hill"}, "strategy": {"class_path": "toy.Walk"}, "capital": 20}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({**settings, "out": str(out)}))
    assert cli.main(["run", str(tmp_path / "a.yaml")]) == 0
    stored = yaml.safe_load((out / "config.yaml").read_text())
    (out / "config.yaml").write_text(yaml.safe_dump({**stored, **changes}))
    return out


def test_a_run_of_one_s_own_classes_is_shown_without_importing_them(tmp_path, mark, capsys):
    pytest.importorskip("plotly")
    out = made(tmp_path)
    capsys.readouterr()
    assert cli.main(["show", str(out)]) == 0
    as_it_is = capsys.readouterr().out
    assert cli.main(["export", str(out), str(tmp_path / "a.csv")]) == 0
    stored = yaml.safe_load((out / "config.yaml").read_text())
    own = {"problem": {"class_path": "evilmod.Problem"}, "strategy": {"class_path": "evilmod.Strategy"}}
    (out / "config.yaml").write_text(yaml.safe_dump({**stored, **own}))
    capsys.readouterr()
    assert cli.main(["show", str(out)]) == 0
    assert capsys.readouterr().out == as_it_is.replace("Walk", "Strategy")
    assert cli.main(["export", str(out), str(tmp_path / "b.csv")]) == 0
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    assert cli.main(["show", str(out), "--html"]) == 0
    assert not mark.exists()
    noted = out / "history.digest.json"
    (out / run_folder.KNOWN).write_text(json.dumps(json.loads(noted.read_text())["problem"]))  # as runs once did
    noted.unlink()
    assert cli.main(["export", str(out), str(tmp_path / "c.csv")]) == 0
    assert (tmp_path / "c.csv").read_text() == (tmp_path / "a.csv").read_text()
    capsys.readouterr()
    (out / run_folder.KNOWN).unlink()
    assert cli.main(["show", str(out)]) == 2
    assert "problem.class_path = 'evilmod.Problem': must be imported first" in capsys.readouterr().err
    assert not mark.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"problem": USER},
        {"problem": {**USER, "init_args": {**USER["init_args"], "objective": "evilmod.f"}}},
        {"problem": {**USER, "init_args": {**USER["init_args"], "parameters": {"x": {"lower": INNER, "upper": 1.0}}}}},
        {"problem": "evilmod.Problem"},
        {"strategy": {"class_path": "evilmod.f"}},
        {"strategy": {"class_path": "mfbo_torch.strategies.MFGPUCB", "init_args": {"prior": "evilmod.f"}}},
        {"strategy": {"class_path": "mfbo_torch.strategies.MFGPUCB", "init_args": {"prior": INNER}}},
        {"warm_start": INNER},
    ],
)
def test_no_module_is_imported_because_a_stored_config_names_it(tmp_path, mark, capsys, changes):
    out = made(tmp_path, **changes)
    capsys.readouterr()
    for command in (["show", str(out)], ["export", str(out)], ["run", str(tmp_path / "a.yaml")]):
        code, err = cli.main(command), capsys.readouterr().err
        assert code in (0, 2)
        assert err.count("\n") == (code == 2)
        assert not mark.exists()


def test_a_comparison_is_shown_without_importing_what_it_compares(tmp_path, mark, capsys):
    config, out = tmp_path / "a.yaml", tmp_path / "out"
    settings = {
        "problems": [USER, {"class_path": "evilmod.Problem"}],
        "strategies": {"a": {"class_path": "evilmod.Strategy"}, "b": "RandomSearch"},
        "capital": 12,
        "seeds": 1,
        "workers": 1,
        "out": str(out),
    }
    config.write_text(yaml.safe_dump(settings))
    assert cli.main(["compare", str(config)]) == 0
    assert mark.exists()
    compared = capsys.readouterr().out
    mark.unlink()
    del sys.modules["evilmod"]
    assert cli.main(["show", str(out)]) == 0
    assert capsys.readouterr().out.strip() in compared
    assert not mark.exists()


def test_modules_of_the_current_folder_are_none_of_a_reader_s(tmp_path, monkeypatch):
    out = made(tmp_path)
    monkeypatch.chdir(out)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for command in ("show", "export"):
        assert cli.main([command, str(out)]) == 0
    assert str(out) not in sys.path


def test_what_is_kept_of_a_problem():
    known = json.loads(json.dumps(known_of(Currin())))
    again = stand_in(known, "evilmod.Problem")
    assert (again.name, again.space, again.optimum) == ("Currin", Currin().space, Currin().optimum)
    refused("must be imported, to be evaluated", again.evaluate, (0.0, 0.0), 0)
    assert known_of(IndirectBranin()) is None
    trained = FunctionProblem(lambda p, trial: None, Space({"x": (0.0, 1.0)}, epochs=9), False)
    assert stand_in(json.loads(json.dumps(known_of(trained))), "evilmod.Problem").space == trained.space
    space = known["space"]
    for damaged in (
        *(None, {}, {**known, "space": 3}, {**known, "space": {**space, "costs": "many"}}),
        *({**known, "optimum": "high"}, {**known, "worst": [1]}, {**known, "space": {**space, "parameters": 3}}),
        {**known, "space": {**space, "fidelities": 3}},
    ):
        said = r"problem\.class_path = 'evilmod.Problem': must be imported first"
        refused(said, stand_in, damaged, "evilmod.Problem")


def test_a_class_is_found_where_its_module_is_imported_already(mark):
    assert is_foreign("evilmod.Problem")
    with pytest.raises(LookupError, match="No module named 'evilmod' is imported to read a file"):
        located("evilmod.Problem", importing=False)
    assert not mark.exists()
    kind = located("evilmod.Problem")
    assert mark.exists()
    assert located("evilmod.Problem", importing=False) is kind
    assert not is_foreign("evilmod.Problem")
    assert not is_foreign(3)

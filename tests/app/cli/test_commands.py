"""The commands that need no model, and what they answer."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from mfbo_torch.app import cli, run_folder
from mfbo_torch.app.builder import build, resolve_run
from mfbo_torch.app.cli.terminal import styled, table
from mfbo_torch.app.schema import RUN, offered, settings_of_command
from mfbo_torch.strategies import __all__ as strategies
from mfbo_torch.utils.errors import did_you_mean

HERE = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a finished run, one that was not finished and a comparison."""
    place = tmp_path_factory.mktemp("runs")
    base = {"problem": "toy.Hill", "strategy": "toy.Walk", "capital": 14}
    several = {"problem": "toy.Hill", "strategies": {"walk": "toy.Walk"}, "capital": 12, "seeds": 1, "workers": 1}
    for name, command, settings in (("first", "run", base), ("second", "run", base), ("third", "compare", several)):
        path = place / f"{name}.yaml"
        path.write_text(yaml.safe_dump(settings))
        assert cli.main([command, str(path), "--out", str(place / name)]) == 0
    (place / "second" / "summary.json").unlink()
    return place


def test_what_needs_no_model_loads_none(runs):
    """Help, mistakes, completion and what is known of finished runs."""
    wrong = [
        ["rnu"],
        ["run", "no.yaml"],
        ["run", str(runs / "first.yaml"), "--captal", "3"],
        ["run", str(runs / "first.yaml"), "--capital", "much"],
        ["run", str(runs / "first.yaml"), "--strategy", "MFGPUBC", "--strategy.link", "independent"],
        ["compare", str(runs / "first.yaml")],
        ["show", "nowhere"],
        ["best", str(runs / "third")],
    ]
    right = [["--help"], ["--version"], ["list", str(runs)], ["best", str(runs / "first")], ["completion", "bash"]]
    code = (
        "import json, sys; from mfbo_torch.app import cli\n"
        f"codes = [cli.main(argv) for argv in {wrong + right!r}]\n"
        "print(json.dumps([codes, sorted({'torch', 'botorch', 'matplotlib', 'scipy'} & sys.modules.keys())]))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=HERE, check=True)
    assert json.loads(ended.stdout.splitlines()[-1]) == [[2] * len(wrong) + [0] * len(right), []]
    assert ended.stderr.count("\n") == len(wrong)
    for hint in ("did you mean run?", "did you mean --capital?", "did you mean MFGPUCB?"):
        assert hint in ended.stderr
    assert "mfbo-torch 0." in ended.stdout


def test_runs_are_listed_newest_first(runs, capsys):
    assert cli.main(["list", str(runs)]) == 0
    head, third, second, first = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["folder", "problem", "strategy", "seed"]
    assert "third" in third
    assert "walk" in third
    assert "runs begun: 1" in third
    best = json.loads((runs / "first" / "summary.json").read_text())["best_value"]
    assert "not finished" in second
    assert f"{best:.6g}" in first
    assert f"{best:.6g}" in second
    assert f"{run_folder.recorded(runs / 'first').spent:g} of 14" in first
    (runs / "empty").mkdir(exist_ok=True)
    assert cli.main(["list", str(runs / "empty")]) == 0
    assert "no run in" in capsys.readouterr().out


def test_the_best_of_a_run_is_the_same_finished_or_not(runs, capsys):
    found = []
    for name in ("first", "second"):
        assert cli.main(["best", str(runs / name), "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    first, second = found
    best = run_folder.recorded(runs / "first").best(1)
    assert first["parameters"] == {"x": best.query.x[0]}
    assert first["value"] == best.value
    assert (first["finished"], second["finished"]) == (True, False)
    assert all(first[name] == second[name] for name in ("value", "parameters", "spent", "capital"))
    assert cli.main(["best", str(runs / "first")]) == 0
    assert f"x     {best.query.x[0]:.10g}" in capsys.readouterr().out


def test_without_a_folder_it_is_the_newest(runs, capsys, monkeypatch):
    monkeypatch.chdir(runs.parent)
    assert max(run_folder.within(runs), key=run_folder.changed) == runs / "third"
    (runs.parent / "runs").exists() or (runs.parent / "runs").symlink_to(runs)
    assert cli.main(["show"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(str(Path("runs", "third")))
    assert "walk" in shown
    assert cli.main(["best", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["folder"] == str(Path("runs", "second")), "a comparison has no best"
    assert cli.main(["why", "0"]) == 0
    assert cli.main(["export"]) == 0
    assert str(Path("runs", "third")) in capsys.readouterr().out


def test_init_writes_a_config_that_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = ["--objective", "own_function:loss", "-p", "rate:1e-5:0.1:log", "-p", "width:16:512:integer"]
    flags += ["--costs", "1,5", "--capital", "12", "--minimize"]
    assert cli.main(["init", "mine.yaml", *flags]) == 0
    assert "next: mfbo run mine.yaml" in capsys.readouterr().out
    problem, strategy = build(resolve_run(settings_of_command(RUN, ["mine.yaml"])))
    assert type(strategy).__name__ == "MFGPUCB"
    assert [(p.name, p.lower, p.upper, p.log, p.integer) for p in problem.space.parameters] == [
        ("rate", 1e-5, 0.1, True, False),
        ("width", 16, 512, False, True),
    ]
    assert problem.space.costs == (1.0, 5.0)
    assert not problem.maximize
    assert problem.evaluate([0.05, 264], 1) < problem.evaluate([1e-5, 16], 1)
    assert cli.main(["run", "mine.yaml", "--strategy", "RandomSearch"]) == 0
    assert run_folder.finished(tmp_path / "runs" / "mine")
    assert cli.main(["init", "mine.yaml", *flags]) == 2
    monkeypatch.delitem(sys.modules, "own_function")


def test_init_takes_texts_of_every_plane_and_sorts_numbers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own = ["-p", "kind:😀,b", "-p", "size:128,16,32", "-p", "x:0:1", "--costs", "1", "--capital", "3", "--maximize"]
    assert cli.main(["init", "mine.yaml", "--objective", "of_planes:value", *own]) == 0
    (problem, _) = build(resolve_run(settings_of_command(RUN, ["mine.yaml"])))
    assert [parameter.choices for parameter in problem.space.parameters[:2]] == [("😀", "b"), (16, 32, 128)]
    monkeypatch.delitem(sys.modules, "of_planes", raising=False)
    Path("of_planes.py").write_text("def value(**given):\n    raise RuntimeError('💥')\n")
    assert cli.main(["run", "mine.yaml", "--strategy", "RandomSearch"]) == 1
    assert cli.main(["show", "runs/mine"]) == 0
    assert "💥" in capsys.readouterr().out
    monkeypatch.delitem(sys.modules, "of_planes")


def test_init_asks_until_it_has_an_answer(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    answers = iter(["best", "", "x:1:0", "x:0:1 k:a,b", "10,1", "epochs:1,10", "0.5", "", "", ""])
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    monkeypatch.setattr("sys.stdin", type("Terminal", (io.StringIO,), {"isatty": lambda self: True})())
    assert cli.main(["init"]) == 0
    assert next(answers, None) is None
    assert capsys.readouterr().out.count("must be") == 4
    settings = yaml.safe_load(Path("mine.yaml").read_text())
    own = settings["problem"]["init_args"]
    assert own["parameters"] == {"x": {"lower": 0.0, "upper": 1.0}, "k": {"choices": ["a", "b"]}}
    assert (own["fidelities"], own["maximize"]) == ({"epochs": [1, 10]}, False)
    assert settings["capital"] == 100


@pytest.mark.parametrize("levels", ["1,10", "mesh:1,10"])
@pytest.mark.parametrize("kind", ["function", "program"])
@pytest.mark.parametrize("goal", ["minimize", "maximize"])
def test_what_init_writes_runs_at_once(tmp_path, monkeypatch, capsys, levels, kind, goal):
    """Choices, sizes, named fidelities, a function or a program, smaller or larger: as it was answered."""
    monkeypatch.chdir(tmp_path)
    answers = iter([goal, "x:0:2 k:a,b n:1,2,4", levels, "25", kind, "" if kind == "program" else "own_objective:loss"])
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    monkeypatch.setattr("sys.stdin", type("Terminal", (io.StringIO,), {"isatty": lambda self: True})())
    assert cli.main(["init"]) == 0
    assert next(answers, None) is None
    problem, _ = build(resolve_run(settings_of_command(RUN, ["mine.yaml"])))
    assert problem.maximize == (goal == "maximize")
    assert (problem.space.fidelities is not None) == (levels != "1,10")
    best, worst = (problem.evaluate(x, 1) for x in ([1.0, 0.0, 0.0], [0.0, 1.0, 2.0]))
    assert best == 0
    assert (worst < best) == problem.maximize
    assert cli.main(["run", "mine.yaml", "--strategy", "RandomSearch"]) == 0
    sys.modules.pop("own_objective", None)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["a.txt"], "file = 'a.txt': must be a name that ends with .yaml"),
        (["--objective", "no function"], "objective = 'no function'"),
        (["--parameter", "x:1"], "parameter = 'x:1'"),
        (["--parameter", "x:0:1:log"], "both bounds above 0 with log"),
        (["--parameter", "x:0.5:2:integer"], "both bounds whole with integer"),
        (["--parameter", "x:0:1:logg"], "parameter = "),
        (["--parameter", "x:0:1", "--parameter", "x:0:2"], "parameter = 'x:0:2'"),
        (["--costs", "1,nan"], "costs = '1,nan'"),
        (["--capital", "0"], "capital = '0'"),
        (["--parameter", "k:a,a"], "parameter = 'k:a,a'"),
        (["--parameter", "k:a,"], "parameter = 'k:a,'"),
        (["--parameter", "k:1,1.0"], "parameter = 'k:1,1.0'"),
        (["--parameter", "n:1:9:integer", "--costs", "n:3,9"], "costs = 'n:3,9': must be of a fidelity that is no"),
        (["--fidelities", "trial:1,2"], "costs = 'trial:1,2'"),
        (["--costs", "lambda:1,2"], "costs = 'lambda:1,2'"),
        (["-p", "start:0:1", "--program", "true {start} {fidelity}"], "parameter = 'start': must be another name"),
        (["--program", "'"], "program = "),
        (["-p", "x:0:1", "--program", "true {x}"], "must be with a place for {fidelity}"),
        (["-p", "x:0:1", "--program", "true {y} {fidelity}"], "{y}"),
        (["--program", "./a", "--objective", "a:b"], "program = './a': must be left out"),
    ],
)
def test_init_refuses_what_cannot_work(tmp_path, monkeypatch, capsys, flags, said):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", *flags]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_shell_completes_settings(capsys):
    for shell in ("bash", "fish"):
        assert cli.main(["completion", shell]) == 0
        script = capsys.readouterr().out
        assert "charge-retries" in script
        assert "export" in script
        if shell == "bash":
            subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_colours_only_on_a_terminal(monkeypatch):
    terminal = type("Terminal", (io.StringIO,), {"isatty": lambda self: True})()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert styled("a", "red", terminal) == "\x1b[31ma\x1b[0m"
    assert styled("a", "red", io.StringIO()) == "a"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as with_it:
            with_it.setenv(name, value)
            assert styled("a", "red", terminal) == "a"
    assert table(("a", "bb"), [("1", "2"), ("333", "")]) == "a    bb\n1    2\n333"


def test_what_was_meant():
    assert did_you_mean("captal", ["capital", "out"]) == "; did you mean capital?"
    assert did_you_mean("zzz", ["capital", "out"]) == ""
    assert offered("strategy") == [name for name in strategies if name[0].isupper()]


def test_init_without_anybody_to_ask(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", None)
    assert cli.main(["init"]) == 0
    assert Path("mine.yaml").exists()

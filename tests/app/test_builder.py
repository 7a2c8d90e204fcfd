import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import toy
import yaml
from refusals import refused

from mfbo_torch import strategies
from mfbo_torch.app import cli
from mfbo_torch.app.builder import build, resolve_run, strategy_from_settings, strategy_to_settings
from mfbo_torch.app.schema import COMPARE, RUN, read_mapping, settings_of_command
from mfbo_torch.confidence.prior import Prior
from mfbo_torch.strategies.base import Strategy

BASE = {
    "problem": {"class_path": "toy.Hill", "init_args": {"upper": 8.0}},
    "strategy": {"class_path": "toy.Walk", "init_args": {"every": 2}},
    "capital": 30,
}
CONFIGS = Path(__file__).parents[2] / "configs"


def resolve(arguments):
    return resolve_run(settings_of_command(RUN, arguments))


@pytest.fixture
def config(tmp_path):
    """Writes a configuration with some settings changed and gives its path."""

    def write(**changes):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({**BASE, **changes}))
        return str(path)

    return write


@pytest.mark.parametrize(
    ("problem", "wanted"),
    [
        ({"costs": [1, 10]}, "MFGPUCB"),
        ({"epochs": 9}, "FreezeThaw"),
        ({"costs": [1, 10], "objectives": ["loss", "latency"]}, "MFEHVI"),
    ],
)
def test_without_a_strategy_it_is_the_usual_one(tmp_path, problem, wanted):
    path = tmp_path / "mine.yaml"
    given = {
        "objective": "toy:train" if "epochs" in problem else "toy:f",
        "parameters": {"x": {"lower": 0, "upper": 1}},
    }
    entry = {"class_path": "UserProblem", "init_args": {**given, **problem}}
    path.write_text(yaml.safe_dump({"problem": entry, "capital": 30}))
    assert resolve([str(path)])["strategy"]["class_path"] == f"mfbo_torch.strategies.{wanted}"
    changed = resolve([str(path), "--strategy.initial_capital", "3"] if wanted == "MFGPUCB" else [str(path)])
    assert changed["strategy"]["class_path"] == f"mfbo_torch.strategies.{wanted}"


def test_everything_is_spelt_out(config):
    settings = resolve([config()])
    assert settings == {
        "problem": {
            "class_path": "toy.Hill",
            "init_args": {"upper": 8.0, "maximize": True, "trouble": "", "seconds": 0.0, "measured": False},
        },
        "strategy": {"class_path": "toy.Walk", "init_args": {"every": 2, "width": 0.3}},
        "capital": 30.0,
        "out": "runs/mine",
        "max_pending": None,
        "workers": 1,
        "executor": "processes",
        "scheduler": None,
        "timeout": None,
        "retries": 0,
        "charge_retries": True,
        "charge_deciding": False,
        "time_limit": None,
        "stop_at": None,
        "patience": None,
        "stop_gain": None,
        "output_limit": 20_000,
        "progress": True,
        "warm_start": None,
        "seed": 0,
        "device": "cpu",
        "dtype": "float64",
    }
    assert resolve_run(settings) == settings == json.loads(json.dumps(settings))


@pytest.mark.parametrize(
    ("flags", "path", "value"),
    [
        (["--capital", "100"], ["capital"], 100.0),
        (["--seed", "3"], ["seed"], 3),
        (["--out", "there"], ["out"], "there"),
        (["--dtype", "float32"], ["dtype"], "float32"),
        (["--max_pending", "4"], ["max_pending"], 4),
        (["--max-pending=4"], ["max_pending"], 4),
        (["--warm-start", "a.csv"], ["warm_start"], "a.csv"),
        (["--strategy.init_args.every", "5"], ["strategy", "init_args", "every"], 5),
        (["--strategy.every", "5"], ["strategy", "init_args", "every"], 5),
        (["--problem.maximize", "false"], ["problem", "init_args", "maximize"], False),
        (["--strategy", "Plain"], ["strategy", "class_path"], "toy.Plain"),
        (["--strategy", "RandomSearch"], ["strategy", "class_path"], "mfbo_torch.strategies.RandomSearch"),
        (["--problem", "Currin"], ["problem", "class_path"], "mfbo_torch.problems.Currin"),
    ],
)
def test_every_setting_is_a_flag(config, flags, path, value):
    found = resolve([config(), *flags])
    for key in path:
        found = found[key]
    assert found == value


def test_no_file_is_needed():
    flags = ["--problem", "toy.Hill", "--strategy", "toy.Walk", "--capital", "5", "--out", "x"]
    assert resolve(flags)["capital"] == 5.0
    refused(r"^out = None: must be the output folder", resolve, flags[:-2])


OFFERED = "must be one of .*RandomSearch.*, or the import path of your own"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nope": 3}, "nope = 3: must be one of the settings problem, strategy, capital, out, .*dtype$"),
        ({"strategy": {"class_path": "toy.Nope"}}, f"strategy.class_path = 'toy.Nope': {OFFERED} .module 'toy' has no"),
        ({"strategy": {"class_path": "no.Nope"}}, f"strategy.class_path = 'no.Nope': {OFFERED} .No module named 'no'"),
        ({"strategy": {"class_path": "toy.Hill"}}, f"strategy.class_path = 'toy.Hill': {OFFERED}$"),
        ({"strategy": {"init_args": {"every": 2}}}, "strategy.every = 2: must be one of the settings of .*MFGPUCB: "),
        ({"strategy": [1]}, r"strategy = \[1\]: must be text or a mapping of class_path and init_args$"),
        (
            {"strategy": {"class_path": "toy.Plain", "init_args": {"nope": 2}}},
            "strategy.nope = 2: must be one of the settings of toy.Plain: it has none$",
        ),
        (
            {"strategy": {"class_path": "toy.Walk", "init_args": {"every": "a"}}},
            ".*every = 'a': must be a whole number$",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_told_in_one_line(config, changes, message):
    """More of them are in ``cli/test_mistakes.py``."""
    refused(f"^{message}", resolve, [config(**changes)])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--nope", "3"], "--nope = '3': must be one of --problem, --strategy, --capital"),
        (["--capital", "x"], "capital = 'x': must be a number$"),
        (["--capital"], "--capital = None: must be followed by a value"),
        (["extra"], "argument = 'extra': must be left out, or the value of a --SETTING; CONFIG comes first$"),
        (["--strategy.nope", "3"], "strategy.nope = '3': must be one of the settings of toy.Walk: every, width$"),
        (["--strategy.every", "x"], "strategy.every = 'x': must be a whole number$"),
        (["--strategy.seed", "3"], "strategy.seed = '3': must be left out"),
        (["--problem.maximize", "maybe"], "problem.maximize = 'maybe': must be true or false$"),
        (["--strategy", "Nope"], f"strategy.class_path = 'Nope': {OFFERED}$"),
        (["--strategy.class_path", "Nope"], f"strategy.class_path = 'Nope': {OFFERED}$"),
    ],
)
def test_what_is_wrong_in_a_flag_is_told_in_one_line(config, flags, message):
    refused(f"^{message}", resolve, [config(), *flags])


@pytest.mark.parametrize(
    ("content", "allowed"),
    [
        (b"a: [1\nb: {", "a YAML file: while parsing"),
        (b"\xff\x00\x01", "a YAML file: 'utf-8' codec"),
        (b"hello", 'a YAML file of settings, "name: value"'),
        (b"- 1\n- 2", 'a YAML file of settings, "name: value"'),
        (b"", 'a YAML file of settings, "name: value"'),
    ],
)
def test_files_that_are_no_configuration(tmp_path, content, allowed):
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    refused(f"^config = '{path}': must be {allowed}", resolve, [str(path)])


def test_files_that_are_not_there(tmp_path):
    refused(r"must be an existing file", read_mapping, tmp_path / "no.yaml", "config")
    refused(r"must be a readable file: Is a directory", read_mapping, tmp_path, "config")


def test_build_passes_the_runs_settings_to_the_strategy(config):
    settings = resolve([config(), "--seed", "7", "--dtype", "float32"])
    problem, strategy = build(settings)
    assert isinstance(problem, toy.Hill)
    assert problem.space.parameters[0].upper == 8.0
    assert isinstance(strategy, toy.Walk)
    assert (strategy.every, strategy.seed, strategy.device, strategy.dtype) == (2, 7, "cpu", "float32")
    settings = resolve([config(), "--seed", "7", "--strategy", "Plain"])
    plain = build(settings)[1]
    assert isinstance(plain, toy.Plain)
    assert plain.seed == 7


class Fragile(Strategy):
    """A strategy that cannot be made."""

    def __init__(self, **settings):
        super().__init__(**settings)
        raise OSError("no file\nat all")

    def decide(self, history):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--strategy.every", "0"], "every = 0: must be a whole number from 1 on"),
        (["--problem.upper", "-1"], r"x.lower = 0.0: must be below x.upper = -1.0"),
        (["--seed", "-1"], "seed = -1: must be a whole number from 0 on"),
        (["--device", "nowhere"], "device = 'nowhere': must be a device of this machine: Expected one of cpu, .*"),
        (["--strategy", f"{__name__}.Fragile"], rf"strategy = '{__name__}.Fragile': .* made: OSError: no file at all"),
    ],
)
def test_what_cannot_be_built_is_a_setting_error(config, flags, message):
    refused(f"^{message}$", build, resolve([config(), *flags]))


def test_help_of_one_strategy(capsys):
    assert cli.main(["run", "--strategy.help", "toy.Walk"]) == 0
    shown = capsys.readouterr().out
    assert "Width of the steps" in shown
    assert "seed" not in shown
    assert "a number, default 0.3" in shown


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_configurations_that_come_with_it(path):
    settings = resolve([str(path)])
    assert settings["out"] == f"runs/{path.stem}"
    assert settings["strategy"]["class_path"].endswith("MFGPUCB")
    if path.stem in ("svm_magic", "salsa", "supernova"):
        return  # their data have to be fetched
    if path.stem == "circuit" and shutil.which("ngspice") is None:
        pytest.skip("ngspice is not installed (apt install ngspice)")
    if path.stem == "viola_jones" and not (find_spec("cv2") and find_spec("skimage")):
        pytest.skip("OpenCV or scikit-image is not installed (pip install 'mfbo-torch[faces]')")
    problem, _ = build(settings)
    if path.stem not in ("quickstart", "own_objective", "circuit"):
        assert settings["capital"] == 50 * problem.space.costs[-1]


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("compare/*.yaml")), ids=lambda path: path.stem)
def test_the_comparisons_that_come_with_it(path):
    settings = settings_of_command(COMPARE, [str(path)])
    assert len(settings["strategies"]) == 7
    assert settings["seeds"] == 20
    assert settings["capital_multiple"] == 100


INSIDE = ("app.builder.Any", "nowhere.A", "loop.runner.run")


def test_a_strategy_written_down_and_read_back():
    strategy = strategies.MFGPUCB(link="independent", prior=Prior(noise=0.5), seed=3).bind(toy.Hill().space, 7.0)
    stored = json.loads(json.dumps(strategy_to_settings(strategy)))
    again = strategy_from_settings(stored)
    assert type(again) is strategies.MFGPUCB
    assert again.settings == strategy.settings
    assert (again.own_space, again.capital) == (strategy.own_space, 7.0)
    for path in ("subprocess.Popen", "nowhere.Strategy", *(f"mfbo_torch.{end}" for end in INSIDE), "toy.Hill", 3):
        made = {"class_path": path, "init_args": {}}
        refused(r"^class_path = .*: must be a strategy or a space", strategy_from_settings, made)
    made = {**stored, "init_args": {"prior": {"function": "os:system"}}}
    refused(r"^function = .*: must be one that this program has named", strategy_from_settings, made)

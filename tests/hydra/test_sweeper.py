"""Hydra with the sweeper: overrides as a space, and an application that is swept."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from installed import installed
from refusals import refused

if not installed("hydra-core"):
    pytest.skip("hydra is not installed: pip install 'mfbo-torch[hydra]'", allow_module_level=True)

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus

from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.hydra.codec import SweepCodec
from mfbo_torch.hydra.sweep import spend
from mfbo_torch.loop.early_failures import Hopeless

ROOT = Path(__file__).parents[2]
APP = """
import hydra

@hydra.main(version_base=None, config_name="config", config_path=".")
def loss(config):
    if config.rate > 0.09:
        raise ValueError("diverged")
    return (config.rate - 0.01) ** 2 + abs(config.width - 128) / 512 + 1 / config.epochs

loss()
"""


def overrides(*given):
    return OverridesParser.create().parse_overrides(list(given))


def test_overrides_are_a_space():
    swept = ("rate=tag(log,interval(1e-5,0.1))", "width=range(16,64,16)", "size=int(interval(1,9))", "kind=a,'b c'")
    codec = SweepCodec(overrides(*swept, "+epochs=27,3,9", "seed=4"), "epochs", None)
    assert codec.space.costs == (3.0, 9.0, 27.0)
    rate, width, size, kind = codec.space.parameters
    assert (rate.lower, rate.upper, rate.log, rate.integer) == (1e-5, 0.1, True, False)
    assert (width.ordered, kind.ordered) == (True, False)
    assert (size.integer, size.log) == (True, False)
    assert codec.job((0.01, 2.0, 3.0, 1.0), 2) == [
        "seed=4",
        "rate=0.01",
        "width=48",
        "size=3",
        "kind='b c'",
        "+epochs=27",
    ]


def test_overrides_that_are_not_swept_stay_as_they_were_written():
    """A deletion, one group in two packages, one that is given twice, and values with quotes and markup."""
    fixed = [
        "~model",
        "+db@source=mysql",
        "+db@target=pg",
        "+model=small",
        "name='it\\'s <b>; rm -rf /'",
        "list=[1,'a b']",
    ]
    codec = SweepCodec(overrides(*fixed, "rate=interval(0,1)", "kind='a=b','<i>','#1'"), None, None)
    for index, kind in enumerate(("'a=b'", "'<i>'", "'#1'")):
        assert codec.job((0.5, float(index)), 0) == [*fixed, "rate=0.5", f"kind={kind}"]
    assert OverridesParser.create().parse_overrides(codec.job((0.5, 2.0), 0))[-1].value() == "#1"


@pytest.mark.parametrize(
    ("given", "fidelity", "costs", "said"),
    [
        (["rate=interval(0,1)"], "epochs", None, "^hydra.sweeper.fidelity = 'epochs': must be one of the overrides"),
        (["rate=interval(0,1)", "epochs=3"], "epochs", None, "must be some values, as in epochs=3,9,27"),
        (["rate=interval(0,1)", "epochs=3,9"], "epochs", [1.0], "^hydra.sweeper.costs = .*: must be a positive number"),
        (["rate=interval(0,1)", "rate=0.5"], None, None, "^overrides = 'rate': must be given once"),
        (["rate=interval(0,1)", "+n=3,9", "n=27"], "n", None, "^overrides = 'n': must be given once"),
        (["rate=0.1"], None, None, "^overrides = 1: must be with something to search"),
    ],
)
def test_what_cannot_be_swept(given, fidelity, costs, said):
    refused(said, SweepCodec, overrides(*given), fidelity, costs)


class Launched:
    """What launches no job: each has the value of a function of its number, or fails."""

    def __init__(self, value):
        self.value, self.count = value, 0

    def __call__(self, jobs, first):
        found = []
        for _ in jobs:
            self.count += 1
            job = JobReturn()
            try:
                job.return_value, job.status = self.value(self.count), JobStatus.COMPLETED
            except Exception as error:
                job.return_value, job.status = error, JobStatus.FAILED
            found.append(job)
        return found


SETTINGS = {"fidelity": None, "costs": None, "strategy": "RandomSearch", "seed": 0, "workers": 1}


def test_jobs_that_all_fail_end_the_sweep(tmp_path, caplog):
    def broken(count):
        raise KeyError("rate")

    launched = Launched(broken)
    with pytest.raises(Hopeless, match="the first 3 jobs have failed in the same way, with KeyError: 'rate'"):
        spend(overrides("rate=interval(0,1)"), launched, str(tmp_path), capital=20, maximize=False, **SETTINGS)
    assert launched.count == 3


def test_jobs_that_all_return_nan_have_failed(tmp_path):
    with pytest.raises(Hopeless, match="the value is not finite"):
        spend(
            overrides("x=interval(0,1)"),
            Launched(lambda _: float("nan")),
            str(tmp_path),
            capital=9,
            maximize=True,
            **SETTINGS,
        )


def test_the_best_parameters_are_values_and_no_texts(tmp_path):
    swept = overrides("kind='d e','f g'", "flag=true,false", "z=null,1", "n=[1,2],[3,4]")
    spend(swept, Launched(lambda count: count), str(tmp_path), capital=3, maximize=False, **SETTINGS)
    found = yaml.safe_load((tmp_path / "optimization_results.yaml").read_text())["best_evaluated_params"]
    wanted = {"kind": ("d e", "f g"), "flag": (True, False), "z": (None, 1), "n": ([1, 2], [3, 4])}
    assert all(found[name] in values for name, values in wanted.items())


def test_the_base_of_strategies_is_none(tmp_path):
    given = SETTINGS | {"strategy": "Strategy", "capital": 9, "maximize": True}
    refused("hydra.sweeper.strategy = 'Strategy'", spend, overrides("x=interval(0,1)"), None, str(tmp_path), **given)


def test_a_folder_has_one_sweep(tmp_path):
    swept = overrides("rate=interval(0,1)")
    wrong = {**SETTINGS, "strategy": "MFEHVI"}  # for several objectives
    refused("objectives", spend, swept, Launched(float), str(tmp_path), capital=3, maximize=True, **wrong)
    spend(swept, Launched(float), str(tmp_path), capital=3, maximize=False, **SETTINGS)
    refused("hydra.sweep.dir", spend, swept, Launched(float), str(tmp_path), capital=5, maximize=True, **SETTINGS)
    found = spend(swept, Launched(float), str(tmp_path), capital=5, maximize=False, **SETTINGS)
    assert len(found) == 2


@pytest.mark.parametrize("other", [["opt=b,a", "epochs=3,9"], ["opt=a,b,c", "epochs=3,9"], ["opt=a,b", "epochs=3,27"]])
def test_another_sweep_is_refused_in_a_folder(other, tmp_path):
    """In its history choices are numbers: of another list they would be other ones."""
    given = SETTINGS | {"fidelity": "epochs", "capital": 18, "maximize": False}
    spend(overrides("opt=a,b", "epochs=3,9"), Launched(float), str(tmp_path), **given)
    refused("hydra.sweep.dir", spend, overrides(*other), Launched(float), str(tmp_path), **given)
    refused(
        "hydra.sweep.dir", spend, overrides("opt=a,b", "epochs=3,9"), None, str(tmp_path), **given | {"costs": [1, 2]}
    )


def test_a_shuffled_sweep_numbers_its_values_as_they_were_written():
    """In a history, and in the order of the costs, they are the same in every process."""
    swept = overrides("kind=shuffle(f,e,d,c,b,a)", "size=shuffle(small,medium,large,huge)")
    codec = SweepCodec(swept, "size", [1, 2, 3, 4])
    assert [codec.job((float(i),), 0)[0] for i in range(6)] == [f"kind={kind}" for kind in "fedcba"]
    assert codec.levels == ["small", "medium", "large", "huge"]


def test_a_glob_of_other_options_is_another_sweep(tmp_path):
    class Files:
        def __init__(self, *names):
            self.names = names

        def get_group_options(self, group, results_filter):
            return [*self.names]

    def swept(*names):
        return OverridesParser.create(config_loader=Files(*names)).parse_overrides(["db=glob(*,exclude=old*)"])

    launched, given = Launched(float), SETTINGS | {"maximize": False}
    spend(swept("my", "pg"), launched, str(tmp_path), capital=1, **given)
    spend(swept("my", "old", "pg"), launched, str(tmp_path), capital=2, **given)
    refused("hydra.sweep.dir", spend, swept("lite", "my", "pg"), launched, str(tmp_path), capital=3, **given)
    assert launched.count == 2


def with_plugin(place):
    """The environment in which Hydra finds the plugin where an installed package has it."""
    (place / "hydra_plugins").mkdir()
    shutil.copy(ROOT / "mfbo_torch" / "hydra" / "plugin.py", place / "hydra_plugins" / "mfbo.py")
    paths = [str(place), os.environ.get("PYTHONPATH", str(ROOT))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@pytest.mark.slow
def test_the_example_of_the_page_runs_as_written(tmp_path):
    page = (ROOT / "docs" / "how-to" / "clusters.md").read_text("utf-8")
    script = page.partition("```python\n# train.py")[2].partition("```")[0]
    command = page.partition("```bash\npython train.py")[2].partition("```")[0].replace("\\\n", " ")
    assert len((script + command).strip().splitlines()) <= 10
    (tmp_path / "train.py").write_text(script)
    words = [sys.executable, "train.py", *shlex.split(command)]
    done = subprocess.run(words, cwd=tmp_path, env=with_plugin(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (results,) = tmp_path.rglob("optimization_results.yaml")
    assert yaml.safe_load(results.read_text())["best_evaluated_params"]["epochs"] == 27


@pytest.mark.slow
def test_an_application_is_swept_and_a_sweep_goes_on_in_its_folder(tmp_path):
    environment = with_plugin(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "config.yaml").write_text("rate: 0.1\nwidth: 64\nepochs: 30\n")
    settings = ["hydra/sweeper=mfbo", "hydra.sweeper.fidelity=epochs", "hydra.sweep.dir=out", "hydra.sweeper.workers=2"]
    space = ["rate=tag(log,interval(1e-5,0.1))", "width=range(16,512)", "epochs=3,30"]
    for capital in (40, 80):
        command = [sys.executable, "app.py", "--multirun", *settings, *space, f"hydra.sweeper.capital={capital}"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        with Journal(tmp_path / "out" / "history.sqlite", read_only=True) as journal:
            history = journal.history()
        assert capital - 30 < history.spent <= capital
        assert not history.pending
    found = yaml.safe_load((tmp_path / "out" / "optimization_results.yaml").read_text())
    best = found["best_evaluated_params"]
    value = (best["rate"] - 0.01) ** 2 + abs(best["width"] - 128) / 512 + 1 / 30
    assert found["best_evaluated_result"] == pytest.approx(value)
    first = yaml.safe_load((tmp_path / "out" / "0" / ".hydra" / "overrides.yaml").read_text())
    assert [override.partition("=")[0] for override in first] == ["rate", "width", "epochs"]

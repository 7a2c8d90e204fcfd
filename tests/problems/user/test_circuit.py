"""A circuit simulator from its YAML file alone: tuned, killed, resumed, and nothing of it left at a timeout."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from scipy.integrate import solve_ivp

from mfbo_torch.app.cli import main
from mfbo_torch.app.experiment import load
from mfbo_torch.app.run_folder import JOURNAL, recorded
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.problems import UserProblem
from mfbo_torch.strategies import RandomSearch
from mfbo_torch.utils.errors import EvaluationError, SettingError

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "configs" / "circuit.yaml"
pytestmark = pytest.mark.skipif(shutil.which("ngspice") is None, reason="no ngspice (apt install ngspice)")


def settings():
    return yaml.safe_load(CONFIG.read_text())["problem"]["init_args"]


def error_of(resistance, capacitance):
    """The integral of |v - 1| by SciPy: ``L i' = 1 - R i - v``, ``C v' = i - v / 10k``, the switching included."""

    def slope(t, state):
        i, v, _ = state
        return [(min(t / 1e-9, 1.0) - resistance * i - v) / 1e-3, (i - v / 1e4) / capacitance, abs(v - 1)]

    return solve_ivp(slope, (0, 4e-4), [0.0, 0.0, 0.0], rtol=1e-9, atol=1e-12, max_step=1e-7).y[2, -1]


def test_the_filter_is_one():
    problem = UserProblem(**settings())
    coarse, middle, fine = (problem.evaluate((60.0, 3e-8), m) for m in range(3))
    assert fine == pytest.approx(error_of(60.0, 3e-8), rel=1e-3)
    assert abs(middle - fine) < abs(coarse - fine)


def test_a_run_that_is_killed_goes_on(tmp_path):
    """As if nothing had happened: the queries are those that follow from the values."""
    out = tmp_path / "out"
    arguments = ["run", str(CONFIG), "--strategy", "RandomSearch", "--capital", "300", "--seed", "3", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "mfbo_torch", *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        until = time.monotonic() + 240
        while run.poll() is None and time.monotonic() < until:
            with suppress(SettingError):
                if (out / JOURNAL).exists() and len(recorded(out).done) >= 3:
                    break
            time.sleep(0.02)
        run.send_signal(signal.SIGKILL)
    before = load(out).history
    assert 3 <= len(before) < 10
    assert main(arguments) == 0
    found = load(out).history
    assert found.done[:3] == before.done[:3]
    assert len(found.done) == len(found) == 10
    problem = UserProblem(**settings())
    again = Optimizer(RandomSearch(seed=3), problem=problem)
    for record in found:
        assert again.ask()[0].query == record.query
        again.tell(record.id, record.value)
    assert found.records[-1].value == -problem.evaluate(found.records[-1].query.x, 2)


def test_nothing_is_left_at_a_timeout():
    given = settings()
    (text,) = given["files"].values()
    endless = {**given, "files": {"endless.cir": text}, "command": ["ngspice", "-b", "endless.cir"], "timeout": 0.5}
    problem = UserProblem(**{**endless, "fidelities": {"step": ["0.1p"]}, "costs": [1]})
    with pytest.raises(EvaluationError, match=r"no value within 0\.5 seconds"):
        problem.evaluate((100.0, 1e-7), 0)
    commands = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "endless.cir" not in commands

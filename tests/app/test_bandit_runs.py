"""Bandits through the doors that everything goes through: runs, journals, executors, the command line."""

import json
import random
from pathlib import Path

import pytest
import yaml

from benchmarks.quality.bandit.metrics import pseudo_regret
from mfbo_torch import Journal, Parameter, Space, maximize
from mfbo_torch.app import builder, compare, regret_curves
from mfbo_torch.app.cli import main
from mfbo_torch.app.schema import COMPARE, RUN, settings_of_command
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import MultiFidelityBandit, SyntheticBandit
from mfbo_torch.strategies import MFUCB, UCB

MEANS = [[0.4, 0.2], [0.5, 0.45], [0.6, 0.7], [0.3, 0.35], [0.1, 0.2], [0.65, 0.6]]
CONFIGS = Path(__file__).parents[2] / "configs" / "bandit"


def bandit(trial=0):
    return MultiFidelityBandit(MEANS, (0.2, 0.0), (1, 4), "bernoulli", trial=trial)


def settings(tmp_path, **changes):
    init = {"means": MEANS, "zeta": [0.2, 0.0], "costs": [1, 4], "rewards": "bernoulli"}
    own = {"class_path": "mfbo_torch.problems.MultiFidelityBandit", "init_args": init}
    mf = {"class_path": "mfbo_torch.strategies.MFUCB", "init_args": {"rewards": "bounded"}}
    return {"problem": own, "strategy": mf, "capital": 60.0, "out": str(tmp_path / "run"), **changes}


def test_the_seed_of_a_run_is_its_stream_of_rewards(tmp_path):
    for seed in (0, 7):
        problem, _ = builder.build(builder.resolve_run(settings(tmp_path, seed=seed)))
        assert problem.trial == seed
    own = settings(tmp_path, seed=7)
    own["problem"]["init_args"]["trial"] = 3
    assert builder.build(builder.resolve_run(own))[0].trial == 3


def test_mfbo_compare(tmp_path, capsys):
    one = settings(tmp_path)
    strategies = {"MF-UCB": one["strategy"], "UCB": {**one["strategy"], "class_path": "mfbo_torch.strategies.UCB"}}
    path = tmp_path / "compare.yaml"
    given = {"problem": one["problem"], "strategies": strategies, "seeds": 2, "capital": 60.0}
    path.write_text(yaml.safe_dump({**given, "metric": "cumulative", "out": str(tmp_path / "both"), "workers": 1}))
    assert main(["compare", str(path)]) == 0
    assert (tmp_path / "both" / "regret.png").exists()
    curves = compare.load(tmp_path / "both").curves["MultiFidelityBandit", "MF-UCB"]
    for seed, curve in curves.items():
        history = run(bandit(seed), MFUCB(rewards="bounded"), 60.0, progress=False)
        assert curve.cumulative[-1] == pytest.approx(pseudo_regret(history, bandit(seed), 60.0).total.item())
        assert curve.cumulative[50] == pytest.approx(pseudo_regret(history, bandit(seed), 15.0).total.item())
        assert 0.0 <= curve.simple[-1] < 0.5
    assert (curves[0].cumulative != curves[1].cumulative).any()


def test_nothing_asked_yet():
    assert bandit().pseudo_rewards(History()).shape == (0,)
    assert regret_curves.curve(History(), bandit(), 10.0).cumulative[-1] == pytest.approx(10.0 * 0.7)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("figure2-*.yaml")), ids=lambda path: path.stem)
def test_configs_of_the_figure(path, tmp_path):
    _, jobs = compare.plan(settings_of_command(COMPARE, [str(path), "--out", str(tmp_path)]))
    assert len(jobs) == 15
    number = int(path.stem[-1])
    for job in jobs[::5]:
        problem, strategy = builder.build(job.settings)
        assert isinstance(problem, SyntheticBandit)
        assert problem.number == number
        assert strategy.tail.psi(problem.means.new_ones(1)) == problem.tail.psi(problem.means.new_ones(1))


@pytest.mark.parametrize("name", ["advertisements", "classifiers"])
def test_configs_to_run(name, tmp_path):
    given = settings_of_command(RUN, [str(CONFIGS / f"{name}.yaml"), "--out", str(tmp_path)])
    problem, strategy = builder.build(builder.resolve_run(given))
    assert strategy.bind(problem.space).ask(History())[0].fidelity == 0


def test_the_arm_that_is_recommended_is_told_everywhere(tmp_path, capsys):
    """Its mean, not the luckiest play; also where the target was never played."""
    means, rng = [0.3, 0.2, 0.3, 0.9], random.Random(3)
    space = Space([Parameter("arm", 0, 3, integer=True)], costs=[1])
    path = tmp_path / "arms.sqlite"
    with Journal(path) as journal:
        win = lambda arm: float(rng.random() < means[arm])  # noqa: E731
        found = maximize(win, space, 80, strategy=UCB(rewards="bounded"), journal=journal)
    wins = [r.value for r in found.history if r.query.x == (3.0,)]
    assert found.recommended.x == (3.0,)
    assert found.recommended.mean == pytest.approx(sum(wins) / len(wins))
    made = settings(tmp_path, capital=400.0)
    made["problem"]["init_args"]["zeta"], made["problem"]["init_args"]["costs"] = [0.4, 0.0], [1, 300]
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump(made))
    assert main(["run", str(config)]) == 0
    capsys.readouterr()
    assert main(["best", "--json", str(tmp_path / "run")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["value"] is None
    assert 0.0 <= told["recommended"]["mean"] <= 1.0
    assert main(["show", str(tmp_path / "run")]) == 0
    assert f"arm = {told['recommended']['parameters']['arm']}, where" in capsys.readouterr().out

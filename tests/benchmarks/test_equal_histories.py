"""The tools that guard a change of the code: equal histories, and the ways through the package."""

import copy
import json

import pytest

from benchmarks.robustness import equal_histories
from benchmarks.robustness.paths import modules_of_a_decision, modules_of_a_value

QUICK = "strategies/MFUCB"


def test_every_strategy_is_tried():
    assert not equal_histories.untried()


@pytest.mark.parametrize("name", [QUICK, "strategies/GPUCB-fails"])
def test_equal_seeds_give_equal_histories(name):
    one, other = (equal_histories.history_of(name, 0) for _ in range(2))
    assert one == other
    assert not equal_histories.difference(one, other)


def test_a_change_is_told(tmp_path, capsys):
    file = tmp_path / "histories.json"
    what = ["--only", f"{QUICK}/0", "--workers", "1"]
    assert equal_histories.main(["--save", str(file), *what]) == 0
    assert equal_histories.main(["--compare", str(file), *what]) == 0
    content = json.loads(file.read_text())
    changed = copy.deepcopy(content)
    record = changed["runs"][f"{QUICK}/0"][7]
    before = float.fromhex(record["value"])
    record["value"] = (before + 0.5).hex()
    other = tmp_path / "changed.json"
    other.write_text(json.dumps(changed))
    capsys.readouterr()
    assert equal_histories.main(["--compare", str(file), str(other)]) == 1
    assert f"record 7 of 40: value {before} -> {before + 0.5}" in capsys.readouterr().out


@pytest.mark.parametrize("strategy", ["MFGPUCB", "GPBUCB"])
def test_a_history_passes_few_modules_during_a_decision(strategy):
    modules = modules_of_a_decision(strategy)
    assert "mfbo_torch.loop.optimizer" in modules
    assert len(modules) <= 8


def test_a_value_passes_few_modules_on_its_way_to_the_record():
    assert 3 < len(modules_of_a_value()) <= 8

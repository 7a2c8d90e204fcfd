"""The benchmarks of the operations, at sizes that take no time."""

import json
import math

import pytest
import torch

from benchmarks import timing
from benchmarks.gpu import __main__ as gpu
from benchmarks.speed.ops import run
from benchmarks.speed.ops.cases import CASES, SWEEPS, TINY, Case
from benchmarks.speed.ops.operations import OPERATIONS, Pair

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("case", TINY, ids=lambda case: case.name)
def test_every_operation_agrees_with_its_peer(case):
    pair = OPERATIONS[case.operation](case)
    assert pair.error() <= pair.limit


def test_the_registry():
    assert {case.operation for case in CASES} <= set(OPERATIONS) == {case.operation for case in TINY}
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.flops > 0 and case.bytes > 0 for case in [*CASES, *TINY, *SWEEPS["m"], *SWEEPS["n"]])
    forward, both = Case("posterior", 10, 4, 2), Case("posterior gradient", 10, 4, 2)
    assert (forward.flops, both.flops) == (400, 800)
    assert forward.bytes == 8 * (55 + 20 + 4 * 4)


def test_only_some_cases(tmp_path):
    arguments = ["--only", "float32", "--rounds", "1", "--span", "0", "--ceiling", "16"]
    assert run.main([*arguments, "--results", str(tmp_path)], TINY, {}) == 0
    (file,) = tmp_path.iterdir()
    assert [row["dtype"] for row in json.loads(file.read_text())["rows"]] == ["float32"]


def test_no_time_without_a_passing_check(tmp_path, monkeypatch):
    wrong = Pair(lambda: None, lambda: None, lambda: math.nan, 1.0)
    monkeypatch.setitem(OPERATIONS, TINY[0].operation, lambda case: wrong)
    arguments = ["--ceiling", "16", "--results", str(tmp_path)]
    assert run.main(arguments, TINY[:1], {}) == 1
    (file,) = tmp_path.iterdir()
    (row,) = json.loads(file.read_text())["rows"]
    assert row["error"] == "differs by nan, at most 1e+00 is allowed"
    assert "ours" not in row


def test_exponents_and_the_peak_memory_of_a_call():
    sizes = [10, 20, 40, 80]
    assert timing.exponent(sizes, [1e-6 * s**1.5 for s in sizes]) == pytest.approx(1.5)
    peak = timing.peak_bytes(lambda: torch.ones(2**20, dtype=torch.double).exp().sum())
    assert 2 * 2**23 <= peak < 2.1 * 2**23


def test_a_device_is_needed(capsys, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 2
    assert "--dry" in capsys.readouterr().out
    assert gpu.main(["--dry"]) == 2
    assert "TRITON_INTERPRET=1" in capsys.readouterr().out

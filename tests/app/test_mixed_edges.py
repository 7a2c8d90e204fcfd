"""Labels at the edges: tables of others, candidates, programs and journals; runs are in test_kinds_at_every_door."""

import pytest
from refusals import refused

from mfbo_torch.app import tabular_io
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.problems import UserProblem
from mfbo_torch.strategies import RandomSearch

PARAMETERS = {
    "kind": {"choices": ["sgd", "adam", "rms"]},
    "momentum": {"lower": 0.0, "upper": 0.9, "when": {"kind": "sgd"}},
    "width": {"choices": [16, 32, 64], "ordered": True},
    "bias": {"choices": [True, False]},
    "a": {"lower": 0.0, "upper": 1.0},
}


def score(parameters, fidelity):
    return 0.0


PROBLEM = UserProblem(score, {name: PARAMETERS[name] for name in ("kind", "momentum", "width", "bias")}, [1.0])


@pytest.mark.parametrize(
    ("row", "x"), [("adam,,32,TRUE,1", (1.0, 0.45, 1.0, 0.0)), ("sgd,0.1,16,False,1", (0.0, 0.1, 0.0, 1.0))]
)
def test_rows_of_others(tmp_path, row, x):
    path = tmp_path / "a.csv"
    path.write_text(f"kind,momentum,width,bias,value\n{row}\n")
    assert tabular_io.read(path, PROBLEM)[0].query.x == x


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("adm,,32,true,1", "kind = adm.*did you mean adam.*line 2"),
        ("sgd,,32,true,1", "given with momentum"),
        ("sgd,2,32,true,1", "momentum = 2.*between 0 and 0.9"),
        ("sgd,many,32,true,1", "momentum = many"),
        ("adam,,33,true,1", "width = 33.*one of 16, 32, 64"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path, row, said):
    path = tmp_path / "a.csv"
    path.write_text(f"kind,momentum,width,bias,value\n{row}\n")
    refused(f"^warm_start = .*{said}", tabular_io.read, path, PROBLEM)


def test_a_finite_set_of_designs_by_label():
    parameters = {name: PARAMETERS[name] for name in ("kind", "a")}
    problem = UserProblem(score, parameters, [1.0], candidates=[["adam", 0.5], ["rms", 0.25], ["sgd", 1.0]])
    assert problem.space.candidates == ((1.0, 0.5), (2.0, 0.25), (0.0, 1.0))
    optimizer = Optimizer(RandomSearch(), problem=problem)
    asked = [problem.space.named(record.query.x) for record in optimizer.ask(3)]
    assert sorted(named["kind"] for named in asked) == ["adam", "rms", "sgd"]
    refused("did you mean adam", UserProblem, score, parameters, [1.0], candidates=[["adm", 0.5]])


def test_a_program_is_told_nothing_of_what_is_not_there(tmp_path):
    command = ["sh", "-c", "test -z '{momentum}' && echo 1 || echo 2", "{kind}"]
    problem = UserProblem(None, {name: PARAMETERS[name] for name in ("kind", "momentum")}, [1.0], command=command)
    assert problem.evaluate((1.0, 0.45), 0) == 1
    assert problem.evaluate((0.0, 0.1), 0) == 2


def test_a_journal_of_fewer_choices_is_refused(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        Optimizer(RandomSearch(seed=1), journal, problem=PROBLEM).ask(8)
        fewer = {name: PARAMETERS[name] for name in ("momentum", "width", "bias")}
        fewer = {"kind": {"choices": ["sgd", "adam"]}, **fewer}
        refused("kind one of sgd, adam", Optimizer, RandomSearch(), journal, problem=UserProblem(score, fewer, [1.0]))

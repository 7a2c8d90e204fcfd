"""Tables of runs and of other programs, and labels where they come in."""

import csv
import time

import pytest
from refusals import refused
from toy import Hill, Walk

from mfbo_torch.app import tabular_io
from mfbo_torch.history import GIVEN, History, Query, Status
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.loop.runner import run
from mfbo_torch.problems import UserProblem
from mfbo_torch.space import Parameter, Space
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


HEADER = "kind,momentum,width,bias,value\n"
LABELS = ("kind", "momentum", "width", "bias")
PROBLEM = UserProblem(score, {name: PARAMETERS[name] for name in LABELS}, [1.0])


def history(problem):
    return run(problem, Walk(every=2), 40.0, progress=False)


@pytest.mark.parametrize(("maximize", "error"), [(True, None), (False, 0.5), (True, 0.0)])
def test_a_table_can_be_read_again(tmp_path, maximize, error):
    problem = Hill(maximize=maximize, trouble="raise", error=error)
    written = history(problem)
    tabular_io.write(written, problem, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(written)
    assert [row["status"] for row in rows] == [str(r.status) for r in written]
    done = [(row, r) for row, r in zip(rows, written, strict=True) if r.status == Status.DONE]
    assert all(float(row["value"]) == problem.signed(r.value) for row, r in done)
    assert all(row["reason"] for row in rows if row["status"] == "failed")
    read = tabular_io.read(tmp_path / "a.csv", problem)
    assert [r.id for r in read] == list(range(len(read)))
    assert [(r.query.x, r.query.fidelity, r.value, r.standard_error) for r in read] == [
        (r.query.x, r.query.fidelity, r.value, error) for r in written.done
    ]
    assert all(r.cost == 0 and r.query.meta == GIVEN for r in read)


def test_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    written = history(Hill())
    tabular_io.write(written, Hill(), tmp_path / "a.parquet")
    assert parquet.read_table(tmp_path / "a.parquet")["value"].to_pylist() == [r.value for r in written]


def test_choices_have_their_types_in_parquet(tmp_path):
    """Where all of a parameter's are of one type; texts elsewhere."""
    parquet, path = pytest.importorskip("pyarrow.parquet"), tmp_path / "a.parquet"
    choices = {"flag": [True, False], "size": [1, 10], "rate": [0.5, 2.5], "mixed": [1, "all"], "kind": ["a", "b"]}
    parameters = {name: {"choices": values} for name, values in choices.items()}
    problem = UserProblem(lambda p, fidelity: p["rate"], parameters, [1.0, 10.0])
    written = history(problem)
    tabular_io.write(written, problem, path)
    found = parquet.read_table(path)
    kinds = {name: {type(cell) for cell in found[name].to_pylist()} for name in choices}
    assert kinds == {"flag": {bool}, "size": {int}, "rate": {float}, "mixed": {str}, "kind": {str}}
    assert [r.query.x for r in tabular_io.read(path, problem)] == [r.query.x for r in written]


def test_tables_of_other_programs(tmp_path):
    """A byte order mark is not needed, the order of columns is free, the fidelity may be left out, so may values."""
    path = tmp_path / "a.csv"
    path.write_text("note,value,x\nfirst,2.5,1\nlost,,4\nthird,-1e-3,9.5\n")
    read = tabular_io.read(path, Hill(maximize=False))
    assert [(r.query.x, r.query.fidelity, r.value) for r in read] == [((1.0,), 1, -2.5), ((9.5,), 1, 1e-3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,fidelity\n1,0\n", "must be a table with a column value"),
        ("fidelity\n1\n", "must be a table with a column x, value"),
        ("", "must be a table with a column x, value"),
        ("x,value\n11,1\n", r"x = 11.0': must be between 0 and 10 \(.*, line 2\)"),
        ("x,value\n1,1\n1,many\n", r"value = many': must be a finite number \(.*, line 3\)"),
        ("x,value\n,1\n", r"x = ': must be between 0 and 10"),
        ("x,value\n1,inf\n", r"value = inf': must be a finite number"),
        ("x,value,fidelity\n1,1,2\n", r"fidelity = 2': must be 0 to 1 \(.*, line 2\)"),
        ("x,value,fidelity\n1,1,0.5\n", r"fidelity = 0.5': must be 0 to 1"),
        ("x,value,standard_error\n1,1,-0.5\n", r"standard_error = -0.5': must be a number from 0 on \(.*, line 2\)"),
        ("x,value,standard_error\n1,1,nan\n", r"standard_error = nan': must be a finite number"),
        ("x,value\n1\n2,\x00\n", "(readable CSV file|finite number)"),
        ("x,value,x\n1,2,3\n", "must be a table with one column x"),
        (f"{HEADER}adm,,32,true,1\n", "kind = adm.*did you mean adam.*line 2"),
        (f"{HEADER}sgd,,32,true,1\n", "given with momentum"),
        (f"{HEADER}sgd,2,32,true,1\n", "momentum = 2.*between 0 and 0.9"),
        (f"{HEADER}sgd,many,32,true,1\n", "momentum = many"),
        (f"{HEADER}adam,,33,true,1\n", "width = 33.*one of 16, 32, 64"),
    ],
)
def test_observations_that_cannot_be_used(tmp_path, text, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    problem = PROBLEM if text.startswith("kind") else Hill()
    refused(f"^warm_start = .*{message}", tabular_io.read, path, problem)


def test_a_table_that_is_too_long(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("x0,x1,value\n" + "0.5,0.5,1\n" * 4)
    monkeypatch.setattr(tabular_io, "MOST_ROWS", 3)
    refused("warm_start = .*at most 3 rows", tabular_io.read, tmp_path / "a.csv", Hill())


def test_a_table_with_very_many_columns_is_read_at_once(tmp_path):
    (tmp_path / "a.csv").write_text(",".join(["x,value", *map(str, range(400_000)), "7"]) + "\n1,2\n")
    began = time.process_time()
    refused("a table with one column 7$", tabular_io.read, tmp_path / "a.csv", Hill())
    assert time.process_time() - began < 5


def test_no_such_file(tmp_path):
    refused(r"must be a readable CSV file: .*No such file", tabular_io.read, tmp_path / "a.csv", Hill())


@pytest.mark.parametrize(
    ("name", "message"),
    [("a.txt", r"must be a name that ends with \.csv or \.parquet"), ("no/a.csv", "a file that can be written")],
)
def test_files_that_cannot_be_written(tmp_path, name, message):
    refused(message, tabular_io.write, history(Hill()), Hill(), tmp_path / name)


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    said = "must be a CSV file, or pyarrow must be installed"
    refused(said, tabular_io.write, history(Hill()), Hill(), tmp_path / "a.parquet")


def test_named_parameters_are_columns(tmp_path):
    problem = UserProblem(lambda p, fidelity: p["width"] / 2, {"width": {"lower": 1, "upper": 8}}, [1, 2])
    assert problem.space.parameters == (Parameter("width", 1, 8),)
    tabular_io.write(run(problem, Walk(), 6.0, progress=False), problem, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().startswith("id,width,fidelity,value,status,cost,retries,reason,")


def test_parameters_named_like_columns_are_kept(tmp_path):
    parameters = {name: {"lower": 0.0, "upper": 9.0, "integer": True} for name in ("value", "id", "cost", "a")}
    problem = UserProblem(lambda p, fidelity: p["value"] - p["cost"] + p["a"], parameters, [1.0, 10.0])
    written = history(problem)
    tabular_io.write(written, problem, tmp_path / "a.csv")
    text = (tmp_path / "a.csv").read_text()
    assert text.startswith("id,parameter.value,parameter.id,parameter.cost,a,fidelity,value,status,cost,")
    (tmp_path / "a.csv").write_text(text, encoding="utf-8-sig")  # as spreadsheets do
    read = tabular_io.read(tmp_path / "a.csv", problem)
    assert [(r.query.x, r.value) for r in read] == [(r.query.x, r.value) for r in written]
    (tmp_path / "a.csv").write_text("a,parameter.id,parameter.cost,parameter.value,value\n3.5,1,1,1,2\n")
    refused(r"a = 3.5': must be between 0 and 9, whole \(.*, line 2\)", tabular_io.read, tmp_path / "a.csv", problem)


def test_parameters_named_like_the_columns_of_others(tmp_path):
    """``id`` is written as ``parameter.id``, which may be another parameter's own name."""
    problem = Hill()
    problem.space = Space((Parameter("id", 0.0, 1.0), Parameter("parameter.id", 0.0, 1.0)), (1.0, 10.0))
    asked = History().asked(Query((0.25, 0.5), 1), 10.0)
    path = tmp_path / "a.csv"
    tabular_io.write(asked.updated(asked.records[0].done(1.0)), problem, path)
    assert path.read_text().splitlines()[0].startswith("id,parameter.id,parameter.parameter.id,fidelity")
    assert [r.query.x for r in tabular_io.read(path, problem)] == [(0.25, 0.5)]


@pytest.mark.parametrize(
    ("row", "x"), [("adam,,32,TRUE,1", (1.0, 0.45, 1.0, 0.0)), ("sgd,0.1,16,False,1", (0.0, 0.1, 0.0, 1.0))]
)
def test_rows_of_others(tmp_path, row, x):
    path = tmp_path / "a.csv"
    path.write_text(f"{HEADER}{row}\n")
    assert tabular_io.read(path, PROBLEM)[0].query.x == x


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


RISKY = ["=1+1", "+a", "-x", "@b", ' =HYPERLINK("http://a")', "\t=1", "\r=1", "a\rb", "a,b", "=a\nb", "é", "-1.5", "1"]


def test_what_a_spreadsheet_would_run_is_named_and_read_again_exactly(tmp_path):
    """The cells are as they were: a mark before them would be read back as a part of the label."""
    assert [text for text in RISKY if not tabular_io.is_formula(text)] == ["a\rb", "a,b", "é", "-1.5", "1"]
    assert not any(map(tabular_io.is_formula, (-1.5, None, True, "-1e-3", "+5", "-inf", "")))
    problem = UserProblem(score, {"=name": {"choices": RISKY}, "a": {"lower": -1.0, "upper": 1.0}}, [1.0])
    found = History()
    for i in range(len(RISKY)):
        x = problem.space.point({"=name": RISKY[i], "a": -0.05 * i})
        found = found.asked(Query(x, 0), 1.0)
        end = found.records[-1]
        found = found.updated(end.done(-float(i)) if i else end.failed("=1+1"))
    path = tmp_path / "a.csv"
    assert tabular_io.write(found, problem, path) == ["=name", "reason"]
    assert [r.query.x for r in tabular_io.read(path, problem)] == [r.query.x for r in found.done]
    plain = UserProblem(score, {"a": {"lower": -1.0, "upper": 1.0}}, [1.0])
    assert tabular_io.write(History().asked(Query((-0.5,), 0), 1.0), plain, path) == []

"""What evaluations print is kept, of those that succeed too."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from refusals import refused

from mfbo_torch import Journal, Parameter, Space, UserProblem, minimize, run
from mfbo_torch.app import cli
from mfbo_torch.history.storage.captured_output import Output, captured
from mfbo_torch.history.storage.outputs import keep, output_path, read
from mfbo_torch.loop.executors import start
from mfbo_torch.loop.run_options import RunOptions
from mfbo_torch.loop.runner import drive
from mfbo_torch.strategies import RandomSearch

BOX = {"x": {"lower": 0.0, "upper": 1.0}}


def loud(x):
    print(f"x is {x!r}")
    print("a warning", file=sys.stderr)
    if x > 0.7:
        raise RuntimeError("too large")
    return x


@pytest.mark.parametrize("where", ["here", "threads", "processes"])
def test_each_has_its_own(tmp_path, capsys, where):
    problem = UserProblem(loud, BOX, [1], maximize=False)
    with Journal(tmp_path / "a.sqlite") as journal:
        settings = {"journal": journal, "progress": False}
        if where == "here":
            history = run(problem, RandomSearch(), 12, **settings)
            assert capsys.readouterr().out.count("x is ") == 12  # and printed as before
        else:
            with start("processes", 2) if where == "processes" else ThreadPoolExecutor(3) as pool:
                history = run(problem, RandomSearch(), 12, executor=pool, max_pending=3, **settings)
    assert {record.value is None for record in history} == {True, False}
    for record in history:
        assert read(tmp_path / "a.sqlite", record.id) == f"x is {record.query.x[0]!r}\na warning\n"
    assert not hasattr(sys.stdout, "users")
    capsys.readouterr()
    assert cli.main(["show", str(tmp_path / "a.sqlite"), "--output", "3"]) == 0
    assert capsys.readouterr().out == f"x is {history.records[3].query.x[0]!r}\na warning\n"


def test_a_training_that_waits_keeps_what_it_printed_before_each_pause(tmp_path):
    def training(rate, trial):
        for epoch in trial.epochs():
            print(f"epoch {epoch} at {rate!r}")
            trial.report(rate / epoch)

    space = Space([Parameter("rate", 0.0, 1.0)], epochs=9)
    with Journal(tmp_path / "a.sqlite") as journal:
        history = minimize(training, space, 30, journal=journal).history
    assert any(record.query.fidelity for record in history)
    for record in history:
        printed = "".join(f"epoch {epoch:g} at {record.query.x[0]!r}\n" for epoch, _ in record.curve)
        assert read(tmp_path / "a.sqlite", record.id) == printed
    assert not hasattr(sys.stdout, "users")


def test_a_program_too(tmp_path):
    command = ["sh", "-c", "echo begin {x}; echo careful >&2; echo 0.5"]
    problem = UserProblem(command=command, parameters=BOX, costs=[1], maximize=False)
    with Journal(tmp_path / "a.sqlite") as journal:
        history = run(problem, RandomSearch(), 2, journal=journal, progress=False)
    for record in history:
        assert read(tmp_path / "a.sqlite", record.id) == f"begin {record.query.x[0]}\n0.5\ncareful\n"


@pytest.mark.parametrize("limit", [0, 100])
def test_as_much_as_is_wanted(tmp_path, capsys, limit):
    def wordy(x):
        print("a" * 5000 + "b" * 5000)
        return x

    problem = UserProblem(wordy, BOX, [1])
    with Journal(tmp_path / "a.sqlite") as journal:
        drive(problem, RandomSearch(), 1, RunOptions(output_limit=limit), journal=journal, progress=False)
    found = read(tmp_path / "a.sqlite", 0)
    expected = f"{'a' * 50}\n[9,901 characters are left out]\n{'b' * 49}\n"
    assert found == (None if limit == 0 else expected)
    assert capsys.readouterr().out.count("b") == 5000
    refused(r"^output_limit = -1", RunOptions, output_limit=-1)


def test_nothing_stays_of_an_earlier_run(tmp_path):
    journal = tmp_path / "a.sqlite"
    keep(journal, 0, "caf\udce9", 100)
    assert read(journal, 0) == "caf\\udce9"
    keep(journal, 0, "", 100)
    assert read(journal, 0) is None


def test_pieces_are_put_together():
    output, text = Output(1000), ""
    for i in range(3000):
        output.add(f"{i} ")
        text += f"{i} "
    assert str(output).startswith(text[:500])
    assert str(output).endswith(text[-500:])
    assert f"[{len(text) - 1000:,} characters are left out]" in str(output)
    with captured() as outer:
        print("one")
        with captured() as inner:
            print("two")
        print("three")
    assert (str(outer), str(inner)) == ("one\nthree\n", "two\n")


def test_links_lead_nowhere_and_escapes_do_nothing(tmp_path, capsys):
    def hostile(x):
        print("\x1b[2J\x07")
        return x

    journal = tmp_path / "a.sqlite"
    (tmp_path / "elsewhere").mkdir()
    output_path(journal, 0).parent.symlink_to(tmp_path / "elsewhere")
    with Journal(journal) as opened:
        minimize(hostile, {"x": (0, 1)}, 2, strategy="RandomSearch", journal=opened)
    assert not list((tmp_path / "elsewhere").iterdir())
    output_path(journal, 0).parent.unlink()
    with Journal(journal) as opened:
        minimize(hostile, {"x": (0, 1)}, 3, strategy="RandomSearch", journal=opened)
    capsys.readouterr()
    assert cli.main(["show", str(journal), "--output", "2"]) == 0
    assert capsys.readouterr().out == "\\x1b[2J\\x07\n"
    assert cli.main(["show", str(journal), "--output", "7"]) == 2

"""Programs as objectives: what they are told, where their value is, and that nothing of them is left."""

import os
import pickle
import signal
import time
from pathlib import Path

import pytest
from refusals import refused

from mfbo_torch import Observation
from mfbo_torch.app.builder import build, resolve_run
from mfbo_torch.loop.evaluation import evaluate
from mfbo_torch.problems import Program, UserProblem
from mfbo_torch.utils.errors import EvaluationError

posix = pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX's")


def sh(script, *arguments, **settings):
    return Program(["sh", "-c", script, *arguments], **settings)


def running(marker):
    """The processes that were told a marker, whoever their parents are."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if marker.encode() in words:
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize(
    ("script", "result", "value"),
    [
        ("echo begin; echo ' 0.25 '; echo", "last line", 0.25),
        ("echo '[0.5, 0.125]'", "last line", (0.5, 0.125)),
        ("echo inf", "last line", float("inf")),
        ('echo \'{{"a": {{"loss": 3}}}}\' > out.json', {"json": "out.json", "key": "a.loss"}, 3),
        ("echo 7 > out.json", {"json": "out.json"}, 7),
        ("echo 'loss = 1e-3 at 7'; echo 'loss = 2e-3 at 8'", {"pattern": r"^loss = (\S+)"}, 2e-3),
        ("echo 'peak: -4' > a.log", {"pattern": r"peak: (.*)", "file": "a.log"}, -4.0),
        ("echo '[0.5, null]'", "last line", (0.5, None)),
        ('echo \'{{"value": [1, 0.5], "ok": 2}}\'', "last line", {"value": (1, 0.5), "ok": 2}),
    ],
)
def test_values(script, result, value):
    assert sh(script, result=result)({}) == value


def test_a_list_that_a_program_prints_is_no_observation():
    """Two numbers may be a value with its standard error, or two objectives: the names say which."""
    given = {"parameters": {"x": {"lower": 0, "upper": 1}}, "costs": [1]}
    evaluated = [
        evaluate(UserProblem(**given, command=["sh", "-c", f"echo '{text}'", "{x}"]), (0.5,), 0)
        for text in ("[0.5, 0.125]", '{{"value": 0.5, "standard_error": 0.125}}')
    ]
    assert evaluated[0].reason.startswith("SettingError: objective's value = 'tuple of 2': must be a number, or")
    assert evaluated[1].observation == Observation(0.5, 0.125)


def test_what_a_program_is_told(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEPT", "kept")
    places = ["{rate}", "{rate:.2f}", "{width}", "{fidelity}", "{{}}", "{start}"]
    script = 'cat deck/in.txt; echo "$0|$1|$2|$3|$4|$5|$KEPT|$RATE|$(pwd)" > "$5/told"; echo 1'
    program = sh(script, *places, environment={"RATE": "r{rate}"}, files={"deck/in.txt": "{width} {{1}}\n"})
    assert program({"rate": 1e-5, "width": 7}, 2) == 1
    *told, folder = (tmp_path / "told").read_text().strip().split("|")
    assert told == ["1e-05", "0.00", "7", "2", "{}", str(tmp_path), "kept", "r1e-05"]
    assert not Path(folder).exists()


def test_a_program_beside_the_user(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "simulate").write_text("#!/bin/sh\necho $1\n")
    (tmp_path / "simulate").chmod(0o755)
    program = Program(["./simulate", "{x}"])
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(program))({"x": 2.5}) == 2.5


@pytest.mark.parametrize(
    ("script", "settings", "message", "details"),
    [
        ("echo first >&2; echo no pivot >&2; exit 3", {}, "sh ended with exit code 3: no pivot", "first"),
        ("echo out; exit 2", {}, "sh ended with exit code 2: out", "out"),
        ("kill -SEGV $$", {}, r"sh ended with exit code 139 \(SIGSEGV\)", ""),
        ("echo warning >&2", {}, "nothing was written to the standard output", "warning"),
        ("echo done", {}, "the last line of the standard output is no number: 'done'", "done"),
        ("true", {"result": {"json": "a.json"}}, "a.json cannot be read: No such file", ""),
        ("echo x > a.json", {"result": {"json": "a.json"}}, "a.json is not JSON", ""),
        ("echo '{{\"loss\": 1}}' > a", {"result": {"json": "a", "key": "los"}}, "a has no los; did you mean loss?", ""),
        ("echo 1", {"result": {"pattern": "v=(.*)"}}, r"nothing in the standard output matches 'v=\(\.\*\)'", ""),
        ("echo v=", {"result": {"pattern": "v=(.*)"}}, "what matches in the standard output is no number", ""),
        ("echo slow >&2; sleep 60", {"timeout": 0.5}, "no value within 0.5 seconds", "slow"),
        ("echo 1_000", {}, "the last line of the standard output is no number: '1_000'", ""),
        ("echo ١٢", {}, "the last line of the standard output is no number: '١٢'", ""),
        ("echo 0x10", {}, "the last line of the standard output is no number: '0x10'", ""),
        ("head -c 100000 /dev/zero | tr '\\0' '['", {}, "the result is nested too deep", ""),
        ("mkfifo a", {"result": {"json": "a"}}, "a cannot be read: not a regular file", ""),
        ("ln -s /dev/zero a", {"result": {"pattern": "(.)", "file": "a"}}, "a cannot be read: not a regular", ""),
        ("mkdir a", {"result": {"json": "a"}}, "a cannot be read: Is a directory", ""),
        ('rm -rf "$PWD"; exit 3', {}, "sh ended with exit code 3$", ""),
        ('rm -rf "$PWD"; echo 1', {"result": {"pattern": "(.)"}}, "stdout.txt cannot be read: No such file", ""),
    ],
)
def test_failures_say_why(script, settings, message, details):
    with pytest.raises(EvaluationError, match=message) as caught:
        sh(script, **settings)({})
    assert details in caught.value.details
    assert pickle.loads(pickle.dumps(caught.value)).details == caught.value.details


def test_a_failure_in_the_history():
    program = ["sh", "-c", 'echo "begin {x}" >&2; yes no | head -n 40000 >&2; echo last >&2; exit 1']
    problem = UserProblem(command=program, parameters={"x": {"lower": 0, "upper": 1}}, costs=[1])
    reason = evaluate(problem, [0.5], 0).reason
    assert reason.startswith("sh ended with exit code 1: last\n  ")
    assert len(reason) < 4_000
    assert reason.endswith("last")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"command": "simulate {x}"}, r"command = 'simulate {x}': must be a list of texts"),
        ({"command": []}, r"command = \[\]: must be a list of texts"),
        ({"command": ["sleep", 3, "{x}"]}, "command = 3: must be a text; numbers are written in quotes"),
        ({"command": ["nowhere", "{x}"]}, "command = 'nowhere': must be a program that is on the PATH"),
        ({"command": ["./nowhere", "{x}"]}, "command = './nowhere': must be a program that is there"),
        ({"command": ["echo", "{y}"]}, r"command = '{y}': must be one of x, rate, fidelity, folder, start$"),
        ({"command": ["echo", "{rte}"]}, "command = '{rte}': must be one of .*; did you mean rate?"),
        ({"command": ["echo", "{x"]}, "command = '{x': must be a text with names in braces, and braces doubled"),
        ({"command": ["echo", "{}"]}, "a text with names in braces; {} is none"),
        ({"command": ["echo", "{x.real}"]}, "a text with names in braces; {x.real} is none"),
        ({"command": ["echo", "{x:d}"]}, "command = '{x:d}': must be a text whose formats fit the values"),
        ({"command": ["echo", "{x}", "{fidelity}"]}, "a place for {rate}, here, in environment or in files"),
        ({"command": ["echo", "{x}", "{rate}"]}, r"must be with a place for {fidelity}"),
        ({"command": ["python3", "here.py", "{x}"]}, "command = 'here.py': must be {start}/here.py: the program"),
        ({"environment": ["A=1"]}, "environment = .*: must be a mapping of names to texts"),
        ({"environment": {"A": 1}}, "environment.A = 1: must be a text"),
        ({"environment": {"A": "{z}"}}, "environment.A = '{z}': must be one of"),
        ({"files": {"../a": "{x}"}}, "files = '../a': must be the name of a file within the folder"),
        ({"files": {"a": "{z}"}}, "files.a = '{z}': must be one of"),
        ({"timeout": 0}, "timeout = 0: must be a number above 0"),
        ({"result": "first line"}, "result = 'first line': must be \"last line\", {json: FILE"),
        ({"result": {"jsn": "a"}}, "result = {'jsn': 'a'}: must be"),
        ({"result": {"json": "a", "ky": "b"}}, "result = 'ky': must be one of json, key; did you mean key?"),
        ({"result": {"json": "/a"}}, "result.json = '/a': must be the name of a file within"),
        ({"result": {"pattern": "v=("}}, r"result.pattern = 'v=\(': must be a regular expression: missing"),
        ({"result": {"pattern": "v=.*"}}, "result.pattern = .*: must be with one group in parentheses"),
        ({"objective": "a:b"}, "objective = 'a:b': must be left out where command is given"),
        ({"command": None, "timeout": 3}, "timeout = 3: must be left out, or given with command"),
        ({"command": None}, "objective = None: must be a function"),
        ({"parameters": {"start": {"lower": 0, "upper": 1}}}, "parameters = 'start': must be another name"),
    ],
)
def test_mistakes_are_told_before_anything_runs(settings, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.py").touch()
    parameters = {"x": {"lower": 0, "upper": 1}, "rate": {"lower": 0, "upper": 1}}
    usual = {"command": ["echo", "{x}{rate}{fidelity}"], "parameters": parameters, "costs": [1, 10]}
    refused(message, UserProblem, **{**usual, **settings})


def test_settings_of_a_file(monkeypatch, tmp_path):
    """They are read and spelt out; what was run elsewhere is shown without the program."""
    command = {"command": ["simulate", "{x}"], "result": {"json": "a"}, "parameters": {"x": {"lower": 0, "upper": 1}}}
    problem = {"class_path": "UserProblem", "init_args": {**command, "costs": [1]}}
    settings = resolve_run({"problem": problem, "strategy": "RandomSearch", "capital": 3, "out": str(tmp_path)})
    assert settings["problem"]["init_args"]["command"] == ["simulate", "{x}"]
    assert build(settings, to_evaluate=False)[0].space.dim == 1
    refused("command = 'simulate': must be a program that is on the PATH", build, settings)


@pytest.mark.parametrize("written", ["true", "false", "[true, 0.5]", "[1, true]", '{{"value": true}}', "[]", '"3"'])
def test_what_json_has_beside_numbers_is_no_value(written):
    problem = UserProblem(command=["echo", written, "{x}"], parameters={"x": {"lower": 0, "upper": 1}}, costs=[1])
    problem.objective = Program(["echo", written])
    outcome = evaluate(problem, [0.5], 0)
    assert outcome.observation is None
    assert "must be a number" in outcome.reason


def test_an_expression_that_takes_for_ever_is_ended_at_the_timeout():
    began = time.monotonic()
    program = sh("echo " + 40 * "a" + "b", result={"pattern": "(a+)+$"}, timeout=0.5)
    with pytest.raises(EvaluationError, match=r"'\(a\+\)\+\$' found nothing in the standard output within"):
        program({})
    assert time.monotonic() - began < 20
    assert not running("(a+)+$")


@posix
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="orphans are Linux's to hand on")
@pytest.mark.parametrize("end", ["KILL", "STOP"])
@pytest.mark.parametrize("guards", ["$PPID", "$(cut -d' ' -f4 /proc/$PPID/stat)"])
def test_nothing_is_left_by_a_program_that_ends_or_stops_its_guards(end, guards):
    marker = f"64.{len(guards)}{len(end) + ord(end[0])}"
    script = f"(setsid sleep {marker} &); (trap '' TERM; sleep {marker}) & kill -{end} {guards}; sleep {marker}"
    began = time.monotonic()
    with pytest.raises(EvaluationError):
        sh(script, timeout=2.0)({})
    assert time.monotonic() - began < 30
    until = time.monotonic() + 5
    while running(marker) and time.monotonic() < until:
        time.sleep(0.05)
    assert not running(marker)


@posix
def test_nothing_is_left_at_a_timeout_or_by_a_program_that_is_done():
    """Its own child, one that hears no request to leave, and one that has left the group and lost its parent."""
    script = "trap '' TERM; (setsid sleep 61.25 &) ; (trap '' TERM; sleep 61.25) & sleep 61.25"
    began = time.monotonic()
    with pytest.raises(EvaluationError, match="no value within"):
        sh(script, timeout=1.0)({})
    assert time.monotonic() - began < 20
    assert not running("61.25")
    assert sh("(setsid sleep 62.25 > /dev/null 2>&1 &); echo 1")({}) == 1
    assert not running("62.25")


@posix
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_the_driver_ends(end):
    marker = f"63.{int(end)}"
    program = sh(f"(setsid sleep {marker} &); sleep {marker}")
    driver = os.fork()
    if not driver:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            program({})
        finally:
            os._exit(1)
    until = time.monotonic() + 30
    while len(running(marker)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(driver, end)
    os.waitpid(driver, 0)
    until = time.monotonic() + 10
    while running(marker) and time.monotonic() < until:
        time.sleep(0.05)
    assert not running(marker)

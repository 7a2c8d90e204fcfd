"""What strangers have put into names, reasons and paths reaches the terminal, the log and the bar as text."""

import json
import logging
import re
import sys
import textwrap

import pytest
import yaml

import mfbo_torch
from mfbo_torch.app import cli
from mfbo_torch.app.cli.terminal import pairs, say, shown, styled, table
from mfbo_torch.app.run_folder import recorded
from mfbo_torch.utils.output_streams import printable

ESCAPE, C1, BIDI = "\x1b]0;owned\x07\x1b[31mred", "\x9b2J\x7f", "\u202egnp.exe\u2066"
HOSTILE = f"é日本{ESCAPE}{C1}{BIDI}"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What no stream may get, but for tabs and newlines of our own."""


def test_control_characters_are_seen():
    assert printable("é 日本\xa0\u200d🙂 a\\b") == "é 日本\xa0\u200d🙂 a\\b"
    assert printable("a\nb\r\tc\0") == r"a\nb\r\tc\x00"
    assert printable("\x1b[31m\x9b\x7f\x85") == r"\x1b[31m\x9b\x7f\x85"
    assert printable("\u202e\u2066\u200f\u061c\u2028\udc9b") == r"\u202e\u2066\u200f\u061c\u2028\udc9b"
    assert printable(1.5) == "1.5"


def test_colours_are_ours_alone(monkeypatch, capsys):
    monkeypatch.setattr("mfbo_torch.app.cli.terminal._CODES", {"bold": "1", "red": "31"})
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert styled("\x1b[2J", "red") == "\x1b[31m\\x1b[2J\x1b[0m"
    assert pairs([("a\n", styled("b", "red"))], 1) == "\x1b[1ma\\n\x1b[0m \x1b[31mb\x1b[0m"
    assert table(("h",), [("\x1b[1m",), ("c\nd",)]) == "\x1b[1mh\x1b[0m\n\\x1b[1m\nc\\nd"
    say(f"{styled('lost', 'red')} in a text", styled("kept", "red"))
    assert capsys.readouterr().out == r"\x1b[31mlost\x1b[0m in a text" + " \x1b[31mkept\x1b[0m\n"
    assert shown(shown("\x1b")) == r"\x1b"


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A run whose problem, parameters, choices, fidelity, reasons and folder have control characters in their names."""
    monkeypatch.chdir(tmp_path)
    source = f"""
        def evil(p, mesh):
            if p["x"] > 0.5:
                raise RuntimeError({HOSTILE!r})
            return p["x"]
        evil.__name__ = evil.__qualname__ = {HOSTILE!r}
    """
    (tmp_path / "hostile.py").write_text(textwrap.dedent(source))
    parameters = {"x": {"lower": 0, "upper": 1}, f"n{HOSTILE}": {"choices": [f"c{HOSTILE}", "d"]}}
    fidelities = {"mesh": [f"m{HOSTILE}", f"fine{HOSTILE}"]}
    given = {"objective": "hostile:evil", "parameters": parameters, "fidelities": fidelities, "costs": [1, 2]}
    settings = {"problem": {"class_path": "UserProblem", "init_args": given}, "strategy": "RandomSearch"}
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump({**settings, "capital": 30, "out": f"runs/o{HOSTILE}", "seed": 1}))
    return path


def clean(capsys, kept="é日本"):
    """What was printed, without control characters."""
    out, err = capsys.readouterr()
    for text in (out, *err.split("\r")):  # the bar begins its line anew
        assert not CONTROL.search(text), text
    if kept:
        assert kept in out + err
        assert r"\x1b" in out + err
    return out + err


def test_no_command_prints_control_characters(config, tmp_path, capsys):
    assert cli.main(["run", str(config)]) == 0
    assert r"\u202e" in clean(capsys)
    (out,) = (tmp_path / "runs").iterdir()
    log = (out / "run.log").read_text()
    assert not CONTROL.search(log)
    assert r"RuntimeError: é日本\x1b]0;owned" in log
    assert all(re.match(r"\d{4}-\d\d-\d\d ", line) for line in log.splitlines())
    for arguments in (["show"], ["show", str(out)], ["best"], ["best", str(out)], ["list"], ["export", str(out)]):
        assert cli.main(arguments) == 0
        clean(capsys)
    assert cli.main(["best", str(out), "--json"]) == 0
    assert json.loads(clean(capsys, ""))["folder"] == str(out)
    assert cli.main(["show", str(out), "--html"]) == 0
    clean(capsys)
    page = (out / "report.html").read_text()
    assert not CONTROL.search(page)
    assert r"\u202egnp.exe" in page
    for arguments in (
        ["show", f"no{HOSTILE}"],
        ["list", f"no{HOSTILE}"],
        [f"no{HOSTILE}"],
        ["best", f"--no{HOSTILE}"],
        ["run", f"no{HOSTILE}.yaml"],
        ["run", str(config), f"--strategy=No{HOSTILE}"],
        ["export", str(out), f"no{HOSTILE}"],
        ["repair", f"no{HOSTILE}"],
    ):
        assert cli.main(arguments) == 2
        clean(capsys, r"\x1b")


def test_a_comparison_prints_no_control_characters(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"problem": "Currin", "strategies": {f"s{HOSTILE}": "RandomSearch"}, "seeds": 1, "capital": 20}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({**settings, "workers": 1, "out": "runs/c"}))
    assert cli.main(["compare", "c.yaml"]) == 0
    clean(capsys)
    assert cli.main(["show", "runs/c"]) == 0
    clean(capsys)


def test_loggers_and_results_in_python_too(caplog, capsys):
    def f(p):
        if p[HOSTILE] < 0.5:
            raise RuntimeError(HOSTILE)
        return 1.0

    with caplog.at_level(logging.INFO, "mfbo_torch"):
        result = mfbo_torch.minimize(f, {HOSTILE: (0, 1)}, 12, progress=True)
    clean(capsys, "")
    assert not CONTROL.search(caplog.text)
    assert not CONTROL.search(repr(result))
    assert not CONTROL.search(result._repr_html_() + result.problem._repr_html_() + result.history._repr_html_())
    assert r"RuntimeError: é日本\x1b]0;owned\x07" in caplog.text


def test_cells_that_a_spreadsheet_would_run_are_named(config, tmp_path, capsys):
    settings = yaml.safe_load(config.read_text()) | {"out": "runs/a"}
    settings["problem"]["init_args"]["parameters"] = {"x": {"lower": 0, "upper": 1}, "k": {"choices": ["=1+1", "-x"]}}
    config.write_text(yaml.safe_dump(settings))
    assert cli.main(["run", str(config)]) == 0
    capsys.readouterr()
    assert cli.main(["export", "runs/a", "a.csv"]) == 0
    said = "mfbo: a spreadsheet would run cells of k as formulas; there, import a.csv as text\n"
    assert capsys.readouterr().err == said
    assert cli.main(["run", str(config), "--out", "runs/b", "--warm_start", "a.csv"]) == 0
    read, written = (recorded(tmp_path / "runs" / name).done for name in "ba")
    assert [r.query.x for r in read[: len(written)]] == [r.query.x for r in written]
    compared = {"problem": "Currin", "strategies": {"=s": "RandomSearch"}, "seeds": 1, "capital": 20, "workers": 1}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({**compared, "out": "runs/c"}))
    capsys.readouterr()
    assert cli.main(["compare", "c.yaml"]) == 0
    assert "would run cells of strategy as formulas; there, import runs/c/regret.csv as text" in capsys.readouterr().err
    assert cli.main(["export", "runs/c"]) == 0
    assert "would run cells of strategy as formulas" in capsys.readouterr().err

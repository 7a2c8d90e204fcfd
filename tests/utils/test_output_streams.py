"""Output that nobody reads any more, and terminals that know few letters."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from mfbo_torch.app import cli
from mfbo_torch.utils import output_streams

HERE = Path(__file__).parent


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "a.yaml"
    given = {"objective": "chatty:f", "parameters": {"größe": {"lower": 0, "upper": 1}}, "costs": [1]}
    problem = {"class_path": "UserProblem", "init_args": given}
    (tmp_path / "chatty.py").write_text("def f(p, m):\n    print('x' * 5000, flush=True)\n    return sum(p.values())\n")
    settings = {"problem": problem, "strategy": "RandomSearch", "capital": 30, "out": str(tmp_path / "out")}
    path.write_text(yaml.safe_dump(settings))
    return path


def mfbo(folder, *arguments, **options):
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parents[1]}", "LC_ALL": "C", "PYTHONUTF8": "0"}
    environment |= {"PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "mfbo_torch", *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, env=environment, **options)


@pytest.mark.slow
def test_a_run_goes_on_when_nobody_reads_it_and_a_head_ends_show(tmp_path, config):
    """Both streams go into a pipe whose reader leaves at once; the terminal is ASCII."""
    read, write = os.pipe()
    run = mfbo(tmp_path, "run", config, stdout=write, stderr=write)
    os.close(read)
    os.close(write)
    assert run.wait(300) == 0
    read, write = os.pipe()
    show = mfbo(tmp_path, "show", tmp_path / "out", stdout=write, stderr=subprocess.PIPE)
    os.close(read)
    os.close(write)
    assert show.communicate(timeout=300)[1] == b""
    assert show.returncode == 0
    show = mfbo(tmp_path, "show", tmp_path / "out", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = show.communicate(timeout=300)
    assert err == b""
    assert rb"gr\xf6\xdfe = " in out


class Breaking(io.StringIO):
    encoding = "ascii"

    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")

    def fileno(self):
        raise io.UnsupportedOperation("fileno")


def test_a_stream_that_breaks_falls_silent(monkeypatch):
    for broken in (Breaking(), None):
        stream = output_streams.TolerantStream(broken)
        assert stream.write("text") == 4
        stream.flush()
        assert stream.isatty() is False
    monkeypatch.setattr(sys, "stdout", Breaking())
    monkeypatch.setattr(sys, "stderr", None)
    output_streams.tolerate_broken_output()
    output_streams.tolerate_broken_output()
    assert cli.main(["--help"]) == 0
    assert isinstance(sys.stdout._stream, Breaking)

"""Configs and journals damaged at random: a line that says what is wrong, never a traceback, never a changed file."""

import contextlib
import io
import json
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, currently_in_test_context, event, given, settings
from hypothesis import strategies as st

from mfbo_torch.app import cli

pytestmark = pytest.mark.slow
CONFIG = {
    "problem": {"class_path": "toy.Hill", "init_args": {"upper": 8.0, "maximize": True}},
    "strategy": {"class_path": "toy.Walk", "init_args": {"every": 2, "width": 0.3}},
    "capital": 14,
    "max_pending": 1,
    "retries": 0,
    "seed": 0,
    "device": "cpu",
    "dtype": "float64",
}
STATED = "problem strategy capital max_pending retries timeout executor scheduler warm_start seed device dtype out"
CLASSES = "problem.class_path problem.init_args strategy.class_path strategy.init_args"
INSIDE = "problem.init_args.upper problem.init_args.maximize strategy.init_args.every strategy.init_args.width"
UNKNOWN = "unheard_of strategy.init_args.unheard_of"
PLACES = [tuple(place.split(".")) for place in f"{STATED} {CLASSES} {INSIDE} {UNKNOWN}".split()]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([0.0, -1.5, 3.5, float("nan"), float("inf"), -float("inf"), 1e-320]),
    st.text(max_size=8),
    st.sampled_from(["Currin", "toy.Walk", "toy.Nothing", "os.system", "nowhere.Nobody", "a.b.c", "", ".", "cuda:99"]),
)
JUNK = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.text(max_size=5), SCALARS, max_size=3))
# more of them: benchmarks.robustness.fuzz
FUZZ = settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def mfbo(*arguments):
    """The exit code and the last line of the standard error, which may hold no traceback."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([str(argument) for argument in arguments])
    assert "Traceback" not in err.getvalue()
    line = (err.getvalue().strip().splitlines() or [""])[-1]
    assert code in (0, 1, 2)
    assert code == 0 or line.startswith("mfbo: ")
    if currently_in_test_context():
        event(f"{arguments[0]} ends with {code}")
    return code


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a config and the run it has led to."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "config.yaml").write_text(yaml.safe_dump({**CONFIG, "out": str(folder / "out")}))
    assert mfbo("run", folder / "config.yaml") == 0
    return folder


def put(config, place, value):
    *path, last = place
    for key in path:
        config = config.setdefault(key, {}) if isinstance(config, dict) else {}
    if isinstance(config, dict):
        config[last] = value


@FUZZ
@given(st.lists(st.tuples(st.sampled_from(PLACES), JUNK), min_size=1, max_size=3))
def test_configs_with_other_values(finished, changes):
    config = json.loads(json.dumps({**CONFIG, "out": str(finished / "out")}))
    for place, value in changes:
        put(config, place, value)
    if isinstance(config.get("out"), str) and config["out"] != str(finished / "out"):
        config["out"] = str(finished / "other")
    path = finished / "changed.yaml"
    path.write_text(yaml.safe_dump(config, allow_unicode=True))
    text, before = path.read_bytes(), files(finished / "out")
    code = mfbo("run", path, *([] if config.get("out") else ["--out", finished / "other"]))
    assert path.read_bytes() == text
    if code == 2:
        assert files(finished / "out") == before
    shutil.rmtree(finished / "other", ignore_errors=True)
    if code != 2 and files(finished / "out") != before:
        shutil.rmtree(finished / "out")
        assert mfbo("run", finished / "config.yaml") == 0


@FUZZ
@given(st.data())
def test_configs_with_other_letters(finished, data):
    text = bytearray((finished / "config.yaml").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=4))
    path, other = finished / "changed.yaml", finished / "other"
    path.write_bytes(bytes(text))
    mfbo("run", path, "--out", other, "--capital", "14", "--max_pending", "1")
    assert path.read_bytes() == bytes(text)
    shutil.rmtree(other, ignore_errors=True)


@settings(FUZZ, max_examples=50)
@given(st.data())
def test_damaged_journals(finished, data):
    whole = (finished / "out" / "history.sqlite").read_bytes()
    damaged = bytearray(whole)
    match data.draw(st.sampled_from(["cut", "flip", "overwrite", "append"])):
        case "cut":
            del damaged[data.draw(st.integers(0, len(whole) - 1)) :]
        case "flip":
            for at in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=20)):
                damaged[at] ^= data.draw(st.integers(1, 255))
        case "overwrite":
            at, size = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(1, 2000))
            damaged[at : at + size] = bytes([data.draw(st.integers(0, 255))]) * min(size, len(whole) - at)
        case "append":
            damaged += data.draw(st.binary(min_size=1, max_size=200))
    folder = finished / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(finished / "out", folder)
    path = folder / "history.sqlite"
    path.write_bytes(damaged)
    mfbo("show", folder)
    mfbo("export", folder, finished / "table.csv")
    assert path.read_bytes() == damaged
    if mfbo("run", finished / "config.yaml", "--out", folder, "--capital", "16") == 2:
        assert path.read_bytes() == damaged
    shutil.rmtree(folder)

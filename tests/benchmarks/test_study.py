"""The runner of grids: what is there is not done again, whatever ended the command before."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import study
from benchmarks.study import Job, Study, measure, read

COLUMNS = ("problem", "method", "seed", "capital", "value")
DONE: list[tuple[object, ...]] = []


def execute(job):
    """Two rows, or an error."""
    if job.method == "broken":
        raise ValueError("as it must")
    if job.method == "fatal":
        os.kill(os.getpid(), signal.SIGKILL)
    DONE.append(job)
    return [(*job[:3], capital, capital / (job.seed + 1)) for capital in job.capitals]


CAPITALS = (10, 20)
GRID = [Job("line", method, seed, CAPITALS) for seed in range(2) for method in ("first", "second, with a comma")]


@pytest.fixture(autouse=True)
def _nothing_done():
    DONE.clear()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "rows.csv"


def test_what_is_there_is_not_done_again(path):
    assert measure(GRID[:2], execute, path, COLUMNS) == 0
    assert read(path)[-1] == dict(zip(COLUMNS, ("line", "second, with a comma", "0", "20", "20"), strict=True))
    before = path.read_bytes()
    assert measure(GRID, execute, path, COLUMNS) == 0
    assert DONE == GRID
    assert path.read_bytes().startswith(before)
    assert measure(GRID, execute, path, COLUMNS) == 0
    assert len(DONE) == len(GRID)
    assert len(read(path)) == 2 * len(GRID)


def test_a_run_with_a_further_capital_adds_that_row_alone(path):
    measure(GRID[:1], execute, path, COLUMNS)
    measure([GRID[0]._replace(capitals=(10, 20, 30))], execute, path, COLUMNS)
    assert [row["capital"] for row in read(path)] == ["10", "20", "30"]


def test_what_was_truncated_is_done_again(path, monkeypatch):
    """Wherever a kill ends the file, the next command leaves the whole one."""
    monkeypatch.setattr(study, "told", lambda *_: {})
    measure(GRID, execute, path, COLUMNS)
    whole = path.read_bytes()
    assert not path.with_suffix(".unfinished").exists()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    starts = [0, *ends[2:-1:2]]  # the first run comes with the header
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        path.with_suffix(".unfinished").write_text(str(max(start for start in starts if start <= end)))
        measure(GRID, execute, path, COLUMNS)
        assert path.read_bytes() == whole, end


def test_a_write_that_does_not_end(path):
    """The note is there before the rows, and gone only after them."""

    class Full:
        name = "rows.csv"

        def tell(self):
            return 7

        def write(self, data):
            assert note.read_text() == "7"
            return len(data) - 1

    note = path.parent.parent / "note"
    with pytest.raises(OSError, match="full"):
        study._add(Full(), [("a", 1)], note)
    assert note.exists()


def test_a_failed_run_leaves_the_others(path, capsys):
    broken = Job("line", "broken", 0, CAPITALS)
    assert measure([broken, *GRID], execute, path, COLUMNS) == 1
    assert len(read(path)) == 2 * len(GRID)
    assert "('line', 'broken', 0) failed, the others go on: ValueError: as it must" in capsys.readouterr().out


@pytest.mark.slow
def test_workers_find_the_same_and_one_may_die(path, capsys):
    assert measure([Job("line", "fatal", 0, CAPITALS), *GRID], execute, path, COLUMNS, workers=2) == 1
    assert {(row["method"], row["seed"]) for row in read(path)} == {(job.method, str(job.seed)) for job in GRID}
    assert "WorkerLost" in capsys.readouterr().out


def test_who_has_added_rows_is_beside_them(path):
    about = path.with_name("rows.about.json")
    measure([Job("line", "broken", 0, CAPITALS)], execute, path, COLUMNS)
    assert not about.exists()
    measure(GRID[:1], execute, path, COLUMNS)
    measure(GRID[:1], execute, path, COLUMNS)  # adds nothing
    measure(GRID, execute, path, COLUMNS)
    entries = json.loads(about.read_text())
    assert [entry["first_row"] for entry in entries] == [0, 2]
    assert all(entry["torch"] and entry["threads"] == 1 for entry in entries)


def test_two_commands_and_two_benchmarks_do_not_mix_their_rows(path):
    def again(job):
        with pytest.raises(SystemExit, match="another command"):
            measure(GRID, execute, path, COLUMNS)
        return execute(job)

    assert measure(GRID[:1], again, path, COLUMNS) == 0
    before = path.read_bytes()
    with pytest.raises(SystemExit, match="has the columns problem, method"):
        measure(GRID, execute, path, COLUMNS[:-1])
    assert path.read_bytes() == before
    assert len(read(path)) == 2


def test_a_packed_file_is_read_and_unpacked_before_rows_are_added(path):
    measure(GRID[:1], execute, path, COLUMNS)
    before = path.read_bytes()
    path.with_name("rows.csv.gz").write_bytes(gzip.compress(before))
    path.unlink()
    assert len(read(path)) == 2
    measure(GRID, execute, path, COLUMNS)
    assert path.read_bytes().startswith(before)
    assert not path.with_name("rows.csv.gz").exists()


def test_jobs_of_a_study():
    """The first seeds of all methods before the next ones; what is planned, and capitals up to the largest wanted."""
    grid = {"problems": dict.fromkeys("ab"), "methods": dict.fromkeys("xy"), "capitals": (5, 10), "columns": ()}
    jobs = Study("nowhere", "grid", **grid, seeds=2).jobs
    first = [("a", "x", 0), ("a", "y", 0), ("b", "x", 0), ("b", "y", 0), ("a", "x", 1)]
    assert [job[:3] for job in jobs()][:5] == first
    assert {job.capitals for job in jobs(most=7)} == {(5,)}
    assert {job.capitals for job in jobs(most=3)} == {(3,)}
    apart = Study("nowhere", "grid", **grid, plan=lambda problem, method, seed: [(5,), (10,)] if problem == "a" else [])
    assert apart.jobs(methods="x", seeds=[0]) == [Job("a", "x", 0, (5,)), Job("a", "x", 0, (10,))]
    together = Study("nowhere", "grid", **grid, together=True)
    assert together.jobs(problems="a", seeds=[0]) == [Job("a", ("x", "y"), 0, (5, 10))]


def test_a_run_with_rows_for_several_methods_is_done_once(path):
    def both(job):
        DONE.append(job)
        return [(job.problem, method, job.seed, c, 1.0) for method in job.method for c in job.capitals]

    job = Job("line", ("first", "second"), 0, CAPITALS)
    for _ in range(2):
        assert measure([job], both, path, COLUMNS) == 0
    assert [job] == DONE


SLOW = """
import time
from pathlib import Path
from tests_of_runs import COLUMNS, Job, measure

def execute(job):
    time.sleep(0.05)
    return [(*job[:3], 0, 0.0)]

measure([Job("line", "slow", seed, (0,)) for seed in range(1000)], execute, Path("rows.csv"), COLUMNS)
"""


@pytest.mark.slow
def test_a_killed_command_goes_on_where_it_was(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW.replace("tests_of_runs", Path(__file__).stem))
    here = [str(Path(__file__).parent), str(Path(study.__file__).parents[1])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*here, os.environ.get("PYTHONPATH", "")])}
    path = tmp_path / "rows.csv"
    with subprocess.Popen([sys.executable, "slow.py"], cwd=tmp_path, env=environment) as command:
        while not path.exists() or path.read_bytes().count(b"\n") < 4:
            assert command.poll() is None
            time.sleep(0.02)
        command.kill()
    count = len(read(path))
    assert 3 <= count < 1000
    seeds = range(count + 1)
    measure([Job("line", "slow", seed, (0,)) for seed in seeds], execute, path, COLUMNS)
    assert [row["seed"] for row in read(path)] == [str(seed) for seed in seeds]
    assert len(DONE) == 1

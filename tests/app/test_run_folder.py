"""What commands write into a folder: whole, and never through a link that somebody has put there."""

import os
import shutil
from pathlib import Path

import matplotlib.figure
import pytest
import yaml
from journals import change, fill

from mfbo_torch.app import cli
from mfbo_torch.app.compare import PICTURE as REGRET
from mfbo_torch.app.compare import RECOMMENDED, TABLE
from mfbo_torch.app.run_folder import CONFIG, JOURNAL, LOG, PICTURE, SUMMARY, TRIALS
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.problems.trial import REPORTS, Trial

PRECIOUS = "precious"
RUN = ["run", "--problem", "Currin", "--strategy", "RandomSearch", "--capital", "30", "--out"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder of a run."""
    out = tmp_path_factory.mktemp("runs") / "a"
    assert cli.main([*RUN, str(out)]) == 0
    return out


@pytest.fixture
def out(ran, tmp_path):
    """A copy of it that may be changed."""
    return Path(shutil.copytree(ran, tmp_path / "a"))


def link(path, target):
    """A link that somebody has put in the place of a file."""
    target.write_text(PRECIOUS)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (["export", "DIR"], "history.csv"),
        (["export", "DIR", "DIR/h.parquet"], "h.parquet"),
        (["show", "DIR", "--html"], "report.html"),
        ([*RUN, "DIR"], SUMMARY),
        ([*RUN, "DIR"], PICTURE),
        ([*RUN, "DIR"], f".{PICTURE}"),
        ([*RUN, "DIR"], f".{SUMMARY}"),
        ([*RUN, "DIR"], f".{CONFIG}"),
    ],
)
def test_no_command_writes_through_a_link(out, tmp_path, arguments, file):
    if "export" in arguments and file.endswith("parquet"):
        pytest.importorskip("pyarrow")
    link(out / file, tmp_path / "target")
    assert cli.main([a.replace("DIR", str(out)) for a in arguments]) == 0
    assert (tmp_path / "target").read_text() == PRECIOUS
    drafts = {f".{name}" for name in (PICTURE, SUMMARY, CONFIG)}
    assert file in drafts or not (out / file).is_symlink()
    assert not [*out.glob("*.part")]


@pytest.mark.parametrize("name", [JOURNAL, LOG, TRIALS])
def test_what_a_run_writes_in_place_is_no_link(out, tmp_path, capsys, name):
    for begun in (True, False):
        folder = out if begun else tmp_path / "new"
        folder.mkdir(exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(tmp_path / "nowhere")
        assert cli.main([*RUN, str(folder)]) == 2
        assert f"must be a folder whose {name} is no link" in capsys.readouterr().err
        assert not (tmp_path / "nowhere").exists()


def test_a_log_that_would_block_is_refused(out, capsys):
    (out / LOG).unlink()
    os.mkfifo(out / LOG)
    assert cli.main([*RUN, str(out)]) == 2
    assert f"whose {LOG} is no link and can be written" in capsys.readouterr().err


def test_a_comparison_writes_through_no_link(tmp_path, capsys):
    out, target, elsewhere = tmp_path / "c", tmp_path / "target", tmp_path / "elsewhere"
    settings = {"problem": "Currin", "strategies": {"one": "RandomSearch"}, "seeds": 1, "capital": 20, "workers": 1}
    config = tmp_path / "c.yaml"
    config.write_text(yaml.safe_dump({**settings, "out": str(out)}))
    out.mkdir()
    for name in (TABLE, REGRET):
        link(out / name, target)
    assert cli.main(["compare", str(config)]) == 0
    assert target.read_text() == PRECIOUS
    assert not (out / TABLE).is_symlink()
    assert RECOMMENDED not in {path.name for path in out.iterdir()}
    elsewhere.mkdir()
    config.write_text(yaml.safe_dump({**settings, "out": str(tmp_path / "d")}))
    for inner in ("Currin", "Currin/one", "Currin/one/seed-0"):
        place = tmp_path / "d" / inner
        shutil.rmtree(tmp_path / "d", ignore_errors=True)
        place.parent.mkdir(parents=True)
        place.symlink_to(elsewhere)
        assert cli.main(["compare", str(config)]) == 2
        assert "must be a folder of this comparison, not a link" in capsys.readouterr().err
    assert not [*elsewhere.iterdir()]


def test_a_run_is_found_through_a_link_to_its_folder(out, tmp_path):
    (tmp_path / "link").symlink_to(out)
    assert cli.main(["export", str(tmp_path / "link")]) == 0
    assert cli.main([*RUN, str(tmp_path / "link")]) == 0
    assert (out / "history.csv").is_file()


def test_a_full_disk_leaves_the_old_picture_and_no_draft(out, capsys, monkeypatch):
    old = (out / PICTURE).read_bytes()

    def full(self, file, **_):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", full)
    assert cli.main([*RUN, str(out)]) == 2
    assert "a folder that can be written: No space left on device" in capsys.readouterr().err
    assert (out / PICTURE).read_bytes() == old
    assert not [*out.glob("*.part"), *out.glob(".*.part")]


def test_repair_and_init_write_through_no_link(tmp_path, monkeypatch, capsys):
    path, nowhere = tmp_path / "a.sqlite", tmp_path / "nowhere"
    with Journal(path) as journal:
        fill(journal)
        journal.save(tmp_path / "saved.sqlite")
    change(path, "UPDATE event SET value = 4.0 WHERE sequence = 5")
    monkeypatch.chdir(tmp_path)
    for name in ("new.sqlite", "new.yaml", "objective.py"):
        Path(name).symlink_to(nowhere)
    assert cli.main(["repair", "a.sqlite", "new.sqlite"]) == 2
    assert cli.main(["init", "new.yaml"]) == 2
    assert cli.main(["init", "other.yaml"]) == 0
    assert not nowhere.exists()
    assert cli.main(["init", "no/folder.yaml"]) == 2
    assert cli.main(["repair", "a.sqlite", "no/folder.sqlite"]) == 2
    assert "No such file or directory" in capsys.readouterr().err
    assert cli.main(["repair", "a.sqlite", "b.sqlite"]) == 0
    with Journal("b.sqlite") as repaired, Journal("saved.sqlite", read_only=True) as saved:
        assert len(repaired.history()) <= len(saved.history())
    left = {name for name in os.listdir() if not name.endswith(".lock")}
    assert left == {"a.sqlite", "b.sqlite", "saved.sqlite", "new.sqlite", "new.yaml", "objective.py", "other.yaml"}


def test_reports_of_a_training_follow_no_link(tmp_path):
    trial = Trial(0, tmp_path / "00000")
    trial.open()
    link(trial.folder / REPORTS, tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        trial.report(1, 0.5)
    assert (tmp_path / "target").read_text() == PRECIOUS

"""``mfbo list`` of folders that somebody else has changed: a line for each, whatever is in them."""

import os
import shutil

from odd_folders import ODD, changed, whole

from mfbo_torch.app import cli, run_folder

__all__ = ["whole"]


def listed(capsys, place):
    capsys.readouterr()
    assert cli.main(["list", str(place)]) == 0
    out, err = capsys.readouterr()
    assert not err
    return {line.split()[0].rpartition("/")[2]: line for line in out.splitlines()[1:]}


def test_odd_folders_are_a_line_each_and_the_others_are_listed(whole, tmp_path, capsys):
    for name in ODD:
        changed(whole, tmp_path, name)
    shutil.copytree(whole / "comparison", tmp_path / "zcomparison")
    shutil.copytree(whole / "run", tmp_path / "good")
    lines = listed(capsys, tmp_path)
    assert len(lines) == len(ODD) - 1 + 2 + 1  # a config that is a pipe is listed as well
    assert lines["good"].endswith("  finished")
    assert lines["zcomparison"].endswith("runs begun: 1")
    for name, (_, said) in ODD.items():
        assert "  unreadable: " in lines[name], name
        assert said in lines[name]


def test_times_and_depths_that_nobody_has(whole, tmp_path, capsys, monkeypatch):
    shutil.copytree(whole / "run", tmp_path / "late")
    for path in (tmp_path / "late").iterdir():
        os.utime(path, (3e11, 3e11))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / run_folder.CONFIG).symlink_to("nowhere")
    monkeypatch.setattr(run_folder, "DEEPEST", 3)
    shutil.copytree(whole / "run", tmp_path / "d" / "d" / "d" / "d" / "deep")
    lines = listed(capsys, tmp_path)
    assert set(lines) == {"late", "broken"}
    assert lines["late"].endswith("  finished")
    assert "unreadable: folder = " in lines["broken"]

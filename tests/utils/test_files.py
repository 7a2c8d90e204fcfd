"""Files that are whole or not there, and temporary folders after a kill."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mfbo_torch.utils import files

DIES = """import os, signal
from mfbo_torch.utils.files import temporary_folder
with temporary_folder() as made:
    (made / "inner").mkdir()
    (made / "inner" / "file").write_text("left")
    (made / "link").symlink_to(os.environ["TARGET"])
    print(made, flush=True)
    {ends}
"""


def test_a_file_is_replaced_whole_and_a_link_is_not_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "a.txt"
    target.write_text("precious")
    link.symlink_to(target)
    files.write_text(link, "é\n")
    assert target.read_text() == "precious"
    assert not link.is_symlink()
    assert link.read_bytes() == "é\n".encode()
    link.chmod(0o600)
    files.write_text(link, "again")
    assert (link.read_text(), link.stat().st_mode & 0o777) == ("again", 0o600)
    dangling = tmp_path / "b.txt"
    dangling.symlink_to(tmp_path / "nowhere")
    files.write_text(dangling, "b")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b.txt", "target"]


def test_the_old_file_stays_where_writing_fails(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    def half(error):
        with files.replacing(path) as file:
            file.write(b"half")
            raise error

    for error in (OSError("No space left on device"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            half(error)
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", full)
        with pytest.raises(OSError, match="No space"):
            files.write_text(path, "new")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        files.write_text(tmp_path / "folder", "new")
    assert path.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "folder"]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary directory of its own, here and in other processes."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    files.sweep.cache_clear()
    return tmp_path / "tmp"


def other(ends, target):
    """Another process that has a temporary folder."""
    environment = {**os.environ, "TARGET": str(target)}
    code = [sys.executable, "-c", DIES.format(ends=ends)]
    process = subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    return process, Path(process.stdout.readline().strip())


@pytest.mark.skipif(files.fcntl is None, reason="folders are swept by locks that Windows has not")
def test_what_a_killed_process_has_left_is_swept_and_nothing_else(temporary, tmp_path, monkeypatch):
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").write_text("precious")
    living, kept = other("input()", target)
    killed, left = other("os.kill(os.getpid(), signal.SIGKILL)", target)
    assert killed.wait(60) == -signal.SIGKILL
    assert (left / "inner" / "file").exists()
    alike = ["mfbo-my_tests", "mfbo-abcdefgh.tmp.old", "tmpabcdefgh", "mfbo-ABCDEFGH.tmp"]
    for name in alike:
        (temporary / name).mkdir()
    (temporary / "mfbo-abcdefgh.tmp").symlink_to(target)
    (temporary / "mfbo-bcdefghi.tmp").write_text("a file")
    with files.temporary_folder() as own:
        assert own.parent == temporary
        files.sweep.cache_clear()
        files.sweep(str(temporary))
        assert own.is_dir()
        assert kept.is_dir()
        assert not left.exists()
    assert not own.exists()
    assert (target / "file").read_text() == "precious"
    assert sorted(p.name for p in temporary.iterdir()) == sorted(
        [*alike, "mfbo-abcdefgh.tmp", "mfbo-bcdefghi.tmp", kept.name]
    )
    with monkeypatch.context() as patch:  # that of another user
        living.kill()
        living.wait()
        patch.setattr(files.os, "geteuid", lambda: os.getuid() + 1)
        files.sweep.cache_clear()
        files.sweep(str(temporary))
        assert kept.is_dir()
    files.sweep.cache_clear()
    with files.temporary_folder():
        assert not kept.exists()


def test_a_folder_that_is_swept_before_it_is_locked_is_made_anew(temporary, monkeypatch):
    plain, seen = files._locked, []

    def swept(path):
        seen.append(path)
        if len(seen) == 1:
            os.rmdir(path)
        if len(seen) == 2:
            raise BlockingIOError
        if len(seen) == 4:
            raise OSError(95, "Operation not supported")
        return plain(path)

    monkeypatch.setattr(files, "_locked", swept)
    for used in (2, 3):
        with files.temporary_folder() as made:
            assert str(made) == seen[used]
    assert not [*temporary.iterdir()]


def test_folders_nested_deep_are_left_without_an_error(temporary):
    def nested(within):
        here = os.getcwd()
        try:
            os.chdir(within)
            for _ in range(1500):
                os.mkdir("a")
                os.chdir("a")
        finally:
            os.chdir(here)

    with files.temporary_folder() as made:
        nested(made)
    (temporary / "mfbo-abcdefgh.tmp").mkdir()
    nested(temporary / "mfbo-abcdefgh.tmp")
    files.sweep.cache_clear()
    files.sweep(str(temporary))
    subprocess.run(["rm", "-rf", *map(str, temporary.iterdir())], check=True)

"""The outcomes of a command: its files, its history, its one line of error."""

from mfbo_torch.app import cli
from mfbo_torch.history.storage.journal import Journal


def history(out):
    with Journal(out / "history.sqlite", read_only=True) as journal:
        return journal.history()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def fails(capsys, argv, said):
    """The command ends with code 2 and exactly one line on the standard error."""
    capsys.readouterr()
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("mfbo: ")
    assert said in err

"""The good rows of damaged journals."""

from journals import change, fill, forge, other_columns
from refusals import refused

from mfbo_torch.app import cli
from mfbo_torch.app.cli import commands
from mfbo_torch.history import History, Query
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.history.storage.repair import salvage


def test_the_rows_before_the_damage_are_saved(tmp_path, capsys):
    path, new = tmp_path / "history.sqlite", tmp_path / "history.repaired.sqlite"
    with Journal(path) as journal:
        whole = fill(journal)
    change(path, "UPDATE event SET value = 4.0 WHERE sequence = 5")
    before = path.read_bytes()
    assert cli.main(["repair", str(tmp_path)]) == 0
    assert f"4 good rows in {new}" in capsys.readouterr().out
    assert path.read_bytes() == before
    assert {found.name for found in tmp_path.iterdir()} == {".history.sqlite.lock", path.name, new.name}
    with Journal(new) as journal:
        saved = journal.history()
        assert saved.records[1:] == whole.records[1:]
        assert saved.records[0].value is None
        journal.ended(saved.records[0].done(1.0))
    assert cli.main(["repair", str(tmp_path)]) == 2
    assert "must be a file that does not exist yet" in capsys.readouterr().err


def test_what_a_killed_writer_left_is_saved_too(tmp_path):
    path = tmp_path / "a.sqlite"
    journal = Journal(path)
    whole = fill(journal)
    assert salvage(path, tmp_path / "b.sqlite") == 5
    with Journal(tmp_path / "b.sqlite") as saved:
        assert saved.history() == whole
        assert [*saved.replay()] == [*journal.replay()]
    journal.close()


def test_rows_that_someone_else_has_signed(tmp_path):
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        fill(journal)
    forge(path, 3, cost="'dear'")
    assert salvage(path, tmp_path / "b.sqlite") == 2
    with Journal(tmp_path / "b.sqlite") as saved:
        assert len(saved.history()) == 2


def test_a_header_that_is_gone_and_a_file_without_anything(tmp_path):
    path = tmp_path / "a.sqlite"
    with Journal(path) as journal:
        fill(journal)
    path.write_bytes(b"x" + path.read_bytes()[1:])
    refused("journal", Journal, path)
    assert salvage(path, tmp_path / "b.sqlite") == 5
    other_columns(tmp_path / "other.sqlite")
    for content in (b"x" * 3000, (tmp_path / "other.sqlite").read_bytes()):
        path.write_bytes(content)
        refused("a journal with a good row; this one has none", salvage, path, tmp_path / "c.sqlite")
    refused("a readable file", salvage, tmp_path / "nowhere", tmp_path / "c.sqlite")
    refused(r"as in mfbo repair .*DIR\|JOURNAL", commands.parse, ["repair"])
    assert not (tmp_path / "c.sqlite").exists()


def test_nothing_but_the_new_journal_is_left(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        fill(journal)
    (tmp_path / "new").mkdir()
    assert salvage(tmp_path / "a.sqlite", tmp_path / "new" / "b.sqlite") == 5
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["b.sqlite"]


def test_damaged_settings_beside_it_are_told(tmp_path, capsys):
    with Journal(tmp_path / "history.sqlite") as journal:
        fill(journal)
    (tmp_path / "config.yaml").write_text("[1")
    assert cli.main(["repair", str(tmp_path)]) == 0
    assert f"put {tmp_path / 'config.yaml'} back first" in " ".join(capsys.readouterr().out.split())


def test_a_file_that_is_cut_off_keeps_its_first_rows(tmp_path):
    with Journal(tmp_path / "a.sqlite") as journal:
        history = History()
        for i in range(1000):
            history = history.asked(Query((i / 1000,), 0), 1.0)
        journal.asked(history)
    whole = (tmp_path / "a.sqlite").read_bytes()
    found = []
    for share in (0.5, 0.7, 0.9):
        (tmp_path / "b.sqlite").write_bytes(whole[: int(share * len(whole))])
        refused("mfbo repair saves what can be read", Journal, tmp_path / "b.sqlite")
        found.append(salvage(tmp_path / "b.sqlite", tmp_path / f"{share}.sqlite"))
    assert 0 < found[0] < found[1] < found[2]

"""Documents of an attacker: one line, bounded memory, no value taken for another."""

import json
import tracemalloc

import pytest
import yaml

from mfbo_torch.app import cli
from mfbo_torch.utils import safe_yaml

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
)
DOCUMENTS = [
    (BOMB, "more than 100000 values"),
    ("a: " + "[" * 1000 + "]" * 1000, "nested deeper than 50"),
    ("".join(" " * i + "a:\n" for i in range(1000)), "nested deeper than 50"),
    ("a: " + "[" * 100_000, "nested deeper than 50"),
    ("a: &a [*a]", "an alias within what it stands for"),
    ("capital: 10\ncapital: 20\n", "the key 'capital' is there twice"),
    ("problem:\n  init_args: {x: 1, y: 2, x: 3}\n", "the key 'x' is there twice, from line 2 on"),
    ('out: "a\\0b"', "a text without zero characters and lone surrogates"),
    ('out: "\\ud800"', "a text without zero characters and lone surrogates"),
    ("out: a\0b", "special characters are not allowed"),
    ("!!python/object/apply:os.system [true]", "could not determine a constructor"),
]


@pytest.mark.parametrize(("text", "said"), DOCUMENTS, ids=[said for _, said in DOCUMENTS])
def test_a_document_of_an_attacker_is_refused_in_one_line(tmp_path, capsys, text, said):
    (tmp_path / "config.yaml").write_text(text)
    (tmp_path / "history.sqlite").touch()
    for command in (["run", str(tmp_path / "config.yaml")], ["show", str(tmp_path)], ["export", str(tmp_path)]):
        assert cli.main(command) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert said in err


def test_a_bomb_takes_no_memory():
    tracemalloc.start()
    with pytest.raises(yaml.YAMLError, match="more than 100000 values"):
        safe_yaml.load(BOMB)
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


def test_what_people_write_is_read_as_ever():
    text = "base: &b {a: 1, c: [1e-5, .5, true, null, 2001-01-01]}\nx: {inner: &i {<<: *b, a: 2}}\ny: {<<: *i, d: *b}\n"
    usual = yaml.safe_load(text.replace("1e-5", "1.0e-5").replace("2001-01-01", "'2001-01-01'"))
    assert safe_yaml.load(text) == usual
    assert safe_yaml.load("") is None


def test_what_looks_like_a_number_or_a_truth_is_what_it_says():
    text = "[no, yes, on, off, True, FALSE, 010, 09, 1:30, 1_000, -7, 0x1F]"
    found = ["no", "yes", "on", "off", True, False, 10, 9, "1:30", 1000, -7, "0x1F"]
    assert safe_yaml.load(text) == found
    assert [type(value) for value in safe_yaml.load(text)] == [type(value) for value in found]
    texts = [*map(str, found), *text[1:-1].split(", ")]
    assert safe_yaml.load(safe_yaml.dump(texts)) == texts


def test_a_configuration_is_read_once_and_in_one_encoding(tmp_path, capsys, monkeypatch):
    path = tmp_path / "a.yaml"
    settings = {"problem": "toy.Hill", "strategy": "toy.Walk", "capital": 12, "out": str(tmp_path / "ö")}
    path.write_text(yaml.safe_dump(settings, allow_unicode=True), encoding="utf-8")
    monkeypatch.setattr("locale.getpreferredencoding", lambda *_: "latin-1")
    assert cli.main(["run", str(path)]) == 0
    assert (tmp_path / "ö" / "summary.json").exists()
    assert cli.main(["run", "--config", str(path), f"--config={path}", "--capital", "14"]) == 0
    assert cli.main(["run", "--config"]) == 2
    assert "--config = None: must be followed by a value" in capsys.readouterr().err
    (tmp_path / "b.yaml").write_text(BOMB)
    assert cli.main(["run", "--config", str(tmp_path / "b.yaml")]) == 2
    assert "more than 100000 values" in capsys.readouterr().err


def test_texts_on_the_command_line_that_cannot_be_stored(tmp_path, capsys):
    for name in ("a\udcff", "a\0"):
        flags = ["--problem", "toy.Hill", "--strategy", "toy.Walk", "--capital", "12", "--out", str(tmp_path / name)]
        assert cli.main(["run", *flags]) == 2
        assert "must be text without zero characters and lone surrogates" in capsys.readouterr().err


def test_a_module_that_ends_the_process_does_not_end_the_command(tmp_path, capsys, monkeypatch):
    """It used to end silently, with exit code 0."""
    (tmp_path / "quitting.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    user = {"objective": "quitting:f", "parameters": {"x": {"lower": 0, "upper": 1}}, "costs": [1]}
    for problem in ({"class_path": "mfbo_torch.problems.UserProblem", "init_args": user}, "quitting.Problem"):
        path = tmp_path / "a.yaml"
        path.write_text(yaml.safe_dump({"problem": problem, "strategy": "toy.Walk", "capital": 12}))
        assert cli.main(["run", str(path), "--out", str(tmp_path / "out")]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_two_escapes_of_json_are_one_letter():
    assert safe_yaml.load(json.dumps({"a": "😀é"})) == {"a": "😀é"}
    with pytest.raises(yaml.YAMLError, match="lone surrogates"):
        safe_yaml.load(r'{"a": "\ud83d"}')

"""Values of settings by their types: what is taken, what is refused and how that is said."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import pytest
import yaml

from mfbo_torch.app.schema import RUN, settings_of_command
from mfbo_torch.app.setting_types import ClassEntry, FlagText, class_settings, in_words, make, read
from mfbo_torch.confidence.prior import Prior
from mfbo_torch.strategies import MFGPUCB, RandomSearch
from mfbo_torch.utils.errors import SettingError

PRIOR = "mfbo_torch.confidence.prior.Prior"
FUNCTION = Callable[..., float]


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        (3, float, 3.0),
        (3, int, 3),
        (None, int | None, None),
        ("theory", float | str | None, "theory"),
        ([1, 2], Sequence[float], [1.0, 2.0]),
        ((1, 2), list[int] | None, [1, 2]),
        ([1, 2], Iterable[int], [1, 2]),
        ([1, 2], tuple[float, ...], [1.0, 2.0]),
        ({"a": [1]}, Mapping[str, Sequence[float]], {"a": [1.0]}),
        ({1: {2: (3,)}}, Any, {"1": {"2": [3]}}),
        ("mine:f", str | FUNCTION, "mine:f"),
        ("one", Literal["one", 2], "one"),
        (FlagText("5"), int, 5),
        ({"x": {"lower": FlagText("0.5"), "upper": 1}}, dict[str, Any], {"x": {"lower": 0.5, "upper": 1}}),
        (FlagText("5"), str, "5"),
        (FlagText("no"), str | None, "no"),
        (FlagText("null"), str | None, None),
        (FlagText(""), str | None, ""),
        (FlagText("what? #1"), str | None, "what? #1"),
        (FlagText("#1"), str | None, "#1"),
        (FlagText("'a #1' # b"), str, "a #1"),
        (FlagText("1e-5"), float | str, 1e-5),
        (FlagText("[1, 2]"), list[float], [1.0, 2.0]),
        (FlagText("[1"), str | list[int], "[1"),
        ({"class_path": "A"}, str | ClassEntry, {"class_path": "A"}),
    ],
)
def test_what_fits_a_type_is_taken(value, kind, found):
    assert read("a", value, kind) == found
    assert type(read("a", value, kind)) is type(found)


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (True, int, "a = True: must be a whole number"),
        (1.0, int, "a = 1.0: must be a whole number"),
        (10**400, float, "must be a number"),
        ("3", float, "a = '3': must be a number"),
        (1, bool, "a = 1: must be true or false"),
        (3, str, "a = 3: must be text"),
        (None, str, "a = None: must be text"),
        (True, Literal["one", 1], "a = True: must be one of 'one', 1"),
        ("ab", Sequence[str], "a = 'ab': must be a list"),
        ([1, "b"], Sequence[float] | None, "a = 'b': must be a number"),
        ({"b": {"c": 1}}, dict[str, dict[str, str]] | None, "a.b.c = 1: must be text"),
        (3, str | dict[str, str] | FUNCTION | None, "a = 3: must be text or a mapping"),
        ({1, 2}, Any, "a = '{1, 2}': must be made of numbers, texts, lists and mappings"),
        (FlagText("many"), int | None, "a = 'many': must be a whole number"),
        ("b", Prior | None, "a = 'b': must be settings of a Prior, as a mapping"),
        ({"length": 3}, Prior, f"a.length = 3: must be one of the settings of {PRIOR}: kernel, lengthscale"),
        ({"class_path": "os.system"}, Prior, "a.class_path = 'os.system': must be that of a Prior"),
        ({"class_path": "a.B"}, Prior, "must be that of a Prior (No module named 'a')"),
        ({"class_path": PRIOR, "noise": 1}, Prior, "must be a mapping of class_path and init_args, nothing else"),
    ],
)
def test_what_fits_none_is_refused_by_name(value, kind, said):
    with pytest.raises(SettingError) as caught:
        read("a", value, kind)
    assert said in str(caught.value)


@pytest.mark.parametrize("given", [{"noise": 1}, {"class_path": PRIOR, "init_args": {"noise": 1}}])
def test_objects_are_made_of_mappings(given):
    stored = read("prior", given, Prior | None)
    assert stored["class_path"] == PRIOR
    assert stored["init_args"]["noise"] == 1.0
    assert make(stored, Prior | None) == Prior(noise=1.0)
    assert make({"noise": 1}, dict) == {"noise": 1}
    assert make([1, 2], tuple[int, ...]) == (1, 2)


def test_settings_of_a_class_are_explained_by_its_docstring():
    known = class_settings(MFGPUCB)
    assert known["link"].default == "recursive"
    assert known["link"].help == '``"recursive"`` or ``"independent"``.'
    assert known["seed"].help == "Seed of every random choice."
    assert in_words(known["beta"].kind) == "a number or text"
    assert list(class_settings(RandomSearch)) == ["seed", "space", "capital"]


def test_flags_of_a_class_change_what_its_file_says(tmp_path):
    path = tmp_path / "a.yaml"
    strategy = {"class_path": "mfbo_torch.strategies.MFGPUCB", "init_args": {"refit_every": 3}}
    path.write_text(yaml.safe_dump({"problem": "Currin", "strategy": strategy, "capital": 9}))
    begin = [str(path), "--out", "x"]
    same = settings_of_command(RUN, [*begin, "--strategy.link", "independent", "--strategy", "MFGPUCB"])
    assert same["strategy"] == {"class_path": "MFGPUCB", "init_args": {"refit_every": 3, "link": "independent"}}
    other = settings_of_command(RUN, [*begin, "--strategy=GPUCB", "--strategy.init_args.prior.noise", "0.1"])
    assert other["strategy"] == {"class_path": "GPUCB", "init_args": {"prior": {"noise": "0.1"}}}
    whole = settings_of_command(RUN, [*begin, "--problem", "{class_path: Park, init_args: {negate: true}}"])
    assert whole["problem"] == {"class_path": "Park", "init_args": {"negate": True}}
    second = tmp_path / "b.yaml"
    second.write_text("capital: 5\nseed: 2\n")
    both = settings_of_command(RUN, [*begin, "--config", str(second), "--seed", "4"])
    assert (both["capital"], both["seed"]) == (5.0, 4)

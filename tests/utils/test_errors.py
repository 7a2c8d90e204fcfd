"""The error of a wrong setting: one line that says what was given, and safe to send between processes."""

import copy
import pickle

import pytest

from mfbo_torch.utils.errors import SettingError


@pytest.mark.parametrize("value", [-1.5, "wide", None, [1, 2], float("nan")], ids=str)
def test_message(value):
    error = SettingError("beta", value, "a number from 0 on")
    assert str(error) == f"beta = {value!r}: must be a number from 0 on"
    assert "\n" not in str(error)
    assert isinstance(error, ValueError)


class Tall:
    def __repr__(self):
        return "Tall(\n  1)"


def test_a_value_of_several_lines_is_shown_in_one():
    assert str(SettingError("beta", Tall(), "1")) == "beta = Tall( 1): must be 1"


class Unreadable:
    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(("value", "shown"), [(Unreadable(), "Unreadable"), (10**5000, "int")], ids=["class", "int"])
def test_a_value_that_cannot_be_shown(value, shown):
    assert str(SettingError("beta", value, "1")) == f"beta = {shown} that cannot be shown: must be 1"


@pytest.mark.parametrize("copied", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_copies(copied):
    error = SettingError("costs", [2.0, 1.0], "increasing")
    other = copied(error)
    assert (type(other), str(other)) == (SettingError, str(error))
    assert (other.setting, other.value, other.allowed) == ("costs", [2.0, 1.0], "increasing")


def test_a_long_value_is_shown_by_its_ends():
    said = str(SettingError("seed", "1" + 5000 * "0" + "7", "a number"))
    assert said.startswith("seed = '1000")
    assert said.endswith("0007': must be a number")
    assert len(said) < 340

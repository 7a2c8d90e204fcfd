"""The settings of ``mfbo run`` and ``mfbo compare``, read from a YAML file and flags without loading a model.

Those of a problem's or a strategy's own class are read by :mod:`mfbo_torch.app.builder`.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints

import yaml

from mfbo_torch.app.setting_types import OBJECT, REQUIRED, ClassEntry, FlagText, Setting, in_words, read, read_all
from mfbo_torch.loop.run_options import RunOptions
from mfbo_torch.utils import safe_yaml
from mfbo_torch.utils.errors import SettingError, did_you_mean
from mfbo_torch.utils.files import opened

CLASSES = {"problem": "problems", "strategy": "strategies"}
"""The settings of ``mfbo run`` that are classes, and the rooms of those that come with the package."""
LONGEST = 20_000_000
"""Bytes of the longest file that is read."""

_TYPES = get_type_hints(RunOptions)
_OPTIONS = {o.name: Setting(_TYPES[o.name], o.default, o.metadata["help"]) for o in fields(RunOptions)}
_PROGRESS = Setting(bool, True, "whether to show a progress bar")
_OUT = Setting(str | None, None, "output folder; runs/NAME for NAME.yaml if not given")
_USUAL = "MFGPUCB, FreezeThaw of epochs, MFEHVI of several objectives if not given"
_COMPUTING = {
    "device": Setting(str, "cpu", "where models compute, such as cpu or cuda"),
    "dtype": Setting(Literal["float64", "float32"], "float64", "their precision"),
}


class Command(NamedTuple):
    """A command that takes settings."""

    name: str
    description: str
    settings: Mapping[str, Setting]


RUN = Command(
    "run",
    "Spend a capital on a problem; continue if the output folder holds a part of this run. With --detach it goes on "
    "without the terminal.",
    {
        "problem": Setting(str | ClassEntry, help="what to optimise; --problem.help CLASS explains"),
        "strategy": Setting(str | ClassEntry | None, None, f"how to search; {_USUAL}; --strategy.help CLASS explains"),
        "capital": Setting(float, help="what may be spent, in the unit of the costs"),
        "out": _OUT,
        **_OPTIONS,
        "progress": _PROGRESS,
        "warm_start": Setting(
            str | None, None, "observations to begin with, free of charge: a table, or a run's folder or journal"
        ),
        "seed": Setting(int, 0, "seed of every random choice"),
        **_COMPUTING,
    },
)
COMPARE = Command(
    "compare",
    "Run strategies on problems with several seeds, then draw their regret; continue if interrupted.",
    {
        "problem": Setting(str | ClassEntry | None, None, "a problem, as in mfbo run"),
        "problems": Setting(list[str | ClassEntry] | None, None, "or several"),
        "strategies": Setting(dict[str, str | ClassEntry], help="label: strategy, as in mfbo run"),
        "seeds": Setting(int | list[int], 10, "seeds, or how many, counted from 0"),
        "capital": Setting(float | None, None, "what each run may spend"),
        "capital_multiple": Setting(float | None, None, "or that, in queries at the target fidelity"),
        "metric": Setting(Literal["simple", "cumulative"], "simple", "regret to draw"),
        "out": _OUT,
        "workers": Setting(int | None, None, "processes; one a core if not given"),
        **{name: _OPTIONS[name] for name in ("executor", "scheduler")},
        "progress": _PROGRESS,
        **_COMPUTING,
    },
)


def settings_of_command(command: Command, arguments: Sequence[str]) -> dict[str, Any]:
    """The settings that ``[CONFIG, --SETTING, VALUE, ...]`` give, as JSON values; those of classes as they are."""
    config = next((argument for argument in arguments[:1] if not argument.startswith("-")), None)
    given: dict[str, Any] = {}
    typed = flags(arguments)
    for path in [config, *(text for name, text in typed if name == "config")]:
        given |= {} if path is None else _from_file(command, path)
    for name, text in sorted(typed, key=lambda flag: "." in flag[0]):  # a class before its settings
        if name != "config":
            _set(given, name, text, command)
    found = read_all(given, command.settings)
    for name in [name for name in CLASSES if command is RUN and found[name] is not None]:
        found[name] = entry(name, found[name])
        _check_name(name, found[name]["class_path"])
    if found["out"] == "":
        raise SettingError("out", "", "the name of a folder")
    if found["out"] is None:
        if config is None:
            raise SettingError("out", None, "the output folder, as in --out runs/mine")
        found["out"] = str(Path("runs") / Path(config).stem)
    return found


def entry(setting: str, value: Any) -> dict[str, Any]:
    """A problem or a strategy as it is given, as ``{"class_path": path, "init_args": settings}``."""
    value = {"class_path": value} if isinstance(value, str) else value
    if not isinstance(value, Mapping):
        raise SettingError(setting, value, "a class, or a mapping of class_path and init_args")
    settings = value.get("init_args")
    if not set(value) <= OBJECT or not isinstance(settings, Mapping | None):
        surplus = sorted(map(str, set(value) - OBJECT)) or settings
        raise SettingError(setting, surplus, "a mapping of class_path and init_args, nothing else")
    return {"class_path": value.get("class_path"), "init_args": dict(settings or {})}


def parser(command: Command, settings: Mapping[str, Setting], owner: str = "") -> argparse.ArgumentParser:
    """What explains settings, and completes them in a shell; they are read by :func:`settings_of_command`."""
    usage = f"mfbo {command.name} CONFIG [--out DIR] [--SETTING VALUE ...]"
    found = argparse.ArgumentParser(f"mfbo {command.name}", usage, command.description, add_help=False)
    for name, setting in settings.items():
        default = "" if setting.default is None else f", default {setting.default}"
        need = ", required" if setting.default is REQUIRED else default
        words = f"{setting.help} ({in_words(setting.kind)}{need})".replace("%", "%%")
        found.add_argument(f"--{owner}{name}", metavar="VALUE", help=words)
    return found


def help_of(command: Command) -> str:
    """What ``--help`` prints."""
    file = {"config": Setting(str, None, "YAML file with the settings below")}
    return parser(command, {**file, **command.settings}).format_help()


def offered(setting: str) -> list[str]:
    """The names of the classes that come with the package, read and not imported."""
    source = files("mfbo_torch").joinpath(CLASSES[setting], "__init__.py").read_text("utf-8")
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            found: list[str] = ast.literal_eval(statement.value)
            return [name for name in found if name[0].isupper()]
    return []


def flags(arguments: Sequence[str]) -> list[tuple[str, FlagText]]:
    """Names and values of the flags ``--NAME VALUE`` and ``--NAME=VALUE``; CONFIG may be before them."""
    found = []
    rest = iter(arguments[1:] if arguments and not arguments[0].startswith("-") else arguments)
    for argument in rest:
        flag, equals, text = argument.partition("=")
        if not flag.startswith("--"):
            raise SettingError("argument", argument, "left out, or the value of a --SETTING; CONFIG comes first")
        value = text if equals else next(rest, None)
        if value is None or (not equals and value.startswith("--")):
            raise SettingError(flag, None, "followed by a value")
        if safe_yaml.unfit(value) is not None:
            raise SettingError(flag, value, "text without zero characters and lone surrogates")
        name, dot, inner = flag[2:].partition(".")
        found.append((f"{name.replace('-', '_')}{dot}{inner}", FlagText(value)))
    return found


def _set(given: dict[str, Any], name: str, text: FlagText, command: Command) -> None:
    """Put the value of a flag among the settings: of the command, or of a problem's or a strategy's class."""
    setting, *path = name.split(".")
    nested = command is RUN and setting in CLASSES
    if setting not in command.settings or (path and not nested):
        known = [f"--{known}" for known in command.settings]
        raise SettingError(f"--{name}", str(text), f"one of {', '.join(known)}{did_you_mean(f'--{name}', known)}")
    if not nested:
        given[setting] = text
        return
    held = entry(setting, given.get(setting) or {})
    if path in ([], ["class_path"]):
        value = entry(setting, read(setting, text, command.settings[setting].kind))
        if str(held["class_path"]).rpartition(".")[2] == str(value["class_path"]).rpartition(".")[2]:
            value["init_args"] = {**held["init_args"], **value["init_args"]}
        given[setting] = value
        return
    given[setting], place = held, held["init_args"]
    for key in path[path[0] == "init_args" : -1]:
        inner = place.setdefault(key, {})
        place[key] = place = dict(inner) if isinstance(inner, Mapping) else {}
    place[path[-1]] = text


def _check_name(setting: str, path: Any) -> None:
    """See whether the name of a class can be right, as far as that is known without its module."""
    known = offered(setting)
    if isinstance(path, str) and "." not in path and path not in known and (hint := did_you_mean(path, known)):
        wanted = f"one of {', '.join(known)}, or the import path of your own{hint}"
        raise SettingError(f"{setting}.class_path", path, wanted)


def _from_file(command: Command, path: str) -> dict[str, Any]:
    found = read_mapping(path, "config")
    for setting, other in (("strategies", "mfbo compare"), ("strategy", "mfbo run")):
        if setting in found and setting not in command.settings:
            wanted = f"one of mfbo {command.name}; this one has {setting} and is one of {other}"
            raise SettingError("config", str(path), wanted)
    return found


def read_mapping(path: str | Path, setting: str) -> dict[str, Any]:
    """A YAML file that holds a mapping; the ``"config"`` that a user names may be a pipe."""
    try:
        with Path(path).open("rb") if setting == "config" else opened(Path(path)) as file:
            text = file.read(LONGEST + 1)
        if len(text) > LONGEST:
            raise SettingError(setting, str(path), f"a file of at most {LONGEST:,} bytes")
        content = safe_yaml.load(text.decode())
    except FileNotFoundError:
        folder = f"that of a run; mfbo list {Path(path).parent} shows those in it" if setting == "folder" else ""
        raise SettingError(setting, str(path), folder or "an existing file") from None
    except OSError as error:
        raise SettingError(setting, str(path), f"a readable file: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingError(setting, str(path), f"a YAML file: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise SettingError(setting, str(path), 'a YAML file of settings, "name: value"')
    return content

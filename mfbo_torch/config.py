"""From a YAML file and flags to a problem, a strategy and the settings of a run."""

from __future__ import annotations

import ast
import inspect
import json
import re
import traceback
from argparse import ArgumentError
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_type_hints

import torch
import yaml
from jsonargparse import ArgumentParser, Namespace

from mfbo_torch import plain_yaml, problems, strategies
from mfbo_torch.errors import SettingError
from mfbo_torch.evaluation import describe
from mfbo_torch.options import RunOptions
from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.user import unavailable
from mfbo_torch.signature import settings_of
from mfbo_torch.strategies.base import Strategy

BASES: dict[str, type] = {"problem": Problem, "strategy": Strategy}
OFFERED = (problems.__name__, strategies.__name__)  # imported, so that short class names are found
SHARED = ("seed", "device", "dtype")  # settings of the run that go to the strategy if it takes them
_GIVEN_BY_THE_RUN = {*SHARED, "space", "capital"}
LONGEST = 20_000_000
"""Characters of the longest file that is read."""
_TYPES = {"float": "a number", "int": "a whole number", "bool": "true or false", "str": "text", "NoneType": "null"}


@cache
def run_parser() -> ArgumentParser:
    """What ``mfbo run`` understands."""
    parser = ArgumentParser(
        prog="mfbo run",
        usage="mfbo run CONFIG [--out DIR] [--SETTING VALUE ...]",
        description="Spend a capital on a problem; continue if the output folder holds a part of this run.",
        exit_on_error=False,
    )
    parser.add_argument("--config", action="config", help="YAML file with the settings below")
    parser.add_subclass_arguments(Problem, "problem", required=True, help="what to optimise")
    parser.add_subclass_arguments(Strategy, "strategy", required=True, skip=_GIVEN_BY_THE_RUN, help="how to search")
    parser.add_argument("--capital", type=float, required=True, help="what may be spent, in the unit of the costs")
    parser.add_argument("--out", type=str | None, help="output folder; runs/NAME for NAME.yaml if not given")
    _add_options(parser)
    parser.add_argument("--warm_start", type=str | None, help="CSV file of observations to begin with, free of charge")
    _add_shared(parser)
    return parser


@cache
def compare_parser() -> ArgumentParser:
    """What ``mfbo compare`` understands."""
    parser = ArgumentParser(
        prog="mfbo compare",
        usage="mfbo compare CONFIG [--out DIR] [--SETTING VALUE ...]",
        description="Run strategies on problems with several seeds, then draw their regret; continue if interrupted.",
        exit_on_error=False,
    )
    parser.add_argument("--config", action="config", help="YAML file with the settings below")
    parser.add_argument("--problem", type=str | dict | None, help="a problem, as in mfbo run")
    parser.add_argument("--problems", type=list[str | dict] | None, help="or several")
    parser.add_argument(
        "--strategies", type=dict[str, str | dict], required=True, help="label: strategy, as in mfbo run"
    )
    parser.add_argument("--seeds", type=int | list[int], default=10, help="seeds, or how many, counted from 0")
    parser.add_argument("--capital", type=float | None, help="what each run may spend")
    parser.add_argument("--capital_multiple", type=float | None, help="or that, in queries at the target fidelity")
    parser.add_argument("--metric", type=Literal["simple", "cumulative"], default="simple", help="regret to draw")
    parser.add_argument("--out", type=str | None, help="output folder; runs/NAME for NAME.yaml if not given")
    parser.add_argument("--workers", type=int | None, help="processes; one a core if not given")
    _add_options(parser, ("executor", "scheduler"))
    _add_shared(parser, seed=False)
    return parser


def _add_options(parser: ArgumentParser, names: Collection[str] | None = None) -> None:
    """The options of a run, or some of them."""
    types = get_type_hints(RunOptions)
    for option in fields(RunOptions):
        if names is None or option.name in names:
            details = {"type": types[option.name], "default": option.default, "help": option.metadata["help"]}
            parser.add_argument(f"--{option.name}", **details)


def _add_shared(parser: ArgumentParser, seed: bool = True) -> None:
    if seed:
        parser.add_argument("--seed", type=int, default=0, help="seed of every random choice")
    parser.add_argument("--device", type=str, default="cpu", help="where models compute, such as cpu or cuda")
    parser.add_argument("--dtype", type=Literal["float64", "float32"], default="float64", help="their precision")


@cache
def _builder() -> ArgumentParser:
    """Makes objects of resolved settings; only here a strategy has its seed."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(Problem, "problem", required=False)
    parser.add_subclass_arguments(Strategy, "strategy", required=False, skip={"space", "capital"})
    return parser


def resolve(parser: ArgumentParser, arguments: Sequence[str]) -> dict[str, Any]:
    """The settings that command line arguments give, all spelt out, as JSON values.

    Args:
        parser: What is understood.
        arguments: ``[CONFIG, --SETTING, VALUE, ...]``.

    Raises:
        SettingError: Something in the file or a flag is unknown, missing or of a wrong type.
    """
    config, flags = None, [_underscored(argument, parser) for argument in arguments]
    if flags and not flags[0].startswith("-"):
        config = flags.pop(0)
    texts: list[str] = []
    from_file: dict[str, Any] = {}
    for path in [*([] if config is None else [config]), *reversed([*_configs(flags)])]:
        text, found = _read(path, "config")
        texts.append(f"--config={text}")
        from_file |= found
    known = names(parser)
    for setting, other in (("strategies", "mfbo compare"), ("strategy", "mfbo run")):
        if setting in from_file and setting not in known:
            raise SettingError("config", config, f"one of {parser.prog}; this one has {setting} and is one of {other}")
    settings = _attempt(parser, lambda: parser.parse_args([*texts, *flags]), from_file)
    for setting, value in settings.items():
        if (bad := plain_yaml.unfit(value)) is not None:
            raise SettingError(setting, bad, "text without zero characters and lone surrogates")
    if settings["out"] == "":
        raise SettingError("out", "", "the name of a folder")
    if settings["out"] is None:
        if config is None:
            raise SettingError("out", None, "the output folder, as in --out runs/mine")
        settings["out"] = str(Path("runs") / Path(config).stem)
    return settings


def _configs(flags: list[str]) -> Iterator[str]:
    """The files of ``--config FILE`` and ``--config=FILE``, which are taken out."""
    for i in reversed([i for i, flag in enumerate(flags) if flag.partition("=")[0] == "--config"]):
        flag, equals, path = flags.pop(i).partition("=")
        if not equals and i == len(flags):
            raise SettingError(flag, None, "followed by a value: expected one argument")
        yield path if equals else flags.pop(i)


def _underscored(argument: str, parser: ArgumentParser) -> str:
    """``--warm-start`` as ``--warm_start``, where that is a setting."""
    name, equals, value = argument.partition("=")
    underscored = name[2:].replace("-", "_")
    return f"--{underscored}{equals}{value}" if name.startswith("--") and underscored in names(parser) else argument


def resolve_run(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of one run, given as a mapping, all spelt out.

    Raises:
        SettingError: Something is unknown, missing or of a wrong type.
    """
    parser = run_parser()
    return _attempt(parser, lambda: parser.parse_object(dict(settings)), settings)


def build(settings: Mapping[str, Any], to_evaluate: bool = True) -> tuple[Problem, Strategy]:
    """The problem and the strategy that resolved settings describe.

    Args:
        settings: Resolved settings.
        to_evaluate: Whether the problem is going to be evaluated; if not, the user's objective is not imported, which
            may be somewhere else by now.

    Raises:
        SettingError: They cannot be made with these settings.
    """
    try:
        torch.zeros(1, device=settings["device"])
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise SettingError("device", settings["device"], f"a device of this machine: {reason}") from error
    problem, strategy = json.loads(json.dumps([settings["problem"], settings["strategy"]]))
    if not to_evaluate and "objective" in accepted(problem["class_path"]):
        problem.setdefault("init_args", {})["objective"] = f"{unavailable.__module__}:{unavailable.__name__}"
    for setting in SHARED:
        if setting in accepted(strategy["class_path"]):
            strategy.setdefault("init_args", {})[setting] = settings[setting]
    made = {}
    for setting, given in {"problem": problem, "strategy": strategy}.items():
        parser = _builder()
        try:
            made[setting] = parser.instantiate(parser.parse_object({setting: given}))[setting]
        except Exception as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, SettingError):
                cause = cause.__cause__ or cause.__context__
            if cause is not None:
                raise cause from None
            reason = describe(error.__cause__ or error.__context__ or error)
            raise SettingError(setting, given["class_path"], f"one that can be made: {reason}") from error
    if made["problem"].trial is None:  # the stream of noise is the run's, unless it is set
        made["problem"].trial = settings["seed"]
    return made["problem"], made["strategy"]


def accepted(class_path: str) -> list[str]:
    """The settings of a class by its import path."""
    module, _, name = class_path.rpartition(".")
    return list(settings_of(getattr(import_module(module), name)))


def read_mapping(path: str | Path, setting: str) -> dict[str, Any]:
    """A YAML file that holds a mapping.

    Raises:
        SettingError: It does not exist, is not YAML, or is something else.
    """
    return _read(path, setting)[1]


def _read(path: str | Path, setting: str) -> tuple[str, dict[str, Any]]:
    """The text of a YAML file, and the mapping that it holds."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)
        if len(text) > LONGEST:
            raise SettingError(setting, str(path), f"a file of at most {LONGEST:,} characters")
        content = plain_yaml.load(text)
    except FileNotFoundError:
        raise SettingError(setting, str(path), "an existing file") from None
    except OSError as error:
        raise SettingError(setting, str(path), f"a readable file: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingError(setting, str(path), f"a YAML file: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise SettingError(setting, str(path), 'a YAML file of settings, "name: value"')
    return text, content


def _attempt(parser: ArgumentParser, parse: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parsed settings as JSON values; what the parser says is turned into one line."""
    try:
        namespace: Namespace = parse()
        settings: dict[str, Any] = json.loads(parser.dump(namespace, format="json"))
    except ArgumentError as error:
        raise explain(str(error), parser, given) from error
    except SystemExit as error:
        if Path(traceback.extract_tb(error.__traceback__)[-1].filename).name == "argparse.py":
            raise  # --help
        raise SettingError("config", None, f"of modules that do not call sys.exit({error.code!r})") from error
    except RecursionError as error:
        raise SettingError("config", None, "nested less deep") from error
    return {name: settings.get(name) for name in names(parser)}


def names(parser: ArgumentParser) -> list[str]:
    """The names of the settings of a parser."""
    found = [action.dest.partition(".")[0] for action in parser._actions if action.option_strings]
    return [name for name in dict.fromkeys(found) if name not in ("help", "config", "print_config", "print_shtab")]


def explain(message: str, parser: ArgumentParser, given: Mapping[str, Any]) -> SettingError:
    """One line for what jsonargparse says in several: the setting, its value, what is allowed."""
    if required := re.search(r"arguments are required: ([\w.]+)", message):
        outer = re.match(r'Parser key "([^"]+)"', message)
        name = f"{outer[1]}.{required[1]}" if outer else required[1]
        return SettingError(name, given.get(name), f"given, in CONFIG or as --{name}")
    if unknown := re.search(r"unrecognized arguments: (\S+) ?(\S*)", message):
        if not unknown[1].startswith("-"):
            return SettingError("argument", unknown[1], "left out, or the value of a --SETTING; CONFIG comes first")
        return SettingError(unknown[1], unknown[2], f"one of --{', --'.join(names(parser))}")
    if lonely := re.search(r"argument (\S+): (.*)", message):
        return SettingError(lonely[1], None, f"followed by a value: {lonely[2]}")
    full = message
    keys = re.findall(r'Parser key "([^"]+)"', message)
    class_path = re.search(r"given class_path '([^']+)'", message)
    if option := re.search(r"Option '([^']+)' is not accepted", message):
        value = given.get(option[1]) if class_path is None else _given(full).get(option[1])
        return _unknown(".".join([*keys, option[1]]), value, class_path[1] if class_path else None, parser)
    if keys and keys[0] in BASES:
        message = re.sub(r"\n *- Expected a <class 'NoneType'>\n.*\Z", "", message, flags=re.DOTALL)
        message = message.partition("Errors:")[2] or message
    kinds = dict.fromkeys(re.findall(r"Expected an? (\S.*?)(?:\. Got value: .*)?$", message, flags=re.MULTILINE))
    value = re.search(r"(?:Given|Got) value: (.*)$", message, flags=re.MULTILINE)
    if keys and value and kinds:
        return SettingError(".".join(keys), value[1], " or ".join(_kind(kind) for kind in kinds))
    if keys and keys[0] in BASES:
        return _no_class(keys[0], full, _given(full))
    return SettingError(".".join(keys) or "config", None, " ".join(message.split()))


def _given(message: str) -> dict[str, Any]:
    """What jsonargparse says it was given for a class, as ``class_path`` and its settings."""
    text = re.sub(r"\A.*Given value: ", "", message, flags=re.DOTALL)
    if flag := re.fullmatch(r"NestedArg\(key='([^']*)', val=(.*)\)", text, flags=re.DOTALL):
        key, text = flag.groups()
        return {key.removeprefix("init_args."): ast.literal_eval(text)}
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"class_path": text}
    if not isinstance(value, dict):
        return {"class_path": value}
    settings = value.get("init_args")
    return {**value, **settings} if isinstance(settings, dict) else value


def _unknown(setting: str, value: Any, class_path: str | None, parser: ArgumentParser) -> SettingError:
    if class_path is None:
        return SettingError(setting, value, f"one of the settings {', '.join(names(parser))}")
    kind, _, option = setting.rpartition(".")
    if kind == "strategy" and option in SHARED:
        return SettingError(setting, value, f"left out; it is set by {option} for the whole run")
    known = [name for name in accepted(class_path) if kind != "strategy" or name not in _GIVEN_BY_THE_RUN]
    return SettingError(setting, value, f"one of the settings of {class_path}: {', '.join(known) or 'it has none'}")


def _no_class(setting: str, message: str, given: Mapping[str, Any]) -> SettingError:
    if surplus := sorted(given.keys() - {"class_path", "init_args"}) if "is abstract" in message else []:
        return SettingError(setting, surplus, "a mapping of class_path and init_args, nothing else")
    known = ", ".join(sorted(cls.__name__ for cls in concrete(BASES[setting])))
    reason = re.search(r"(No module named .*|module .* has no attribute .*)", message)
    why = f" ({reason[1]})" if reason else ""
    wanted = f"one of {known}, or the import path of your own{why}"
    return SettingError(f"{setting}.class_path", given.get("class_path"), wanted)


def concrete(base: type) -> set[type]:
    """The classes below a base class that this package offers."""
    below: set[type] = set()
    children: list[type] = base.__subclasses__()
    for child in children:
        below |= {child} | concrete(child)
    offered = {cls for cls in below if cls.__module__.startswith(OFFERED) and not cls.__name__.startswith("_")}
    return {cls for cls in offered if not inspect.isabstract(cls)}


def _kind(kind: str) -> str:
    if literal := re.fullmatch(r"typing\.Literal\[(.*)\]", kind):
        return f"one of {literal[1]}"
    name = re.sub(r"<class '(?:.*\.)?(\w+)'>|typing\.", r"\1", kind)
    return _TYPES.get(name, name)

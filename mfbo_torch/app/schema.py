"""The settings of ``mfbo run`` and ``mfbo compare``, read from a YAML file and flags.

Nothing here loads a model: what is wrong with a setting is told at once. Those of a problem's or a strategy's own
class are read by :mod:`mfbo_torch.app.builder`.
"""

from __future__ import annotations

import ast
import json
import re
import traceback
from argparse import ArgumentError
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_type_hints

import yaml
from jsonargparse import ArgumentParser, Namespace

from mfbo_torch.loop.run_options import RunOptions
from mfbo_torch.utils import safe_yaml
from mfbo_torch.utils.errors import SettingError, meant

CLASSES = {"problem": "problems", "strategy": "strategies"}
"""The settings that are classes, and the rooms of those that come with the package."""
LONGEST = 20_000_000
"""Characters of the longest file that is read."""
_TYPES = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "str": "text",
    "NoneType": "null",
    "dict": "a mapping",
    "list": "a list",
}

Explain = Callable[[str, ArgumentParser, Mapping[str, Any]], SettingError]


def begin_run_parser() -> ArgumentParser:
    """A parser for ``mfbo run`` that has no setting yet."""
    return _parser("run", "Spend a capital on a problem; continue if the output folder holds a part of this run.")


def add_run_settings(parser: ArgumentParser) -> None:
    """The settings of ``mfbo run``, but for the problem and the strategy."""
    parser.add_argument("--capital", type=float, required=True, help="what may be spent, in the unit of the costs")
    parser.add_argument("--out", type=str | None, help="output folder; runs/NAME for NAME.yaml if not given")
    _add_options(parser)
    start = "observations to begin with, free of charge: a CSV or Parquet file, or the folder of a run"
    parser.add_argument("--warm_start", type=str | None, help=start)
    _add_shared(parser)


@cache
def outer_parser() -> ArgumentParser:
    """What ``mfbo run`` understands, whatever the problem and the strategy are."""
    parser = begin_run_parser()
    parser.add_argument(
        "--problem", type=str | dict, required=True, help="what to optimise; --problem.help CLASS explains"
    )
    parser.add_argument(
        "--strategy", type=str | dict, required=True, help="how to search; --strategy.help CLASS explains"
    )
    add_run_settings(parser)
    return parser


@cache
def compare_parser() -> ArgumentParser:
    """What ``mfbo compare`` understands."""
    parser = _parser(
        "compare", "Run strategies on problems with several seeds, then draw their regret; continue if interrupted."
    )
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


def _parser(command: str, description: str) -> ArgumentParser:
    usage = f"mfbo {command} CONFIG [--out DIR] [--SETTING VALUE ...]"
    parser = ArgumentParser(prog=f"mfbo {command}", usage=usage, description=description, exit_on_error=False)
    parser.add_argument("--config", action="config", help="YAML file with the settings below")
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


def names(parser: ArgumentParser) -> list[str]:
    """The names of the settings of a parser."""
    found = [action.dest.partition(".")[0] for action in parser._actions if action.option_strings]
    return [name for name in dict.fromkeys(found) if name not in ("help", "config", "print_config", "print_shtab")]


def check_run(arguments: Sequence[str]) -> None:
    """See whether the settings of ``mfbo run`` can be right, as far as that is known without its classes.

    Raises:
        SettingError: Something in the file or a flag is unknown, missing or of a wrong type.
    """
    if any(re.match(r"--(print_|(problem|strategy)\.(help|class_path)\b)", argument) for argument in arguments):
        return
    flags, rest = [], iter(arguments)
    for argument in rest:
        if argument.startswith(tuple(f"--{setting}." for setting in CLASSES)):
            if "=" not in argument:
                next(rest, None)
        else:
            flags.append(argument)
    settings = resolve(outer_parser(), flags)
    for setting in CLASSES:
        entry, known = settings[setting], offered(setting)
        path = entry.get("class_path") if isinstance(entry, Mapping) else entry
        named = isinstance(path, str) and "." not in path  # a path with a dot says where it is
        if named and path not in known and (hint := meant(path, known)):
            wanted = f"one of {', '.join(known)}, or the import path of your own{hint}"
            raise SettingError(f"{setting}.class_path", path, wanted)


def offered(setting: str) -> list[str]:
    """The names of the classes that come with the package, read and not imported."""
    source = files("mfbo_torch").joinpath(CLASSES[setting], "__init__.py").read_text("utf-8")
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            found: list[str] = ast.literal_eval(statement.value)
            return [name for name in found if name[0].isupper()]
    return []


def explain(message: str, parser: ArgumentParser, given: Mapping[str, Any]) -> SettingError:
    """One line for what jsonargparse says in several: the setting, its value, what is allowed."""
    if required := re.search(r"arguments are required: ([\w.]+)", message):
        outer = re.match(r'Parser key "([^"]+)"', message)
        name = f"{outer[1]}.{required[1]}" if outer else required[1]
        return SettingError(name, given.get(name), f"given, in CONFIG or as --{name}")
    known = names(parser)
    if unknown := re.search(r"unrecognized arguments: (\S+) ?(\S*)", message):
        if not unknown[1].startswith("-"):
            return SettingError("argument", unknown[1], "left out, or the value of a --SETTING; CONFIG comes first")
        hint = meant(unknown[1], [f"--{name}" for name in known])
        return SettingError(unknown[1], unknown[2], f"one of --{', --'.join(known)}{hint}")
    if lonely := re.search(r"argument (\S+): (.*)", message):
        return SettingError(lonely[1], None, f"followed by a value: {lonely[2]}")
    keys = re.findall(r'Parser key "([^"]+)"', message)
    if option := re.search(r"Option '([^']+)' is not accepted", message):
        wanted = f"one of the settings {', '.join(known)}{meant(option[1], known)}"
        return SettingError(".".join([*keys, option[1]]), given.get(option[1]), wanted)
    return wrong_type(keys, message) or SettingError(".".join(keys) or "config", None, " ".join(message.split()))


def wrong_type(keys: Sequence[str], message: str) -> SettingError | None:
    """What jsonargparse says of a value of a wrong type, if that is what it says."""
    kinds = dict.fromkeys(re.findall(r"Expected an? (\S.*?)(?:\. Got value: .*)?$", message, flags=re.MULTILINE))
    value = re.search(r"(?:Given|Got) value: (.*)$", message, flags=re.MULTILINE)
    if not (keys and value and kinds):
        return None
    return SettingError(".".join(keys), value[1], " or ".join(_kind(kind) for kind in kinds))


def _kind(kind: str) -> str:
    if literal := re.fullmatch(r"typing\.Literal\[(.*)\]", kind):
        return f"one of {literal[1]}"
    name = re.sub(r"<class '(?:.*\.)?(\w+)'>|typing\.", r"\1", kind)
    return _TYPES.get(name, name)


def resolve(parser: ArgumentParser, arguments: Sequence[str], explain: Explain = explain) -> dict[str, Any]:
    """The settings that command line arguments give, all spelt out, as JSON values.

    Args:
        parser: What is understood.
        arguments: ``[CONFIG, --SETTING, VALUE, ...]``.
        explain: What the parser says as one line.

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
    settings = attempt(parser, lambda: parser.parse_args([*texts, *flags]), from_file, explain)
    for setting, value in settings.items():
        if (bad := safe_yaml.unfit(value)) is not None:
            raise SettingError(setting, bad, "text without zero characters and lone surrogates")
    if settings["out"] == "":
        raise SettingError("out", "", "the name of a folder")
    if settings["out"] is None:
        if config is None:
            raise SettingError("out", None, "the output folder, as in --out runs/mine")
        settings["out"] = str(Path("runs") / Path(config).stem)
    return settings


def _as_given(dumped: Any, parsed: Any) -> Any:
    """What the parser dumps, its texts as they were: it takes ``"no"`` for false."""
    parsed = vars(parsed) if isinstance(parsed, Namespace) else parsed
    if isinstance(parsed, str) or isinstance(dumped, str):
        return parsed if isinstance(parsed, str) else dumped
    if isinstance(dumped, dict) and isinstance(parsed, dict):
        return {name: _as_given(value, parsed[name]) if name in parsed else value for name, value in dumped.items()}
    if isinstance(dumped, list) and isinstance(parsed, list | tuple) and len(dumped) == len(parsed):
        return [_as_given(value, given) for value, given in zip(dumped, parsed, strict=True)]
    return dumped


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


def attempt(
    parser: ArgumentParser, parse: Callable[[], Namespace], given: Mapping[str, Any], explain: Explain = explain
) -> dict[str, Any]:
    """Parsed settings as JSON values; what the parser says is turned into one line."""
    try:
        parsed = parse()
        settings: dict[str, Any] = _as_given(json.loads(parser.dump(parsed, format="json")), parsed)
    except ArgumentError as error:
        raise explain(str(error), parser, given) from error
    except SystemExit as error:
        if Path(traceback.extract_tb(error.__traceback__)[-1].filename).name == "argparse.py":
            raise  # --help
        raise SettingError("config", None, f"of modules that do not call sys.exit({error.code!r})") from error
    except RecursionError as error:
        raise SettingError("config", None, "nested less deep") from error
    return {name: settings.get(name) for name in names(parser)}


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
        content = safe_yaml.load(text)
    except FileNotFoundError:
        raise SettingError(setting, str(path), "an existing file") from None
    except OSError as error:
        raise SettingError(setting, str(path), f"a readable file: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingError(setting, str(path), f"a YAML file: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise SettingError(setting, str(path), 'a YAML file of settings, "name: value"')
    return text, content

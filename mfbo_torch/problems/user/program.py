"""A program as an objective: a command with places for the parameters, and where its value is read from."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import Formatter
from tempfile import TemporaryFile
from typing import IO, Any

from mfbo_torch.history.observation import Returned
from mfbo_torch.history.storage.captured_output import note
from mfbo_torch.problems.user import guard, output_search
from mfbo_torch.utils.errors import EvaluationError, SettingError, did_you_mean
from mfbo_torch.utils.files import temporary_folder
from mfbo_torch.utils.validation import number, written

START, FIDELITY, FOLDER = "start", "fidelity", "folder"
LAST_LINE = "last line"
STDOUT, STDERR = "stdout.txt", "stderr.txt"
TAIL, LONGEST = 2_000, 20_000_000
"""Bytes of the standard error in the reason of a failure, and of an output that is searched for a value."""
OUTPUT = 1_000_000
"""Bytes that are kept of each output."""
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
PATIENCE = 5.0
"""Seconds more after which a guard that has not ended its program is given up."""


class Program:
    """A program as an objective: ``program({"angle": 0.3}, fidelity)`` runs a command and reads a value.

    Each evaluation runs in a folder of its own, which is removed afterwards. All that the program has started ends with
    it, at a timeout, on Ctrl-C, and when the process that evaluates is killed.

    Args:
        command: The program and its arguments, without a shell. ``{NAME}`` in one of them, or in ``environment`` and
            ``files``, is the value of a parameter, of the fidelity by its own name or as ``{fidelity}``, or the folder
            that the run was started from, ``{start}``; ``{folder}`` is one that a design keeps for all its evaluations.
            ``{NAME:.3f}`` formats as Python does, ``{{`` is a brace. A program that is given with a slash is looked for
            from ``{start}`` too.
        result: Where the value is: ``"last line"`` of the standard output; ``{"json": FILE, "key": "loss.mean"}``, the
            whole file without a key; ``{"pattern": REGEX}``, the last match in the standard output, or with
            ``"file": FILE``, whose only group is a number. A line or a file holds a number, or as JSON
            ``{"value": ..., "standard_error": ...}``, with outcomes where there are limits.
        timeout: Seconds that an evaluation may take, the search for a pattern included.
        environment: Variables beside those of this process.
        files: ``{name: text}`` of files that are written into the folder before, such as an input deck.

    Raises:
        SettingError: There is no such program, a place is malformed, or a setting is of another kind.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        result: str | Mapping[str, str] = LAST_LINE,
        timeout: float | None = None,
        environment: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> None:
        self.start = os.getcwd()
        if isinstance(command, (str, bytes)) or not isinstance(command, Sequence) or not command:
            raise SettingError("command", command, 'a list of texts, as in ["./simulate", "--mesh", "{mesh}"]')
        self.command = [_text("command", part) for part in command]
        self.result = _result(result)
        self.timeout = None if timeout is None else number("timeout", timeout, above=0)
        self.environment, self.files = _texts("environment", environment), _texts("files", files)
        if outside := [name for name in self.files if not _inside(name)]:
            raise SettingError("files", outside[0], "the name of a file within the folder of an evaluation")
        self._check_program()

    def _check_program(self) -> None:
        program, *arguments = self.command
        if "{" not in program:
            path = self.environment.get("PATH", os.environ.get("PATH"))
            if shutil.which(self._program(program), path=path) is None:
                place = "there" if "/" in program else "on the PATH"
                raise SettingError("command", program, f"a program that is {place} and can be run")
        for argument in arguments:
            relative = "{" not in argument and not os.path.isabs(argument)
            if relative and os.path.isfile(os.path.join(self.start, argument)):
                wanted = f"{{{START}}}/{argument}: the program runs in a folder of its own"
                raise SettingError("command", argument, wanted)

    def _program(self, name: str) -> str:
        return os.path.join(self.start, name) if "/" in name else name

    def check(self, samples: Mapping[str, Any], needed: Sequence[str]) -> None:
        """See whether every place has a name among the ``samples``, with a value that fits its format, and whether
        every name that the program needs has a place (of ``a|b`` one is enough); else a ``SettingError``."""
        used: set[str] = set()
        for setting, text in self._templates():
            used.update(_places(setting, text))
            self._filled(setting, text, samples)
        for names in needed:
            if not used & set(names.split("|")):
                wanted = f"with a place for {' or '.join(f'{{{name}}}' for name in names.split('|'))}"
                raise SettingError("command", self.command, f"{wanted}, here, in environment or in files")

    @property
    def keeps(self) -> bool:
        """Whether the command has a place for the folder of the design, which survives evaluations."""
        return any(FOLDER in _places(setting, text) for setting, text in self._templates())

    def _templates(self) -> Iterator[tuple[str, str]]:
        yield from (("command", part) for part in self.command)
        yield from ((f"environment.{name}", text) for name, text in self.environment.items())
        yield from ((f"files.{name}", text) for name, text in self.files.items())

    def _filled(self, setting: str, text: str, values: Mapping[str, Any]) -> str:
        known = {**values, START: self.start}
        for name in _places(setting, text):
            if name not in known:
                raise SettingError(setting, f"{{{name}}}", f"one of {', '.join(known)}{did_you_mean(name, known)}")
        try:
            return text.format_map(known)
        except (ValueError, TypeError, LookupError) as error:
            raise SettingError(setting, text, f"a text whose formats fit the values: {error}") from error

    def __call__(self, parameters: Mapping[str, Any], fidelity: int = 0, folder: Path | None = None) -> Returned:
        """Run the program with values by name and read the value; ``folder`` is what ``{folder}`` stands for. An
        ``EvaluationError`` where it failed, outlived the timeout, or left no value."""
        values = {FIDELITY: fidelity, **({} if folder is None else {FOLDER: folder.absolute()}), **parameters}
        with temporary_folder() as own:
            return self._evaluated(values, own)

    def _evaluated(self, values: Mapping[str, Any], folder: Path) -> Returned:
        program, *arguments = (self._filled("command", part, values) for part in self.command)
        command = [self._program(program), *arguments]
        added = {name: self._filled(f"environment.{name}", text, values) for name, text in self.environment.items()}
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(self._filled(f"files.{name}", text, values), encoding="utf-8")
        began = time.monotonic()
        with (folder / STDOUT).open("wb") as out, (folder / STDERR).open("wb") as err:
            code = _guarded(command, folder, out, err, self.timeout, {**os.environ, **added})
        for name in (STDOUT, STDERR):
            with suppress(EvaluationError):
                note(_content(folder / name, OUTPUT))
        if code is None:
            raise EvaluationError(f"no value within {self.timeout:g} seconds", _tail(folder))
        if code:
            tail = _tail(folder)
            last = tail.rpartition("\n")[2].strip()
            raise EvaluationError(f"{program} ended with {_ending(code)}{last and f': {last[:200]}'}", tail)
        try:
            return self._read(folder, time.monotonic() - began)
        except EvaluationError as error:
            raise EvaluationError(str(error), _tail(folder)) from None
        except RecursionError:
            raise EvaluationError("the result is nested too deep", _tail(folder)) from None

    def _read(self, folder: Path, seconds: float) -> Returned:
        """The value of a program that has run for some seconds."""
        if self.result == {}:
            lines = _content(folder / STDOUT).split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), None)
            if last is None:
                raise EvaluationError("nothing was written to the standard output")
            return _observed(last, "the last line of the standard output")
        file = self.result.get("json") or self.result.get("file", STDOUT)
        place = "the standard output" if file == STDOUT else file
        text = _content(folder / file)
        if "json" in self.result:
            return _at(text, self.result.get("key"), place)
        return _observed(self._match(folder, folder / file, place, seconds), f"what matches in {place}")

    def _match(self, folder: Path, file: Path, place: str, seconds: float) -> str:
        """What the pattern finds in what is left of the time, at least the grace: to start takes a moment too."""
        left = None if self.timeout is None else max(GRACE, self.timeout - seconds)
        arguments = [self.result["pattern"], str(file), str(LONGEST)]
        with TemporaryFile() as out:
            search = [sys.executable, "-I", "-S", output_search.__file__, *arguments]
            code = _guarded(search, folder, out, subprocess.DEVNULL, left)
            out.seek(0)
            found = out.read().decode()
        if code == 0:
            return found
        if code is None:
            raise EvaluationError(
                f"{self.result['pattern']!r} found nothing in {place} within the {self.timeout:g} seconds"
            )
        why = "matches" if code == output_search.NO_MATCH else f"was found, the search ended with {_ending(code)}, by"
        raise EvaluationError(f"nothing in {place} {why} {self.result['pattern']!r}")


def _guarded(
    command: list[str],
    folder: Path,
    out: IO[bytes],
    err: IO[bytes] | int,
    timeout: float | None,
    env: Mapping[str, str] | None = None,
) -> int | None:
    """The exit code of a command, ``None`` at the timeout; nothing of it is left afterwards."""
    guarded = [sys.executable, "-I", "-S", guard.__file__, str(GRACE), *command]
    process = subprocess.Popen(
        guarded, stdin=subprocess.PIPE, stdout=out, stderr=err, cwd=folder, env=env, start_new_session=True
    )
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        try:
            process.communicate(timeout=GRACE + PATIENCE)  # hangs up, which ends the program, and waits for that
        except subprocess.TimeoutExpired:  # the program has stopped its guard
            process.kill()
            process.wait()


def _places(setting: str, text: str) -> list[str]:
    """The names in the braces of a text."""
    try:
        found = [(name, form) for _, name, form, _ in Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise SettingError(setting, text, f"a text with names in braces, and braces doubled ({error})") from error
    for name, form in found:
        if not name.isidentifier() or "{" in (form or ""):
            raise SettingError(setting, text, f"a text with names in braces; {{{name}}} is none, a brace is {{{{")
    return [name for name, _ in found]


def _text(setting: str, given: Any) -> str:
    if not isinstance(given, str) or "\0" in given:
        raise SettingError(setting, given, "a text; numbers are written in quotes")
    return given


def _texts(setting: str, given: Mapping[str, str] | None) -> dict[str, str]:
    if given is not None and not isinstance(given, Mapping):
        raise SettingError(setting, given, "a mapping of names to texts")
    return {_text(setting, name): _text(f"{setting}.{name}", text) for name, text in (given or {}).items()}


def _inside(name: str) -> bool:
    return bool(name) and not os.path.isabs(name) and ".." not in Path(name).parts


def _result(given: str | Mapping[str, str]) -> dict[str, str]:
    """The place of the value; empty for the last line."""
    forms = '"last line", {json: FILE, key: NAME} or {pattern: REGEX, file: FILE}'
    if given == LAST_LINE:
        return {}
    found = _texts("result", given) if isinstance(given, Mapping) else {}
    known = ("json", "key") if "json" in found else ("file", "pattern")
    if not {"json", "pattern"} & {*found}:
        raise SettingError("result", given, forms)
    if other := [key for key in found if key not in known]:
        raise SettingError("result", other[0], f"one of {', '.join(known)}{did_you_mean(other[0], known)}")
    for file in ("json", "file"):
        if file in found and not _inside(found[file]):
            raise SettingError(f"result.{file}", found[file], "the name of a file within the folder of an evaluation")
    if "pattern" in found:
        try:
            groups = re.compile(found["pattern"]).groups
        except re.error as error:
            raise SettingError("result.pattern", found["pattern"], f"a regular expression: {error}") from error
        if groups != 1:
            raise SettingError("result.pattern", found["pattern"], "with one group in parentheses, the number")
    return found


def _content(path: Path, most: int = LONGEST) -> str:
    """The last bytes of a file that a program has written, as text."""
    try:
        return output_search.content(path, most)
    except OSError as error:
        raise EvaluationError(f"{path.name} cannot be read: {error.strerror}") from None


def _at(text: str, key: str | None, place: str) -> Returned:
    """A value of a JSON text, by the names on the way to it."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise EvaluationError(f"{place} is not JSON: {error}") from None
    for name in key.split(".") if key else ():
        if not isinstance(found, Mapping) or name not in found:
            known = [*found] if isinstance(found, Mapping) else []
            raise EvaluationError(f"{place} has no {key}{did_you_mean(name, known)}")
        found = found[name]
    return _from_json(found)


def _observed(text: str, place: str) -> Returned:
    """A number, or JSON that a program has written."""
    with suppress(ValueError):
        return written(text)
    try:
        return _from_json(json.loads(text))
    except ValueError:
        shown = text if len(text) <= 80 else f"{text[:76]} ..."
        raise EvaluationError(f"{place} is no number: {shown!r}") from None


def _from_json(found: Any) -> Any:
    """An observation from JSON, where a pair is a list, and true and false are no numbers."""
    if isinstance(found, Mapping):
        return {name: _from_json(value) for name, value in found.items()}
    if isinstance(found, list):
        return tuple(map(_from_json, found))
    return json.dumps(found) if isinstance(found, bool) else found


def _tail(folder: Path) -> str:
    """The end of the standard error, of the output where there is none, as far as the program has left them."""
    for name in (STDERR, STDOUT):
        with suppress(EvaluationError):
            if found := _content(folder / name, TAIL).strip():
                return found
    return ""


def _ending(code: int) -> str:
    """An exit code in words."""
    with suppress(ValueError):  # as there is no such signal
        return f"exit code {code} ({signal.Signals(code - 128 if code > 128 else -code).name})"
    return f"exit code {code}"

"""Configs, journals, tables and Ax files damaged at random, and whole folders forged, each read as anyone would.

    python -m benchmarks.robustness.fuzz [--each 400] [--folders 3000] [--seed 0]

Every file is read by the command that reads its kind (``run``, ``show``, ``export``; Ax's client). A folder of a run or
a comparison that :mod:`~benchmarks.robustness.forge` has forged is read by ``list``, ``show``, ``best``, ``export``,
``repair``, some by ``show --html``, ``compare``, ``why``, ``show --output`` and ``show --curves``, and as ``serve``
reads it. None may end in anything but an exit code and one line or, from Ax, an exception; none may import the module
that the damage names, touch a file outside, take a command more than ten seconds of processor time, or bring the
process above 1 GiB. Each is made by its own number and the seed. Writes ``fuzz.json``; the exit status is 1 if one did.
"""

import contextlib
import io
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from benchmarks.common import parser, write_json
from benchmarks.robustness.forge import CONFIG, EVIL, Folders, mutated
from mfbo_torch.app import cli

SECONDS, HANGING, GIBIBYTES = 10, 600, 1.0
FOLDER = "folder"


class Late(BaseException):
    """No exception that a command might catch."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """At most so many seconds of processor time, and :data:`HANGING` on the clock: a machine may have other work."""

    def late(number: int, _: object) -> None:
        raise Late(f"longer than {SECONDS} s" if number == signal.SIGPROF else f"it hangs for {HANGING} s")

    former = [signal.signal(kind, late) for kind in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(HANGING)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for kind, handler in zip((signal.SIGPROF, signal.SIGALRM), former, strict=True):
            signal.signal(kind, handler)


def command(*arguments: object) -> int:
    """What a command ends with: 0, or another number and a line."""
    err = io.StringIO()
    with limited(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = cli.main([str(argument) for argument in arguments])
    lines = err.getvalue().splitlines()
    alone = len(lines) == 1 or arguments[0] in ("run", "compare")  # these have a bar
    said = not code or (alone and lines[-1].startswith("mfbo: "))
    if code not in (0, 1, 2) or "Traceback" in err.getvalue() or not said:
        raise RuntimeError(f"{arguments[0]} ends with {code}: {err.getvalue()}")
    return code


class Files:
    """Whole files of every kind, and what reads them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.config = folder / "config.yaml"
        self.config.write_text(yaml.safe_dump({**CONFIG, "out": str(self.out)}))
        command("run", self.config)
        command("export", self.out, folder / "whole.csv")
        self.whole = {
            "config": self.config.read_bytes(),
            "stored config": (self.out / "config.yaml").read_bytes(),
            "journal": (self.out / "history.sqlite").read_bytes(),
            "table": (folder / "whole.csv").read_bytes(),
        }
        try:
            from ax.api.configs import RangeParameterConfig

            from mfbo_torch.ax import multi_fidelity_client
        except ModuleNotFoundError:
            return
        client = multi_fidelity_client([RangeParameterConfig("x", (0.0, 1.0), "float")], [1.0, 10.0], "value")
        for index, parameters in client.get_next_trials(max_trials=3).items():
            client.complete_trial(index, {"value": parameters["x"]})
        client.save_to_json_file(str(folder / "whole.json"))
        self.whole["Ax file"] = (folder / "whole.json").read_bytes()

    def read(self, kind: str, content: bytes) -> str | int:
        """Read a damaged file as anyone would; what a command, or Ax, ends with."""
        match kind:
            case "config":
                return self._config(content)
            case "stored config" | "journal":
                return self._folder("config.yaml" if kind == "stored config" else "history.sqlite", content)
            case "table":
                return self._table(content)
        return self._ax(content)

    def _config(self, content: bytes) -> int:
        path, other = self.folder / "damaged.yaml", self.folder / "other"
        path.write_bytes(content.replace(EVIL.encode(), b"nomodule"))  # what the user runs may import
        shutil.rmtree(other, ignore_errors=True)
        return command("run", path, "--out", other, "--capital", 12, "--workers", 1, "--executor", "processes")

    def _folder(self, name: str, content: bytes) -> int:
        damaged = self.folder / "damaged"
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(self.out, damaged)
        (damaged / name).write_bytes(content)
        command("export", damaged, self.folder / "table.csv")
        if name == "history.sqlite":
            (self.folder / "new.sqlite").unlink(missing_ok=True)
            command("repair", damaged, self.folder / "new.sqlite")
        return command("show", damaged)

    def _table(self, content: bytes) -> int:
        path, other = self.folder / "damaged.csv", self.folder / "other"
        path.write_bytes(content)
        shutil.rmtree(other, ignore_errors=True)
        return command("run", self.config, "--out", other, "--warm-start", path, "--capital", 12)

    def _ax(self, content: bytes) -> str:
        from ax.api.client import Client

        path = self.folder / "damaged.json"
        path.write_bytes(content)
        try:
            with limited():
                Client.load_from_json_file(str(path))
        except Exception as error:
            return type(error).__name__
        return "loaded"


def main(arguments: Sequence[str] | None = None) -> int:
    """Damage and read; the exit status."""
    given = parser(__doc__, each=400, folders=3000, seed=0).parse_args(arguments)
    fates, wrong, slowest = Counter[str](), 0, 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "forge").mkdir()
        files, folders = Files(folder), Folders(folder / "forge", command)
        (folder / f"{EVIL}.py").write_text(f"raise SystemExit('{EVIL} was imported')\n")
        sys.path.insert(0, name)
        jobs = [(kind, number) for kind in files.whole for number in range(given.each)]
        for kind, number in [*jobs, *((FOLDER, number) for number in range(given.folders))]:
            numbers, started, done = random.Random(f"{given.seed} {kind} {number}"), time.process_time(), ""
            try:
                if kind == FOLDER:
                    fate: str | int = folders(numbers)
                else:
                    fate = files.read(kind, mutated(files.whole[kind], numbers))
                fates[f"{kind}: {fate if isinstance(fate, str) else f'exit {fate}'}"] += 1
                if EVIL in sys.modules:
                    raise RuntimeError(f"{EVIL} was imported")
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                wrong += 1
                done = folders.done if kind == FOLDER else ""
                print(f"{kind} {number}, {done}: {''.join(traceback.format_exception(error))}", flush=True)
            slowest = max(slowest, time.process_time() - started)
        sys.path.remove(name)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    for fate, count in sorted(fates.items()):
        print(f"{fate}: {count}")
    read, most = sum(fates.values()), f"{memory:.2f} GiB at most"
    print(f"{read} as they must, {wrong} not; the slowest took {slowest:.1f} s; {most}")
    report = {"each": given.each, "folders": given.folders, "seed": given.seed, "inputs": read + wrong, "wrong": wrong}
    report |= {"slowest_seconds": round(slowest, 2), "most_gibibytes": round(memory, 3)}
    write_json(given.results / "fuzz.json", report | {"fates": dict(sorted(fates.items()))})
    return int(wrong > 0 or memory > GIBIBYTES)


if __name__ == "__main__":
    sys.exit(main())

"""Configs, journals, tables and Ax files damaged at random, each read as anyone would.

    python -m benchmarks.robustness.fuzz [--each 400] [--seed 0]

Every file is read by the command that reads its kind (``run``, ``show``, ``export``; Ax's client). None may end in
anything but an exit code or, from Ax, an exception; none may import the module that the damage names, take more
than ten seconds, or bring the process above 1 GiB. Writes ``fuzz.json``; the exit status is 1 if one did.
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
from mfbo_torch.app import cli

SECONDS, GIBIBYTES = 10, 1.0
EVIL = "evilmod"
WORDS = (
    *(b"evilmod:f", b"evilmod.Problem", b"{class_path: evilmod.Problem}"),
    *(b'{"class": "evilmod.Problem", "settings": {}}', b'{"function": "evilmod:f"}'),
    *(b"&a ", b"*a", b"\0", b'"\\0\\ud800"', b"\xff\xfe", b"[" * 3000, b"{a: " * 300),
    *(b"1e999", b".nan", b"null", b"-1", b"9" * 400, b"!!python/name:evilmod.f"),
    *(b"\n", b"  ", b": ", b",", b'"'),
)
CONFIG = {
    "problem": {
        "class_path": "mfbo_torch.problems.UserProblem",
        "init_args": {
            "objective": "benchmarks.robustness.fuzz:objective",
            "parameters": {"x": {"lower": 0.0, "upper": 1.0}, "n": {"lower": 1, "upper": 9, "integer": True}},
            "costs": [1, 10],
        },
    },
    "strategy": {"class_path": "mfbo_torch.strategies.RandomSearch"},
    "capital": 30,
}


def objective(parameters: dict[str, float], fidelity: int) -> float:
    """Something to run."""
    return parameters["x"] + parameters["n"] + fidelity


def mutated(content: bytes, numbers: random.Random) -> bytes:
    """A few changes anywhere."""
    changed = bytearray(content)
    for _ in range(numbers.randint(1, 4)):
        at, size = numbers.randrange(len(changed) + 1), numbers.choice([0, 1, 5, 40])
        match numbers.randrange(5):
            case 0 if at < len(changed):
                changed[at] ^= 1 << numbers.randrange(8)
            case 1:
                changed[at : at + size] = numbers.choice(WORDS)
            case 2:
                changed[at : at + size] = numbers.randbytes(numbers.randrange(6))
            case 3:
                other = numbers.randrange(len(changed) + 1)
                changed[at:at] = changed[other : other + 40]
            case 4 if numbers.random() < 0.2:
                del changed[at:]
    return bytes(changed)


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """At most so many seconds."""

    def late(*_: object) -> None:
        raise TimeoutError(f"longer than {SECONDS} s")

    former = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def command(*arguments: object) -> str:
    """What a command ends with."""
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = cli.main([str(argument) for argument in arguments])
    if code not in (0, 1, 2) or "Traceback" in err.getvalue():
        raise RuntimeError(f"exit code {code}: {err.getvalue()}")
    return f"exit {code}"


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

    def read(self, kind: str, content: bytes) -> str:
        """Read a damaged file as anyone would."""
        match kind:
            case "config":
                return self._config(content)
            case "stored config" | "journal":
                return self._folder("config.yaml" if kind == "stored config" else "history.sqlite", content)
            case "table":
                return self._table(content)
        return self._ax(content)

    def _config(self, content: bytes) -> str:
        path, other = self.folder / "damaged.yaml", self.folder / "other"
        path.write_bytes(content.replace(EVIL.encode(), b"nomodule"))  # what the user runs may import
        shutil.rmtree(other, ignore_errors=True)
        return command("run", path, "--out", other, "--capital", 12, "--workers", 1, "--executor", "processes")

    def _folder(self, name: str, content: bytes) -> str:
        damaged = self.folder / "damaged"
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(self.out, damaged)
        (damaged / name).write_bytes(content)
        command("export", damaged, self.folder / "table.csv")
        if name == "history.sqlite":
            (self.folder / "new.sqlite").unlink(missing_ok=True)
            command("repair", damaged, self.folder / "new.sqlite")
        return command("show", damaged)

    def _table(self, content: bytes) -> str:
        path, other = self.folder / "damaged.csv", self.folder / "other"
        path.write_bytes(content)
        shutil.rmtree(other, ignore_errors=True)
        return command("run", self.config, "--out", other, "--warm-start", path, "--capital", 12)

    def _ax(self, content: bytes) -> str:
        from ax.api.client import Client

        path = self.folder / "damaged.json"
        path.write_bytes(content)
        try:
            Client.load_from_json_file(str(path))
        except TimeoutError:
            raise
        except Exception as error:
            return type(error).__name__
        return "loaded"


def main(arguments: Sequence[str] | None = None) -> int:
    """Damage and read; the exit status."""
    given = parser(__doc__, each=400, seed=0).parse_args(arguments)
    numbers, fates, wrong, slowest = random.Random(given.seed), Counter[tuple[str, str]](), 0, 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / f"{EVIL}.py").write_text(f"raise SystemExit('{EVIL} was imported')\n")
        files = Files(folder)
        sys.path.insert(0, name)
        for kind, content in files.whole.items():
            for number in range(given.each):
                damaged, started = mutated(content, numbers), time.perf_counter()
                try:
                    with limited():
                        fates[kind, files.read(kind, damaged)] += 1
                    if EVIL in sys.modules:
                        raise RuntimeError(f"{EVIL} was imported")
                except BaseException as error:
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    wrong += 1
                    print(f"{kind} {number}: {''.join(traceback.format_exception(error))}", flush=True)
                slowest = max(slowest, time.perf_counter() - started)
        sys.path.remove(name)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    for (kind, fate), count in sorted(fates.items()):
        print(f"{kind}: {count} {fate}")
    done, most = sum(fates.values()), f"{memory:.2f} GiB at most"
    print(f"{done} as they must, {wrong} not; the slowest took {slowest:.1f} s; {most}")
    report = {"each": given.each, "seed": given.seed, "files": done + wrong, "wrong": wrong}
    report |= {"slowest_seconds": round(slowest, 2), "most_gibibytes": round(memory, 3)}
    write_json(given.results / "fuzz.json", report | {"fates": {f"{k}: {f}": n for (k, f), n in sorted(fates.items())}})
    return int(wrong > 0 or memory > GIBIBYTES)


if __name__ == "__main__":
    sys.exit(main())

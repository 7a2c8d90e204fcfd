"""``mfbo show``, ``mfbo best``, ``mfbo export`` and ``mfbo repair``."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from mfbo_torch.app import digest, run_folder
from mfbo_torch.app.cli.terminal import pairs, say, warn_of_formulas
from mfbo_torch.history import History
from mfbo_torch.history.storage import outputs
from mfbo_torch.history.storage.beside import digest_path
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.history.storage.repair import salvage
from mfbo_torch.utils.errors import SettingError

FOLLOW_SECONDS = 1.0
"""Between two looks at a run that is going on."""
LOOKS = 20
"""Number of looks in a row at a run that no process has open, after which it is not followed any more: a run that was
just started takes a while to open its journal."""


def show(folder: str | None, follow: bool, html: bool, curves: bool, output: int | None = None) -> int:
    """Print what a folder or a journal holds, or an evaluation has printed, or write it as a page, or draw its learning
    curves."""
    if output is not None:
        return _output(folder, output)
    out = run_folder.chosen(folder, "mfbo show runs/mine", single=follow or html or curves, journal=True)
    if out.is_file() and follow:
        raise SettingError("folder", folder, "the folder of a run where --follow is given")
    if out.is_file() and not (html or curves):
        return _journal(out)
    compares = run_folder.compares(out)
    if compares and (follow or html or curves):
        raise SettingError("folder", str(out), "that of a single run where --follow, --html or --curves is given")
    if folder is None:
        say(out)
        say()
    if compares:
        from mfbo_torch.app import compare
        from mfbo_torch.app.cli import texts

        say(texts.compared(compare.load(out)))
    elif html or curves:
        from mfbo_torch.app import experiment, report

        run = experiment.load(out)
        if html:
            page = run_folder.beside(out, "report.html")
            say(f"Page          {report.write(run, page, out if out.is_dir() else None)}")
        else:
            say(f"Picture       {experiment.draw_curves(run, run_folder.beside(out, 'curves.png'))}")
    else:
        _described(out, follow)
    return 0


def _output(folder: str | None, number: int) -> int:
    """Print what an evaluation has printed."""
    place = Path(folder) if folder is not None and Path(folder).is_file() else None
    journal = place or run_folder.chosen(folder, "mfbo show runs/mine --output 3", single=True) / run_folder.JOURNAL
    text = outputs.read(journal, number)
    if text is None:
        raise SettingError("output", number, "the number of a query that has ended and printed something")
    for line in text.splitlines():
        say(line)
    return 0


def _described(out: Path, follow: bool) -> None:
    """Print a run in a few lines, again and again while it goes on."""
    seen, quiet = None, 0
    while True:
        history, ended = run_folder.recorded(out), run_folder.finished(out)
        if history != seen:
            if seen is not None:
                say()
            say(pairs(_rows(out, history)))
        if ended or not follow:
            return
        quiet = 0 if run_folder.runs(out) else quiet + 1
        if quiet == LOOKS:
            config, folder = (shlex.quote(str(path)) for path in (out / run_folder.CONFIG, out))
            say()
            return say(f"It has not finished, and no process runs it: mfbo run {config} --out {folder}")
        seen = history
        time.sleep(FOLLOW_SECONDS)


def _rows(out: Path, history: History) -> digest.Rows:
    """What there is to say of a run; its problem is only made where nothing was kept beside the journal."""
    settings, ended = run_folder.settings_of(out), run_folder.finished(out)
    known = digest.read(digest_path(out / run_folder.JOURNAL))
    with suppress(*digest.WRONG):
        if known is not None and digest.fits(known, history):
            return digest.rows(known, _values(out, known, settings, history, ended), history, ended)
    from mfbo_torch.app import experiment
    from mfbo_torch.problems.problem_snapshot import shown_of

    run = experiment.load(out)
    return digest.rows(shown_of(run.problem), run.values, history, ended)


def _values(
    out: Path, known: digest.Known, settings: Mapping[str, Any], history: History, ended: bool
) -> dict[str, Any]:
    """The results of a run: as they were noted at its end, or of what there is by now."""
    name = digest.class_name(settings["strategy"])
    if ended:
        return {**run_folder.noted(out), "strategy": name}
    given = {"strategy": name, "seed": settings["seed"], "capital": settings["capital"]}
    return {**digest.values_of(known, history, given), "stopped": run_folder.stopped(out, history) or None}


def _journal(path: Path) -> int:
    """Print what a journal holds that a program of the user's has written."""
    history, known = _read(path)
    rows = digest.rows_of_journal(history, None)
    with suppress(*digest.WRONG):
        space = digest.read(digest_path(path), digest.SPACE_KEYS)
        if known is None and space is not None and digest.fits(space, history):
            rows = digest.rows_of_journal(history, space)
        if known is not None and digest.fits(known, history):
            values = {**digest.values_of(known, history, known), "stopped": known.get("stopped")}
            rows = digest.rows(known, values, history, known.get("finished") is True)
    say(pairs(rows))
    return 0


def _read(path: Path) -> tuple[History, digest.Known | None]:
    """The history of a journal, and what is kept beside it."""
    with Journal(path, read_only=True) as journal:
        return journal.history(), digest.read(digest_path(path))


def best(folder: str | None, as_json: bool) -> int:
    """Print the best parameters that a folder or a journal holds, and their value."""
    if folder is not None and Path(folder).is_file():
        out = Path(folder)
        summary, finished = _told(out)
    else:
        out = run_folder.chosen(folder, "mfbo best runs/mine", single=True)
        if run_folder.compares(out):
            raise SettingError("folder", str(out), "that of a single run; this one holds a comparison")
        summary, finished = _summary(out), run_folder.finished(out)
    found: dict[str, Any] = {
        "folder": str(out),
        **_best_values(summary),
        "parameters": summary["best_parameters"],
        **{
            name: summary[name]
            for name in ("front", "recommended", "constraints", "spent", "capital")
            if name in summary
        },
        "finished": finished,
    }
    if as_json:
        print(json.dumps(found, indent=2))
        return 0
    if found.get("front"):
        from mfbo_torch.app.cli import texts

        say(texts.front(found["front"]))
        return 0
    value, parameters = summary["best_value"], found["parameters"] or {}
    none = "none that keeps its limits at the target yet" if summary.get("constraints") else "none at the target yet"
    rows = [("value", none if value is None else f"{value:.10g}")]
    rows += [(name, f"{given:.10g}" if isinstance(given, float) else str(given)) for name, given in parameters.items()]
    if found["recommended"] is not None:
        recommended = found["recommended"]["parameters"]
        rows.append(("recommended", ", ".join(f"{name} = {given}" for name, given in recommended.items())))
    say(pairs(rows, max(len(name) for name, _ in rows)))
    return 0


def _told(path: Path) -> tuple[dict[str, Any], bool]:
    """What a run has found whose journal a program of the user's has written, and whether it has ended."""
    history, known = _read(path)
    with suppress(*digest.WRONG):
        if known is not None and digest.fits(known, history):
            found = {**digest.values_of(known, history, known), "spent": history.spent}
            front = {"front": digest.front_of(known, history)} if known.get("objectives") else {}
            return {**found, **front}, known.get("finished") is True
    wanted = f"a run's folder, or a journal of minimize or maximize with {digest_path(path)} beside it"
    raise SettingError("folder", str(path), f"{wanted}; of one of ask and tell there is only mfbo show")


def _best_values(summary: dict[str, Any]) -> dict[str, Any]:
    """The best value; of several objectives those of the knee, by name."""
    if "front" not in summary:
        return {"value": summary["best_value"]}
    return {"values": digest.knee(summary["front"])}


def _summary(out: Path) -> dict[str, Any]:
    """What a run has found: as it was noted at its end, or of what there is by now."""
    if run_folder.finished(out):
        return run_folder.noted(out)
    from mfbo_torch.app import experiment

    return experiment.load(out).values


def export(folder: str | None, file: str | None, to: str | None = None) -> int:
    """Write the observations of a run or a comparison as a table, or those of a run as a study of Optuna."""
    out = run_folder.chosen(folder, "mfbo export runs/mine", journal=True)
    compares = run_folder.compares(out)
    if to is not None:
        return _export_study(out, run_folder.beside(out, "study.db") if file is None else Path(file), compares)
    path = run_folder.beside(out, "history.csv") if file is None else Path(file)
    from mfbo_torch.app import compare, experiment, tabular_io

    if compares:
        count, formulas = compare.export(out, path)
    else:
        run = experiment.load(out)
        count, formulas = len(run.history), tabular_io.write(run.history, run.problem, path)
    say(f"{count} records in {path}")
    warn_of_formulas(path, formulas)
    return 0


def _export_study(out: Path, path: Path, compares: bool) -> int:
    """Write a study of Optuna; the room that knows Optuna is above this one, and is reached by its name."""
    if compares:
        raise SettingError("folder", str(out), "that of a single run; this one holds a comparison")
    from mfbo_torch.app import experiment
    from mfbo_torch.strategies.explanation import Explanation

    try:
        write = import_module("mfbo_torch.optuna.export").write
    except ImportError:
        raise SettingError("to", "optuna", "left out, or Optuna installed: pip install mfbo-torch[optuna]") from None
    run = experiment.load(out)
    space, signed = run.problem.space, run.problem.signed
    count = write(run.history, run.problem, path, lambda record: str(Explanation(record, run.history, space, signed)))
    say(f"{count} trials in {path}")
    say(f"To look at them: optuna-dashboard sqlite:///{path}")
    return 0


def repair(journal: str, new: str | None) -> int:
    """Save the good rows of a journal as a new one."""
    path = Path(journal)
    if path.is_dir():
        if not (path / run_folder.JOURNAL).exists():
            wanted = f"a run's folder with its {run_folder.JOURNAL}; a comparison has one in the folder of each run"
            raise SettingError("journal", journal, wanted)
        path /= run_folder.JOURNAL
    saved = path.with_suffix(f".repaired{path.suffix}") if new is None else Path(new)
    say(f"{salvage(path, saved)} good rows in {saved}")
    beside = [path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))]
    old = " ".join(shlex.quote(str(file)) for file in beside if file.exists())
    say(f"{path} is as it was. To go on: rm {old} && mv {shlex.quote(str(saved))} {shlex.quote(str(path))}")
    if (config := path.with_name(run_folder.CONFIG)).exists():
        try:
            run_folder.settings_of(path.parent)
        except SettingError as error:
            say(f"A run goes on with its settings only, and these are damaged too; put {config} back first: {error}")
    return 0

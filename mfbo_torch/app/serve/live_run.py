"""What a page shows of a run that goes on: read again as its journal grows, and what is new since a version."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from mfbo_torch.app import experiment, notes, report, run_folder, tabular_io
from mfbo_torch.app.report.content import why
from mfbo_torch.app.report.view import ReportView
from mfbo_torch.history import History
from mfbo_torch.history.storage import outputs
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import describe

LOOK_SECONDS, REST = 1.0, 4.0
"""Seconds between two looks at the folder, and the rest after reading it in units of the time that this took."""
GROWTH = 0.1
"""Share by which the values must have grown before the model is asked again, while the run goes on."""


class LiveRun:
    """A run's folder, read by a thread of its own; every part of the page has the version at which it last changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = experiment.load(folder)
        self.finished, self.trouble, self.token = False, "", token_hex(4)
        self._parts: dict[tuple[str, str], tuple[int, Any]] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._changed: list[int] = []
        self._columns: list[dict[str, str]] = []
        self._version, self._modelled = 0, -1
        self._seen: tuple[Any, ...] | None = None
        self._lock, self._end = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._follow, name="mfbo-serve", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def close(self) -> None:
        """Stop following."""
        self._end.set()

    def page(self) -> str:
        """The page, which asks for its content."""
        return report.render(self.run, live=True)

    def state(self, seen: int) -> dict[str, Any]:
        """What is new since a version; all there is since version 0. Its ``run`` changes with the run in the folder."""
        with self._lock:
            found: dict[str, Any] = {"version": str(self._version), "run": self.token}
            found |= {"finished": self.finished, "trouble": self.trouble}
            for (kind, name), (version, part) in self._parts.items():
                if version > seen:
                    found.setdefault(kind, {})[name] = part
            rows = [[i, row] for i, row in enumerate(self._rows) if self._changed[i] > seen]
            if self._columns and (rows or seen == 0):
                best = None if self.run.best is None else self.run.best.id
                found |= {"columns": self._columns, "rows": rows, "best": best}
            return found

    def query(self, id: int) -> dict[str, str]:
        """Why a query was made, what it printed, and the note on it; a ``SettingError`` where there is none."""
        run = self.run
        if not 0 <= id < len(run.history):
            raise SettingError("id", id, f"0 to {len(run.history) - 1}")
        output = outputs.read(self.folder / run_folder.JOURNAL, id) or ""
        return {"why": why(run, id), "note": notes.read(self.folder).get(id, ""), "output": output}

    def note(self, id: Any, text: Any) -> None:
        """Keep a note on a query."""
        if type(id) is not int or not 0 <= id < len(self.run.history):
            raise SettingError("id", id, f"0 to {len(self.run.history) - 1}")
        with self._lock:
            notes.write(self.folder, id, text)

    def _follow(self) -> None:
        while not self._end.is_set():
            began = time.perf_counter()
            try:
                self.look()
                self._set(trouble="")
            except Exception as error:  # of whatever kind: the folder may be half moved, a model may fail
                self._set(trouble=f"The folder could not be read: {describe(error)}")
            self._end.wait(max(LOOK_SECONDS, REST * (time.perf_counter() - began)))

    def look(self) -> None:
        """Read the folder if something was written, publish what needs no model, and then the rest."""
        seen = self._signature()
        if seen == self._seen:
            return
        history = run_folder.recorded(self.folder)
        former = self.run.history
        if len(history) < len(former) or (len(former) and self._began(history) != self._began(former)):
            self._begin_anew()
        stopped, finished = run_folder.stopped(self.folder, history), run_folder.finished(self.folder)
        self.run = run = replace(self.run, history=history, stopped=stopped, finished=finished)
        view = ReportView(run)
        self._publish_rows()
        self._publish(lambda: report.quick(view, self.folder))
        self._set(finished=finished)
        done = len(view.done)
        if finished or done >= (1 + GROWTH) * self._modelled or self._modelled < 0:
            self._publish(lambda: report.modelled(view))
            self._modelled = done
        with self._lock:
            self._version += 1
            for name, html in report.spoken(run).items():
                self._part("words", name, html)
        self._seen = seen

    @staticmethod
    def _began(history: History) -> tuple[Any, ...]:
        """What is the same for as long as a folder holds the same run."""
        return tuple((record.query.x, record.query.fidelity, record.decision_seconds) for record in history.records[:1])

    def _begin_anew(self) -> None:
        """Follow another run, which has taken the place of the former one."""
        run = experiment.load(self.folder)
        with self._lock:
            self.run, self._modelled, self.token = run, -1, token_hex(4)
            self._parts, self._rows, self._changed, self._columns = {}, [], [], []

    def _signature(self) -> tuple[Any, ...]:
        found: list[Any] = []
        for name in (run_folder.JOURNAL, f"{run_folder.JOURNAL}-wal", run_folder.SUMMARY):
            with suppress(OSError):
                status = (self.folder / name).stat()
                found.append((name, status.st_mtime_ns, status.st_size))
        return tuple(found)

    def _publish_rows(self) -> None:
        columns = tabular_io.shown(self.run.history, self.run.problem)
        rows = list(zip(*(column["cells"] for column in columns), strict=True))
        heads = [{"title": column["title"], "kind": column["kind"]} for column in columns]
        with self._lock:
            self._version += 1
            if [head["title"] for head in heads] != [head["title"] for head in self._columns]:
                self._rows, self._changed = [], []
            for i, row in enumerate(rows):
                if i == len(self._rows):
                    self._rows.append(row)
                    self._changed.append(self._version)
                elif self._rows[i] != row:
                    self._rows[i], self._changed[i] = row, self._version
            self._columns = heads

    def _publish(self, make: Callable[[], report.Drawn]) -> None:
        drawn, said = make()
        with self._lock:
            self._version += 1
            for name, figures in drawn.items():
                self._part("figures", name, figures)
                self._part("notes", name, said[name])

    def _part(self, kind: str, name: str, part: Any) -> None:
        former = self._parts.get((kind, name))
        if former is None or former[1] != part:
            self._parts[kind, name] = self._version, part

    def _set(self, **changes: Any) -> None:
        with self._lock:
            for name, value in changes.items():
                setattr(self, name, value)

"""The timeline of the workers, from the times in the run's log."""

from __future__ import annotations

import heapq
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from mfbo_torch.app.report.view import ReportView, axis, figure
from mfbo_torch.app.run_folder import LOG
from mfbo_torch.history import Record, Status
from mfbo_torch.utils.files import opened

MOST_BARS, MOST_BYTES = 600, 2**24
"""Evaluations that are drawn, the last ones; and bytes of the log that are read, its last ones."""
LATEST = 2.5e11
"""The latest second since the epoch that is drawn, some time in the year 9892; a stranger's file may have any."""
_LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) [A-Z]+ (\d{1,9}) (queried|ended|failed|stopped)\b")


class BusyTime(NamedTuple):
    """When an evaluation ran, in seconds since the epoch; ``end`` is ``None`` while it runs."""

    record: Record
    start: float
    end: float | None


def busy_times(view: ReportView, folder: Path | None) -> list[BusyTime]:
    """The evaluations whose times the log of a run's folder has, in the order of their starts.

    One that has ended began its evaluation's seconds before, one that runs when it was queried.
    """
    begun, ended, found = dict[int, float](), dict[int, float](), list[BusyTime]()
    for at, number, what in _events(folder):
        (begun if what == "queried" else ended)[number] = at
    for record in view.history:
        if record.id in ended and record.status != Status.PENDING:
            found.append(BusyTime(record, ended[record.id] - record.evaluation_seconds, ended[record.id]))
        elif record.id in begun and record.status == Status.PENDING:
            found.append(BusyTime(record, begun[record.id], None))
    return sorted(found[-MOST_BARS:], key=lambda span: span.start)


def _events(folder: Path | None) -> list[tuple[float, int, str]]:
    if folder is None:
        return []
    try:
        with opened(folder / LOG) as file:
            file.seek(max(0, file.seek(0, 2) - MOST_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    found = []
    for line in text.splitlines():
        if (part := _LINE.match(line)) is not None:
            try:
                at = datetime.fromisoformat(part[1]).timestamp() + int(part[2]) / 1000
            except (ValueError, OverflowError):  # a month that no calendar has
                continue
            found.append((at, int(part[3]), part[4]))
    return found


def timeline(view: ReportView, folder: Path | None, now: float) -> tuple[list[dict[str, Any]], str]:
    """A bar for each evaluation, each worker in a row of its own."""
    found = busy_times(view, folder)
    if not found:
        return [], "The run's folder has no log with times."
    lanes, free, busy = dict[int, int](), list[int](), list[tuple[float, int]]()
    for span in found:
        while busy and busy[0][0] <= span.start + 1e-3:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        lanes[span.record.id] = lane
        heapq.heappush(busy, (now if span.end is None else span.end, lane))
    data = []
    for m, name in enumerate(view.names):
        own = [span for span in found if view.place[span.record.query.fidelity] == m]
        width = [1000 * max((now if span.end is None else span.end) - span.start, 0.001) for span in own]
        shapes = ["/" if s.record.status == Status.FAILED else "." if s.end is None else "" for s in own]
        look = {"marker": {"color": view.color(m), "pattern": {"shape": shapes, "size": 5}}, "name": name}
        text = [view.about(span.record) for span in own]
        rows = [f"{lanes[span.record.id] + 1}" for span in own]
        bars = {"type": "bar", "orientation": "h", "base": [_time(span.start) for span in own], "x": width, "y": rows}
        data.append({**bars, **look, "text": text, "textposition": "none", "hoverinfo": "text", "width": 0.7})
    workers = max(lanes.values()) + 1
    side = axis("worker", type="category", showgrid=False, fixedrange=True)
    side |= {"categoryorder": "array", "categoryarray": [f"{k}" for k in range(workers, 0, -1)]}
    layout: dict[str, Any] = {
        "barmode": "overlay",
        "height": 130 + min(28 * workers, 600),
        "showlegend": len(view.names) > 1,
    }
    margin = {"l": 56, "r": 12, "t": 40, "b": 48}
    more = f" The last {len(found):,} evaluations are drawn." if len(found) == MOST_BARS else ""
    note = f"Hatched: failed. Dotted: still running.{more}"
    return [figure(data, **layout, margin=margin, xaxis=axis(type="date", showgrid=False), yaxis=side)], note


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(max(0.0, min(seconds, LATEST)), UTC)
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]

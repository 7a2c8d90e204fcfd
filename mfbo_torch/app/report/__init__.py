"""A run as one HTML page that needs nothing else: no network, no other file; or, served, a page that follows it.

The page holds plotly.js and every record, compressed; what can be read without a script is plain HTML. Names and
reasons of failures are text wherever they are shown, whatever is in them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import time
from importlib import resources
from pathlib import Path
from secrets import token_hex
from string import Template
from typing import Any

from mfbo_torch.app import run_folder
from mfbo_torch.app.report import (
    calibration,
    capital,
    comparison,
    contours,
    curves,
    designs,
    figures,
    importance,
    objectives,
    text,
    timeline,
)
from mfbo_torch.app.report.content import content, slices
from mfbo_torch.app.report.view import ReportView
from mfbo_torch.app.summary import Summary
from mfbo_torch.utils import safe_yaml
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import write_text
from mfbo_torch.utils.output_streams import printable
from mfbo_torch.utils.version import __version__

SCRIPTS = ("table.js", "query.js", "page.js")
RAMP = {"light": ((42, 147, 163), (29, 63, 145)), "dark": ((111, 214, 219), (106, 155, 245))}
TARGET = {"light": (194, 65, 12), "dark": (255, 138, 76)}
SOFT = {"light": 0.2, "dark": 0.3}
Drawn = tuple[dict[str, figures.Figures], dict[str, str]]
"""The pictures of each section, as plotly reads them, and its sentence."""


def write(run: Summary, path: Path, folder: Path | None = None) -> Path:
    """Write the page of a run, finished or not; a file at ``path``, which is given back, is replaced.

    What the run's ``folder`` says beside the journal is on the page too: times, notes, and the runs beside it.
    """
    page = render(run, folder)
    with run_folder.writable("html", path, "file"):
        write_text(path, page)
    return path


def render(run: Summary, folder: Path | None = None, live: bool = False) -> str:
    """The text of the page; one that is ``live`` asks its server for what it shows."""
    notes, said = dict.fromkeys(SECTIONS, ""), dict.fromkeys(("headline", "aside", "design", "facts", "failures"), "")
    data, drawn = "", dict[str, figures.Figures]()
    if not live:
        drawn, notes = sections(run, folder)
        data, said = _packed(_json(content(run, folder))), spoken(run)
    words = {
        "title": f"{run.problem.name}, {_small(text.headline(run))}",
        "run": f"{run.problem.name} with {type(run.strategy).__name__}, seed {run.settings['seed']}",
        "settings": safe_yaml.dump(dict(run.settings)),
        "version": f"mfbo-torch {__version__}",
        **{f"{section}_note": note for section, note in notes.items()},
    }
    page = Template(_asset("page.html")).substitute(
        {name: html.escape(value) for name, value in words.items()},
        **said,
        style=_colors(len(run.problem.space.stretches)) + _asset("page.css"),
        theme=_asset("theme.js"),
        script="".join(map(_asset, SCRIPTS)),
        plotly=_packed(_plotly()),
        figures=_packed(_json(drawn)),
        data=data,
        nonce=token_hex(16) if live else hashlib.sha256(data.encode()).hexdigest()[:32],
        live=' data-live=""' if live else "",
        connect="; connect-src 'self'" if live else "",
        reading="" if live else " readonly",
        hidden="" if live else " hidden",
    )
    return printable(page, keep="\n\t")


def spoken(run: Summary) -> dict[str, str]:
    """What the page says of a run, as HTML, by its place."""
    return {
        "headline": html.escape(text.headline(run)),
        "aside": html.escape(text.aside(run)),
        "design": text.design(run),
        "facts": text.facts(run),
        "failures": text.failures(run),
    }


def sections(run: Summary, folder: Path | None = None) -> Drawn:
    """All pictures of a run."""
    view = ReportView(run)
    parts = quick(view, folder), modelled(view)
    return parts[0][0] | parts[1][0], parts[0][1] | parts[1][1]


def quick(view: ReportView, folder: Path | None) -> Drawn:
    """The pictures that need no model."""
    found = {
        "capital": capital.strip(view),
        "progress": figures.progress(view),
        "front": objectives.front(view),
        "queries": (figures.fidelities(view), ""),
        "timeline": timeline.timeline(view, folder, time.time()),
        "parallel": designs.parallel(view),
        "times": (figures.times(view), ""),
        "comparison": comparison.comparison(view, folder),
    }
    return _parted(found)


def modelled(view: ReportView) -> Drawn:
    """The pictures that the strategy's model is asked for."""
    important = importance.importance(view.run)
    found = {
        "curves": curves.curves(view),
        "importance": importance.drawn(view, important),
        "slices": designs.slices(view, slices(view.run)),
        "contours": contours.contours(view, important),
        "calibration": calibration.drawn(view),
    }
    return _parted(found)


SECTIONS = (
    *("capital", "progress", "front", "queries", "timeline", "parallel", "times", "comparison"),
    *("curves", "importance", "slices", "contours", "calibration"),
)
"""The sections with pictures."""


def _parted(found: dict[str, tuple[figures.Figures, str]]) -> Drawn:
    return {name: drawn for name, (drawn, _) in found.items()}, {name: note for name, (_, note) in found.items()}


def _small(headline: str) -> str:
    return f"{headline[0].lower()}{headline[1:]}"


def _plotly() -> str:
    """The script of plotly."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise SettingError("plotly", None, "installed, which pages need: pip install mfbo-torch[report]") from None
    script: str = get_plotlyjs()
    return script


def _colors(count: int) -> str:
    """The colours of the fidelities in both themes: a ramp of blues up to the one below the target, which is orange."""
    rules = []
    for theme, (start, end) in RAMP.items():
        shares = [k / max(1, count - 2) if count > 2 else 0.5 for k in range(count - 1)]
        ramp = [tuple(round(a + t * (b - a)) for a, b in zip(start, end, strict=True)) for t in shares]
        names = []
        for m, (red, green, blue) in enumerate([*ramp, TARGET[theme]]):
            names.append(f"--f{m}: rgb({red}, {green}, {blue})")
            names.append(f"--f{m}-soft: rgba({red}, {green}, {blue}, {SOFT[theme]})")
        rules.append(f':root[data-theme="{theme}"] {{ {"; ".join(names)} }}')
    return "\n".join(rules) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _packed(text: str) -> str:
    """A text for the browser's ``DecompressionStream``; its alphabet has no meaning in HTML."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()

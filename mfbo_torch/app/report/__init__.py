"""A run as one HTML page that needs nothing else: no network, no server, no other file.

The page holds plotly.js, DataTables and every record, compressed; what can be read without a script is
plain HTML. Names and reasons of failures are text wherever they are shown, whatever is in them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

import yaml

from mfbo_torch.app import run_folder
from mfbo_torch.app.report import calibration, designs, figures, text
from mfbo_torch.app.report.content import content, slices
from mfbo_torch.app.report.view import ReportView
from mfbo_torch.app.summary import Summary
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import write_text
from mfbo_torch.utils.output_streams import printable

NOTED = ("progress", "parallel", "slices", "calibration")
"""Sections with a sentence of their own."""
RAMP = {"light": ((42, 147, 163), (29, 63, 145)), "dark": ((111, 214, 219), (106, 155, 245))}
TARGET = {"light": (194, 65, 12), "dark": (255, 138, 76)}
SOFT = {"light": 0.2, "dark": 0.3}


def write(run: Summary, path: Path) -> Path:
    """Write the page of a run, finished or not; a file at ``path``, which is given back, is replaced."""
    page = render(run)
    with run_folder.writable("html", path, "file"):
        write_text(path, page)
    return path


def render(run: Summary) -> str:
    """The text of the page."""
    plotly, library, sheet = _libraries()
    summary = run.values
    drawn, notes = sections(run)
    data = _packed(_json(content(run)))
    headline = text.headline(run)
    words = {
        "title": f"{summary['problem']}, {headline[0].lower()}{headline[1:]}",
        "run": f"{summary['problem']} with {summary['strategy']}, seed {summary['seed']}",
        "headline": headline,
        "aside": text.aside(run),
        "settings": yaml.safe_dump(dict(run.settings), sort_keys=False, allow_unicode=True),
        "version": f"mfbo-torch {summary['versions']['mfbo_torch']}",
        **{f"{section}_note": notes[section] for section in NOTED},
    }
    page = Template(_asset("page.html")).substitute(
        {name: html.escape(value) for name, value in words.items()},
        design=text.design(run),
        facts=text.facts(run),
        failures=text.failures(run),
        style=_colors(len(run.problem.space.stretches)) + _asset("page.css"),
        theme=_asset("theme.js"),
        script=_asset("page.js"),
        plotly=_packed(plotly),
        library=_packed(library),
        sheet=_packed(sheet),
        figures=_packed(_json(drawn)),
        data=data,
        nonce=hashlib.sha256(data.encode()).hexdigest()[:32],
    )
    return printable(page, keep="\n\t")


def sections(run: Summary) -> tuple[dict[str, figures.Figures], dict[str, str]]:
    """The pictures of each section, as plotly reads them, and the sentence over them."""
    view, drawn, notes = ReportView(run), {}, {}
    drawn["progress"], notes["progress"] = figures.progress(view)
    drawn["queries"] = figures.fidelities(view)
    drawn["parallel"], notes["parallel"] = designs.parallel(view)
    drawn["slices"], notes["slices"] = designs.slices(view, slices(run))
    drawn["calibration"], notes["calibration"] = calibration.drawn(view)
    drawn["times"] = figures.times(view)
    return drawn, notes


def _libraries() -> tuple[str, str, str]:
    """The scripts of plotly and DataTables, and the style sheet of the latter."""
    hint = "left out, or plotly and itables installed: pip install mfbo-torch[report]"
    bundle = find_spec("itables")
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        bundle = None
    if bundle is None or bundle.origin is None:
        raise SettingError("html", True, hint)
    folder = Path(bundle.origin).parent / "html"
    script, sheet = ((folder / f"dt_bundle.{kind}").read_text("utf-8") for kind in ("js", "css"))
    return get_plotlyjs(), script, sheet


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

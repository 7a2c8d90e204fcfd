"""A run as one HTML page that needs nothing else: no network, no server, no other file.

The page holds plotly.js and every record, both compressed; what can be read without a script is
plain HTML. Names and reasons of failures are text wherever they are shown, whatever is in them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from importlib.resources import files
from pathlib import Path
from string import Template

import yaml

from mfbo_torch import experiment
from mfbo_torch.errors import SettingError
from mfbo_torch.experiment import Experiment
from mfbo_torch.report import text
from mfbo_torch.report.content import content

SCRIPTS = ("common.js", "charts.js", "table.js", "start.js")


def write(run: Experiment, path: Path) -> Path:
    """Write the page of a run, finished or not.

    Args:
        run: What :func:`mfbo_torch.experiment.load` gives.
        path: Where to write it; a file there is replaced.

    Returns:
        ``path``.

    Raises:
        SettingError: plotly is not installed, or ``path`` cannot be written.
    """
    page = render(run)
    with experiment.writable("html", path, "file"):
        experiment.write(path, page)
    return path


def render(run: Experiment) -> str:
    """The text of the page.

    Raises:
        SettingError: plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        hint = "left out, or plotly installed: pip install mfbo-torch[report]"
        raise SettingError("html", True, hint) from None
    summary = experiment.summarise(run)
    data = _packed(json.dumps(content(run), allow_nan=False, separators=(",", ":")))
    headline = text.headline(summary)
    words = {
        "title": f"{summary['problem']}, {headline[0].lower()}{headline[1:]}",
        "run": f"{summary['problem']} with {summary['strategy']}, seed {summary['seed']}",
        "headline": headline,
        "aside": text.aside(run),
        "settings": yaml.safe_dump(dict(run.settings), sort_keys=False, allow_unicode=True),
        "version": f"mfbo-torch {summary['versions']['mfbo_torch']}",
    }
    return Template(_asset("page.html")).substitute(
        {name: html.escape(value) for name, value in words.items()},
        design=text.design(run),
        facts=text.facts(run, summary),
        failures=text.failures(run),
        style=_asset("page.css"),
        theme=_asset("theme.js"),
        script="\n".join(map(_asset, SCRIPTS)),
        plotly=_packed(get_plotlyjs()),
        data=data,
        nonce=hashlib.sha256(data.encode()).hexdigest()[:32],
    )


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _packed(text: str) -> str:
    """A text for the browser's ``DecompressionStream``; its alphabet has no meaning in HTML."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()

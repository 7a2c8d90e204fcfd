"""The public data sets behind the real problems: found in a folder, or downloaded and verified."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import lt
from pathlib import Path
from urllib.request import urlopen

import numpy as np

from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.files import replacing
from mfbo_torch.utils.validation import one_of, several, whole

DATA_DIR = "MFBO_DATA_DIR"
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Source:
    """A table of numbers in a text file of ``rows``, a header line not counted, with what each of the ``columns``
    holds. It comes from ``origin``, in words and with an address for a reader, and from ``url`` where the file itself
    has one, with a checksum of its bytes. ``labels`` are the numbers that stand for words in it."""

    file: str
    rows: int
    columns: tuple[str, ...]
    origin: str
    url: str | None = None
    sha256: str | None = None
    labels: Mapping[str, float] = field(default_factory=dict)

    @property
    def layout(self) -> str:
        return f"{self.rows} rows of {', '.join(self.columns)}"


SOURCES = {
    "supernovae": Source(
        "davis2007_supernovae.txt",
        192,
        ("redshift", "distance modulus", "standard error"),
        "Davis et al. 2007, http://dark.dark-cosmology.dk/~tamarad/SN/",
        "https://raw.githubusercontent.com/dragonfly/dragonfly/f36520e7cbf942b1cf07a3950842f114bb636590"
        "/examples/supernova/davisdata",
        "18142cc27d9ac3647db95b6c8a4542d65799057aba96caaf000e4a638bd24385",
    ),
    "magic": Source(
        "magic04.data",
        19_020,
        (*(f"feature {i}" for i in range(1, 11)), "label g or h"),
        "UCI MAGIC Gamma Telescope, https://archive.ics.uci.edu/dataset/159",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/magic/magic04.data",
        "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a",
        {"g": 1.0, "h": 0.0},
    ),
    "power_plant": Source(
        "ccpp.csv",
        9_568,
        ("temperature", "vacuum", "pressure", "humidity", "energy"),
        "the first sheet of Folds5x2_pp.xlsx saved as CSV, from UCI Combined Cycle Power Plant, "
        "https://archive.ics.uci.edu/dataset/294",
    ),
}


def cache_dir() -> Path:
    """Where downloads are kept: ``mfbo_torch`` under ``XDG_CACHE_HOME`` or ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mfbo_torch"


def load(name: str) -> np.ndarray:
    """The ``rows x columns`` float64 table of a name in :data:`SOURCES`: from the folder in the environment variable
    ``MFBO_DATA_DIR``, from earlier downloads, or downloaded. A ``SettingError`` for a table that cannot be had or has
    another shape or checksum says what to put where."""
    source = SOURCES[one_of("data", name, SOURCES)]
    folder = os.environ.get(DATA_DIR)
    if folder and (Path(folder) / source.file).is_file():
        return read(Path(folder) / source.file, source)
    kept = cache_dir() / source.file
    if not kept.is_file():
        download(source, kept)
    return read(kept, source)


def download(source: Source, path: Path) -> None:
    """Fetch a source into ``path``, which appears whole and verified or not at all; a ``SettingError`` where the
    address is unknown or unreachable, or the checksum differs."""
    wanted = f"a folder with {source.file} ({source.layout}), to be had from {source.origin}"
    if source.url is None:
        raise SettingError(DATA_DIR, os.environ.get(DATA_DIR), wanted)
    try:
        with urlopen(source.url, timeout=_TIMEOUT_SECONDS) as response:
            content = response.read()
    except OSError as error:
        reason = f"; downloading {source.url} failed ({error})"
        raise SettingError(DATA_DIR, os.environ.get(DATA_DIR), wanted + reason) from error
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise SettingError(f"SHA-256 of {source.url}", found, f"{source.sha256}, or {DATA_DIR} {wanted}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(content)


def read(path: Path, source: Source) -> np.ndarray:
    """Parse a text table, comma or white-space separated, with or without a header line; a ``SettingError`` where it
    has another shape, or a cell that is neither number nor label."""
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    cells = [line.replace(",", " ").replace('"', "").split() for line in lines if line.strip()]
    if cells and _number(cells[0][0], source) is None:
        cells = cells[1:]
    widths = sorted({len(row) for row in cells})
    if len(cells) != source.rows or widths != [len(source.columns)]:
        shape = f"{len(cells)} x {' or '.join(map(str, widths)) or 0}"
        raise SettingError(f"shape of {path}", shape, f"{source.rows} x {len(source.columns)}: {source.layout}")
    table = [[_number(cell, source) for cell in row] for row in cells]
    for number, row in enumerate(table, 1):
        if None in row:
            raise SettingError(f"row {number} of {path}", " ".join(cells[number - 1]), f"numbers: {source.layout}")
    return np.array(table, dtype=float)


def checked_sizes(sizes: Sequence[int], least: int, most: int) -> tuple[int, ...]:
    """Increasing whole numbers from ``least`` to ``most``; a ``SettingError`` where they are not."""
    wanted = f"increasing whole numbers from {least} to {most}"
    return several("sizes", sizes, partial(whole, least=least, most=most), wanted, order=lt)


def _number(cell: str, source: Source) -> float | None:
    try:
        value = float(source.labels.get(cell, cell))
    except ValueError:
        return None
    return value if np.isfinite(value) else None

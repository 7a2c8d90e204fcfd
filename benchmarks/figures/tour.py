"""The pictures of ``docs/tour.md``, drawn by the page's own blocks."""

import ast
import json
import re
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from benchmarks.dependencies import digest

PAGE = Path(__file__).parents[2] / "docs" / "tour.md"
LARGEST = 40_000
"""Bytes of a picture, at most."""


def blocks() -> list[str]:
    """The page's blocks of Python."""
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def code() -> str:
    """The hash of what the pictures depend on: the blocks, and the strategies that decide in them."""
    strategies = [("mfbo_torch.strategies", name) for name in ("MFGPUCB", "MFEHVI", "FreezeThaw")]
    return digest(strategies, extra=[ast.parse("\n".join(blocks()))])


def fresh(drawn_key: str) -> bool:
    """Whether all pictures were drawn by the blocks and the strategies of now."""
    for path in PAGE.with_suffix("").glob("*.png"):
        with Image.open(path) as picture:
            if json.loads(picture.text.get(drawn_key, "{}")).get("hash") != code():  # type: ignore[attr-defined]
                return False
    return True


def draw(drawn_key: str) -> None:
    """Run the blocks and save what they draw, in few colours, in the folder of the page's name; a picture's text has
    the hash of :func:`code` by a key."""
    text = PngInfo()
    text.add_text(drawn_key, json.dumps({"hash": code()}))
    with TemporaryDirectory() as place, chdir(place), matplotlib.rc_context({"backend": "agg", "savefig.dpi": 110}):
        exec(compile("\n".join(blocks()), PAGE.name, "exec"), {"__name__": "__page__"})
        for drawn in Path(place).glob("*.png"):
            with Image.open(drawn) as picture:
                few = picture.convert("RGB").quantize(200)
            few.save(PAGE.with_suffix("") / drawn.name, optimize=True, pnginfo=text)

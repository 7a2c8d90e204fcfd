r"""A cascade of boosted Haar features on windows of fixed size, its stage sums apart from its thresholds."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from scipy import sparse

_LEAST_DEVIATION = 10.0
"""Standard deviation of grey levels (0 to 255) below which a window has no face, as in OpenCV."""
_AT_ONCE = 2_000
"""Number of windows whose sums are computed at once."""


class Cascade:
    """The stages of a cascade of stumps [Viola2001cascade]_, read from a file as ``opencv_traincascade`` writes it.

    A weak classifier compares a difference of grey sums over rectangles, divided by the number of pixels inside a
    border of one and by their standard deviation, with its own cut, and adds one of two votes to the sum of its stage.
    A window of height and width ``size`` passes where the sum of every stage reaches its threshold (in the file
    ``thresholds``).
    """

    def __init__(self, path: str | Path) -> None:
        root = ElementTree.parse(path).getroot().find("cascade")
        if root is None:
            raise ValueError(f"{path} is no cascade in OpenCV's layout")
        self.size = (int(_text(root, "height")), int(_text(root, "width")))
        stages = [stage for stage in _child(root, "stages") if len(stage)]
        self.thresholds = np.array([float(_text(stage, "stageThreshold")) for stage in stages])
        weak = [list(_child(stage, "weakClassifiers")) for stage in stages]
        self._first = np.cumsum([0, *(len(group) for group in weak)])[:-1]
        nodes = np.array([_numbers(w, "internalNodes") for group in weak for w in group])
        self._cuts = nodes[:, 3:4]
        self._votes = np.array([_numbers(w, "leafValues") for group in weak for w in group])
        self._features = _rectangles(_child(root, "features"), self.size)[nodes[:, 2].astype(int)]

    def sums(self, windows: np.ndarray) -> np.ndarray:
        """``n x stages`` sums of ``n x height x width`` grey windows (0 to 255); minus infinity where one is flat."""
        parts = [self._some(windows[i : i + _AT_ONCE].astype(float)) for i in range(0, len(windows), _AT_ONCE)]
        return np.concatenate(parts) if parts else np.empty((0, len(self.thresholds)))

    def _some(self, windows: np.ndarray) -> np.ndarray:
        integral = np.zeros((len(windows), self.size[0] + 1, self.size[1] + 1))
        integral[:, 1:, 1:] = windows.cumsum(1).cumsum(2)
        inner = windows[:, 1:-1, 1:-1]
        pixels = inner[0].size
        deviation = inner.std(axis=(1, 2))
        flat = deviation <= _LEAST_DEVIATION
        found = (self._features @ integral.reshape(len(windows), -1).T) / (pixels * np.where(flat, 1.0, deviation))
        votes = np.where(found < self._cuts, self._votes[:, :1], self._votes[:, 1:])
        sums = np.add.reduceat(votes, self._first, axis=0).T
        sums[flat] = -np.inf
        return sums


def _rectangles(features: ElementTree.Element, size: tuple[int, int]) -> sparse.csr_array:
    """Weighted rectangle sums as a matrix, a feature a row, over the entries of the integral picture."""
    width = size[1] + 1
    rows, columns, weights = [], [], []
    for number, feature in enumerate(features):
        for rectangle in _child(feature, "rects"):
            x, y, w, h, weight = (float(word.rstrip(".")) for word in (rectangle.text or "").split())
            corners = ((y, x, 1), (y + h, x + w, 1), (y, x + w, -1), (y + h, x, -1))
            rows += [number] * 4
            columns += [int(row) * width + int(column) for row, column, _ in corners]
            weights += [sign * weight for *_, sign in corners]
    shape = (len(features), (size[0] + 1) * width)
    return sparse.csr_array((weights, (rows, columns)), shape=shape)


def _child(element: ElementTree.Element, name: str) -> ElementTree.Element:
    found = element.find(name)
    if found is None:
        raise ValueError(f"a cascade without <{name}>")
    return found


def _text(element: ElementTree.Element, name: str) -> str:
    return (_child(element, name).text or "").strip()


def _numbers(element: ElementTree.Element, name: str) -> list[float]:
    return [float(word) for word in _text(element, name).split()]

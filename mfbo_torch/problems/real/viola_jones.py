"""Tuning the stage thresholds of a face detector, on all the pictures or on a tenth of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from mfbo_torch.problems.base import Problem
from mfbo_torch.problems.real.cascade import Cascade
from mfbo_torch.problems.real.data import checked_sizes
from mfbo_torch.space import Parameter, Space
from mfbo_torch.utils.errors import SettingError
from mfbo_torch.utils.validation import whole

SIDE = 25
"""Height and width of a picture, in pixels."""
STRIDE = 2
"""Pixels between two windows, as OpenCV moves on a picture of its own size."""
REACH = 0.05
"""Largest relative distance of a threshold from OpenCV's."""
PHOTOGRAPHS = (("coffee", "brick", "page", "moon"), ("chelsea", "gravel", "rocket", "text"))
"""Photographs of scikit-image without human faces: those of the search, those held out."""


class ViolaJones(Problem):
    """Share of pictures that a face detector classifies correctly, to be maximised.

    The 22 parameters are the stage thresholds of OpenCV's frontal-face cascade, each within a twentieth of OpenCV's
    own, which are ``thresholds``. A picture of 25 x 25 pixels is called a face where one of its windows passes every
    stage: nine of 20 x 20 at every second place, and the whole picture shrunk to that size. The stage sums of the
    windows do not depend on the thresholds, are computed once (:class:`~mfbo_torch.problems.real.cascade.Cascade`), and
    an evaluation compares them.

    Half of the pictures are faces: those of scikit-image's ``lfw_subset`` as they are, and versions of them, mirrored,
    shifted by up to two pixels, turned by up to ten degrees, a tenth larger or smaller, with other contrast, brightness
    and some noise. The others are its pictures without faces and their versions, parts of faces (squares of 8 to 12
    pixels, enlarged) and squares of photographs. Originals are divided first: no version of a picture that the search
    sees is held out. The pictures are made, not photographed, so that values are not those of the published experiment,
    which had 3,000 of the V&J data base.

    A fidelity is a number of pictures, nested in one random order. Deterministic. Nominal costs are proportional to the
    number of pictures. The problem is [Kandasamy2016mfgpucb]'s. Needs ``pip install 'mfbo-torch[faces]'``.

    Args:
        sizes: Increasing numbers of pictures, from 10 on, the target last.
        held_out: How many pictures :meth:`held_out` looks at.
        seed: Seed of the division and of the versions.
        measured: Whether a query costs the seconds it takes.
    """

    worst = 0.0

    def __init__(
        self, sizes: Sequence[int] = (300, 3000), held_out: int = 3000, seed: int = 0, measured: bool = False
    ) -> None:
        self.sizes = checked_sizes(sizes, 10, 1_000_000)
        cascade = Cascade(cascade_file())
        self.thresholds = tuple(cascade.thresholds.tolist())
        halves = pictures((self.sizes[-1], whole("held_out", held_out, 10)), whole("seed", seed, 0))
        seen, unseen = ((stage_sums(cascade, made), faces) for made, faces in halves)
        (self._sums, self._faces), (self._unseen, self._unseen_faces) = seen, unseen
        bounds = ((f"stage{i}", t * (1 - REACH), t * (1 + REACH)) for i, t in enumerate(self.thresholds, 1))
        costs = tuple(n / self.sizes[0] for n in self.sizes)
        self.space = Space(tuple(Parameter(*bound) for bound in bounds), costs, measured)

    def evaluate(self, x: Sequence[float], fidelity: int) -> float:
        """The share, in ``[0, 1]``, of the pictures of ``fidelity``."""
        thresholds, level = self.checked(x, fidelity)
        n = self.sizes[level]
        return accuracy(self._sums[:n], self._faces[:n], thresholds)

    def held_out(self, x: Sequence[float]) -> float:
        """The share of the pictures that no fidelity has."""
        thresholds, _ = self.checked(x, 0)
        return accuracy(self._unseen, self._unseen_faces, thresholds)


def accuracy(sums: np.ndarray, faces: np.ndarray, thresholds: Sequence[float]) -> float:
    """The share of ``n`` pictures that ``n x windows x stages`` sums classify correctly."""
    passed = np.all(sums >= np.asarray(thresholds), axis=2)
    return float(np.mean(np.any(passed, axis=1) == faces))


def cascade_file() -> Path:
    """OpenCV's file of the frontal-face cascade with 22 stages."""
    return Path(_extra("cv2").data.haarcascades) / "haarcascade_frontalface_alt.xml"


def stage_sums(cascade: Cascade, made: np.ndarray) -> np.ndarray:
    """``n x windows x stages`` sums of ``n`` pictures: the windows at every second place and the whole, shrunk."""
    height, width = cascade.size
    shrunk = _extra("cv2").resize
    windows = [
        made[:, i : i + height, j : j + width]
        for i in range(0, made.shape[1] - height + 1, STRIDE)
        for j in range(0, made.shape[2] - width + 1, STRIDE)
    ]
    windows.append(np.array([shrunk(picture, (width, height)) for picture in made]))
    return np.stack([cascade.sums(window) for window in windows], axis=1)


def pictures(counts: Sequence[int], seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two sets of ``n x 25 x 25`` grey pictures and whether each is a face, from originals that are divided first."""
    data = _extra("skimage.data")
    rng = np.random.default_rng(seed)
    originals = np.rint(255 * data.lfw_subset()).astype(np.uint8)
    faces, others = (group[rng.permutation(len(group))] for group in np.split(originals, 2))
    sets = []
    for half, (n, photographs) in enumerate(zip(counts, PHOTOGRAPHS, strict=True)):
        seen, unlike = faces[half::2], others[half::2]
        photos = [_grey(getattr(data, name)()) for name in photographs]
        made = [seen[i] if i < len(seen) else _version(seen[i % len(seen)], rng) for i in range(n // 2)]
        for i in range(n - n // 2):
            if i < len(unlike):
                made.append(unlike[i])
            elif i % 3 == 0:
                made.append(_version(unlike[i % len(unlike)], rng))
            elif i % 3 == 1:
                made.append(_square(seen[i % len(seen)], int(rng.integers(8, 13)), rng))
            else:
                photo = photos[i // 3 % len(photos)]
                made.append(_square(photo, int(rng.integers(SIDE, min(photo.shape) // 2)), rng))
        order = rng.permutation(n)
        sets.append((np.array(made)[order], (np.arange(n) < n // 2)[order]))
    return sets


def _version(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One picture mirrored or not, moved, turned, scaled, in another light and noisy."""
    cv2 = _extra("cv2")
    turned = picture[:, ::-1] if rng.random() < 0.5 else picture
    middle = (SIDE - 1) / 2
    warp = cv2.getRotationMatrix2D((middle, middle), rng.uniform(-10, 10), rng.uniform(0.9, 1.1))
    warp[:, 2] += rng.uniform(-2, 2, 2)
    moved = cv2.warpAffine(np.ascontiguousarray(turned), warp, (SIDE, SIDE), borderMode=cv2.BORDER_REPLICATE)
    light = moved.mean() + rng.uniform(0.6, 1.2) * (moved - moved.mean()) + rng.uniform(-20, 20)
    return np.clip(np.rint(light + 4 * rng.standard_normal(moved.shape)), 0, 255).astype(np.uint8)


def _square(picture: np.ndarray, side: int, rng: np.random.Generator) -> np.ndarray:
    """A square of a picture, brought to the size of all."""
    top, left = (int(rng.integers(0, n - side + 1)) for n in picture.shape)
    cut = np.ascontiguousarray(picture[top : top + side, left : left + side])
    cv2 = _extra("cv2")
    return cv2.resize(cut, (SIDE, SIDE), interpolation=cv2.INTER_AREA if side > SIDE else cv2.INTER_LINEAR)


def _grey(picture: np.ndarray) -> np.ndarray:
    if picture.ndim == 2:
        return picture.astype(np.uint8)
    return np.rint(picture[..., :3] @ [0.299, 0.587, 0.114]).astype(np.uint8)


def _extra(name: str) -> Any:
    """A module of the extra ``faces``."""
    try:
        return import_module(name)
    except ImportError:
        wanted = f"used where {name.partition('.')[0]} is installed: pip install 'mfbo-torch[faces]'"
        raise SettingError("problem", "ViolaJones", wanted) from None

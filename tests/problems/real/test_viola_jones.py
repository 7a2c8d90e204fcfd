"""The face detector against plain loops, and against OpenCV's own where that is installed."""

import sys
from itertools import product
from xml.etree import ElementTree

import numpy as np
import pytest
from refusals import refused

from mfbo_torch.problems import ViolaJones
from mfbo_torch.problems.real.cascade import Cascade
from mfbo_torch.problems.real.viola_jones import accuracy, cascade_file, pictures, stage_sums

STAGES = [(0.5, [(0, 0.05, (-1.0, 0.75)), (1, -0.1, (0.25, -0.5))]), (-0.25, [(2, 0.0, (0.125, -0.375))])]
"""Threshold and stumps of each stage: number of the feature, its cut, its votes below and above."""
FEATURES = [
    [(0, 0, 6, 4, -1), (0, 2, 6, 2, 2)],
    [(1, 1, 3, 3, -1), (2, 1, 1, 3, 3)],
    [(0, 0, 6, 6, -1), (0, 0, 3, 3, 2), (3, 3, 3, 3, 2)],
]


@pytest.fixture
def small(tmp_path):
    """A cascade of two stages on windows of 6 x 6."""
    stages = "".join(
        f"<_><maxWeakCount>{len(stumps)}</maxWeakCount><stageThreshold>{threshold}</stageThreshold><weakClassifiers>"
        + "".join(
            f"<_><internalNodes>0 -1 {n} {cut}</internalNodes><leafValues>{low} {high}</leafValues></_>"
            for n, cut, (low, high) in stumps
        )
        + "</weakClassifiers></_>"
        for threshold, stumps in STAGES
    )
    features = "".join(
        "<_><rects>" + "".join(f"<_>{x} {y} {w} {h} {s}.</_>" for x, y, w, h, s in rectangles) + "</rects></_>"
        for rectangles in FEATURES
    )
    path = tmp_path / "cascade.xml"
    path.write_text(
        '<?xml version="1.0"?><opencv_storage><cascade><height>6</height><width>6</width>'
        f"<stages>{stages}</stages><features>{features}</features></cascade></opencv_storage>"
    )
    return Cascade(path)


def sums_by_hand(window):
    inner = window[1:5, 1:5].astype(float)
    if inner.std() <= 10:
        return [-np.inf] * len(STAGES)
    found = []
    for rectangles in FEATURES:
        total = sum(s * window[y : y + h, x : x + w].astype(float).sum() for x, y, w, h, s in rectangles)
        found.append(total / (16 * inner.std()))
    return [sum(low if found[n] < cut else high for n, cut, (low, high) in stumps) for _, stumps in STAGES]


def test_stage_sums_by_hand(small):
    windows = np.random.default_rng(0).integers(0, 256, (40, 6, 6), dtype=np.uint8)
    windows[3] = 7
    windows[4] = windows[4] // 16
    expected = [sums_by_hand(window) for window in windows]
    assert small.thresholds.tolist() == [0.5, -0.25]
    assert small.sums(windows) == pytest.approx(np.array(expected), abs=1e-12)
    assert len(set(map(tuple, expected))) > 4
    assert small.sums(windows[:0]).shape == (0, 2)


def test_accuracy_by_hand():
    sums = np.array([[[1.0, 0.0], [0.0, 2.0]], [[3.0, 3.0], [-1.0, -1.0]], [[0.5, 0.5], [0.4, 9.0]]])
    faces = np.array([False, True, True])
    assert accuracy(sums, faces, [1.0, 1.0]) == pytest.approx(2 / 3)  # the third passes in no window
    assert accuracy(sums, faces, [0.5, 0.5]) == 1.0
    assert accuracy(sums, faces, [-2.0, -2.0]) == pytest.approx(2 / 3)


def test_without_the_extra_it_says_so_and_sizes_are_checked(monkeypatch):
    refused("increasing whole numbers from 10", ViolaJones, sizes=(300, 100))
    monkeypatch.setitem(sys.modules, "cv2", None)
    refused(r"cv2 is installed: pip install 'mfbo-torch\[faces\]'", ViolaJones)


def test_other_files_are_no_cascades(tmp_path):
    path = tmp_path / "other.xml"
    path.write_text("<opencv_storage><net/></opencv_storage>")
    with pytest.raises(ValueError, match="no cascade"):
        Cascade(path)
    path.write_text("<opencv_storage><cascade><height>6</height></cascade></opencv_storage>")
    with pytest.raises(ValueError, match="without <width>"):
        Cascade(path)


@pytest.fixture(scope="module")
def problem():
    pytest.importorskip("cv2")
    pytest.importorskip("skimage")
    return ViolaJones(sizes=(60, 300), held_out=300)


@pytest.fixture(scope="module")
def windows():
    cv2 = pytest.importorskip("cv2")
    made = np.rint(255 * pytest.importorskip("skimage.data").lfw_subset()).astype(np.uint8)[::4]
    return np.array([cv2.resize(picture, (20, 20)) for picture in made])


def test_windows_pass_where_opencv_finds_a_face(windows):
    cv2 = pytest.importorskip("cv2")
    cascade, theirs = Cascade(cascade_file()), cv2.CascadeClassifier(str(cascade_file()))
    assert len(cascade.thresholds) == 22
    passed = (cascade.sums(windows) >= cascade.thresholds).all(1)
    found = [len(theirs.detectMultiScale(w, scaleFactor=2.0, minNeighbors=0)) > 0 for w in windows]
    assert passed.tolist() == found
    assert 5 < sum(found) < 25


@pytest.mark.parametrize("stages", [7, 22])
def test_stage_sums_are_those_of_opencv(windows, stages, tmp_path):
    """OpenCV tells the last stage's sum where a window passes; with thresholds that all pass, of every window."""
    cv2 = pytest.importorskip("cv2")
    root = ElementTree.parse(cascade_file()).getroot()
    listed = root.find("cascade/stages")
    for stage in list(listed)[stages:]:
        listed.remove(stage)
    root.find("cascade/stageNum").text = str(stages)
    for stage in listed:
        stage.find("stageThreshold").text = "-1e9"
    path = tmp_path / "loose.xml"
    path.write_bytes(b'<?xml version="1.0"?>\n' + ElementTree.tostring(root))
    theirs, ours = cv2.CascadeClassifier(str(path)), Cascade(cascade_file()).sums(windows)[:, stages - 1]
    for window, total in zip(windows, ours, strict=True):
        boxes, _, weights = theirs.detectMultiScale3(window, scaleFactor=2.0, minNeighbors=0, outputRejectLevels=True)
        assert (len(boxes) > 0) == np.isfinite(total)
        if len(boxes):
            assert float(np.ravel(weights)[0]) == pytest.approx(total, abs=1e-3)


def test_value_is_the_share_told_right(problem):
    made, faces = pictures((300, 300), 0)[0]
    cascade, x = Cascade(cascade_file()), [0.99 * t for t in problem.thresholds]
    sums = stage_sums(cascade, made)
    for fidelity, n in enumerate(problem.sizes):
        right = 0
        for picture, face in zip(sums[:n], faces[:n], strict=True):
            right += any(all(s >= t for s, t in zip(window, x, strict=True)) for window in picture) == face
        assert problem.evaluate(x, fidelity) == pytest.approx(right / n)


def test_windows_of_a_picture(problem):
    made = pictures((12, 12), 1)[0][0]
    cascade = Cascade(cascade_file())
    sums = stage_sums(cascade, made)
    assert sums.shape == (12, 10, 22)
    for k, (i, j) in enumerate(product((0, 2, 4), repeat=2)):
        assert np.array_equal(sums[:, k], cascade.sums(made[:, i : i + 20, j : j + 20]))


def test_looser_thresholds_find_more_faces_and_more_of_what_is_none(problem):
    values = [problem.evaluate([t * share for t in problem.thresholds], 1) for share in (1.05, 1.0, 0.98, 0.95)]
    assert values[0] < values[1] < values[2] > values[3]
    assert 0.5 < problem.held_out(problem.thresholds) < problem.held_out([0.98 * t for t in problem.thresholds])


def test_space_and_pictures(problem):
    assert (problem.space.dim, problem.space.costs) == (22, (1.0, 5.0))
    assert all(p.lower < t < p.upper for p, t in zip(problem.space.parameters, problem.thresholds, strict=True))
    (made, faces), (other, _) = pictures((300, 300), 0)
    assert (made.shape, faces.sum()) == ((300, 25, 25), 150)
    assert not {picture.tobytes() for picture in made} & {picture.tobytes() for picture in other}
    assert np.array_equal(pictures((300, 300), 0)[0][0], made)
    assert not np.array_equal(pictures((300, 300), 1)[0][0], made)

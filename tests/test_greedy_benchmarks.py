"""The benchmark of greedy selection, at sizes that take no time."""

from __future__ import annotations

import json

import pytest
import torch
from gaussian import draw, factor

from benchmarks.greedy import run
from benchmarks.greedy.paper import PaperLazy
from benchmarks.ops.cases import Case
from mfbo_torch.ops.greedy import greedy

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("kind", ["rbf", "matern52"])
def test_the_papers_algorithm_picks_the_same(kind):
    cache, X = factor(draw(20, 2), kind=kind, noise=0.05), draw(300, 2, seed=1)
    peer = PaperLazy(X)
    picks = peer.select(cache, 2.0, 7)
    assert picks == greedy(cache, X, 2.0, 7).indices.tolist()
    assert 300 <= peer.refreshes < 7 * 300
    before = peer.refreshes
    more = factor(
        torch.cat([draw(20, 2), X[picks]]), kind=kind, noise=0.05
    )  # the bounds hold where the picks were asked
    assert peer.select(more, 2.0, 7) == greedy(more, X, 2.0, 7).indices.tolist()
    assert peer.refreshes - before < 7 * 300


def test_the_whole_run(tmp_path, capsys):
    arguments = ["--rounds", "1", "--threads", str(torch.get_num_threads()), "--results", str(tmp_path)]
    small, big = Case("greedy", 7, 40, 2, q=3), Case("greedy", 9, 60, 2, q=4)
    assert run.main(arguments, small, big, (300, 2, 5, 20)) == 0
    report = json.loads((tmp_path / "greedy.json").read_text())
    assert (tmp_path / "greedy.png").stat().st_size > 1000
    assert {"torch", "botorch", "commit", "threads"} <= set(report)
    assert report["batch"]["same_picks"]
    assert set(report["batch"]["ratio"]) == {"whole", "botorch", "paper", "paper_bounded"}
    assert report["large"]["peak_bytes"] > 0
    assert report["rounds"]["t"] == [10, 15, 20]
    assert "of the variances or more" in capsys.readouterr().out

"""The scaling benchmark of indirect queries runs, at tiny sizes."""

from __future__ import annotations

import json
import sys

from benchmarks.indirect import scaling


def test_scaling(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scaling, "ACCURACY", 20)
    sizes = ["--samples", "40", "80", "--observed", "5", "10", "--queries", "30", "--repeats", "1", "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["scaling", *sizes, "--results", str(tmp_path / "found.json")])
    scaling.main()
    report = json.loads((tmp_path / "found.json").read_text())
    assert [(row["samples"], row["observed"]) for row in report["rows"]] == [(40, 10), (80, 10), (80, 5)]
    assert report["accuracy"]["prior_covariance_of_averages"] < 1e-9
    assert "exponent_in_samples" in capsys.readouterr().out

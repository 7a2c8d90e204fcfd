"""The script that tunes the SVM with four workers runs, its failures included."""

import importlib.util
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def test_two_failures_do_not_stop_it(monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("ax_svm", Path(__file__).parents[2] / "configs" / "ax_svm.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "ProcessPoolExecutor", ThreadPoolExecutor)
    monkeypatch.setattr(script.SVM, "evaluate", lambda self, x, fidelity: -(math.log10(x[0]) ** 2) - 0.1 * x[1])
    clients = []
    make = script.multi_fidelity_client
    monkeypatch.setattr(script, "multi_fidelity_client", lambda *a, **k: clients.append(make(*a, **k)) or clients[0])
    script.tune(trials=13)
    assert clients[0].summarize()["trial_status"].value_counts().to_dict() == {"COMPLETED": 11, "FAILED": 2}
    assert "'fidelity': 1}" in capsys.readouterr().out

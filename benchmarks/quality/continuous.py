"""Simple regret where the fidelity is any number of an interval, at equal capital.

    python -m benchmarks.quality.continuous [--dragonfly PYTHON]

A study (:mod:`benchmarks.study`): ``continuous.csv`` and ``continuous.md``. ``dragonfly`` is the authors' package
(``dragonfly-opt``), in an interpreter of its own that has it; without one it is left out.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.common import markdown
from benchmarks.quality.robust.peers import Ledger, Spent
from benchmarks.study import Job, Look, Row, Study, grouped
from mfbo_torch import problems, strategies
from mfbo_torch.history import History
from mfbo_torch.loop.runner import run
from mfbo_torch.metrics import simple_regret
from mfbo_torch.problems.synthetic.continuous import ContinuousProblem

PROBLEMS = ("ContinuousCurrin", "ContinuousBranin", "ContinuousHartmann3", "ContinuousHartmann6", "ContinuousBorehole")
ANY_FIDELITY, LEVELS = ("BOCA", "dragonfly"), 3
"""Methods that query any fidelity of the interval, and how many levels the others have."""
INTERPRETER = "MFBO_DRAGONFLY"
"""In this variable of the environment workers find the interpreter that has dragonfly."""


def play(job: Job, problem: ContinuousProblem, capital: float) -> History:
    """What a method has queried, some of them at a few levels of the fidelity only."""
    if job.method == "dragonfly":
        return Ledger(problem, capital).filled(_dragonfly, job.seed)
    if job.method == "BOCA":
        return run(problem, strategies.BOCA(seed=job.seed), capital, progress=False)
    maker = strategies.MFGPUCB if job.method.startswith("MFGPUCB") else strategies.ExpectedImprovement
    return run(getattr(problems, job.problem)(levels=LEVELS), maker(seed=job.seed), capital, progress=False)


def _dragonfly(ledger: Ledger, seed: int) -> None:
    space, child = ledger.space, Path(__file__).with_name("dragonfly_child.py")
    task = {"bounds": space.bounds.mT.tolist(), "costs": list(space.costs), "capital": ledger.capital, "seed": seed}
    command = [os.environ[INTERPRETER], str(child)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        sent: object = task
        try:
            while True:
                process.stdin.write(f"{json.dumps(sent)}\n".encode())
                process.stdin.flush()
                line = process.stdout.readline()
                if not line:
                    if process.wait():
                        raise RuntimeError(f"dragonfly ended with exit code {process.returncode}: run {command}")
                    raise Spent
                z, x = json.loads(line)
                level = round(min(max(z, 0.0), 1.0) * space.target)
                sent = ledger.value(dict(zip([p.name for p in space.parameters], x, strict=True)), level)
        finally:
            process.kill()


def measured(look: Look) -> Row:
    """Simple regret, and what it took."""
    problem = look.problem
    assert problem.optimum is not None
    target = problem.space.target if look.job.method in ANY_FIDELITY else LEVELS - 1
    regret = simple_regret(look.history, target, problem.optimum, problem.worst)[-1].item()
    return f"{regret:.6g}", look.spent, len(look.history), look.decision_seconds


def report(path: Path) -> None:
    """The medians as a table, each with its number of seeds."""
    rows = grouped(path)
    lines = ["# Simple regret with a continuous fidelity", ""]
    lines += [
        "Median and worst seed (number of seeds). The capital is in units of the target's cost, and includes all",
        "queries. BOCA and dragonfly query any fidelity. MFGPUCB queries the lowest one, the middle one and the",
        "target.",
    ]
    for capital in STUDY.capitals:
        body = []
        for method in STUDY.methods:
            found = [[float(row["regret"]) for row in rows.get((name, method, capital), [])] for name in PROBLEMS]
            cells = [f"{median(v):.2g}, {max(v):.2g} ({len(v)})" if v else "not measured" for v in found]
            body.append([method, *cells])
        lines += [f"## Capital {capital}", "", *markdown(["method", *PROBLEMS], body, left=1 + len(PROBLEMS)), ""]
    path.with_suffix(".md").write_text("\n".join(lines))


STUDY = Study(
    "benchmarks.quality.continuous",
    "continuous",
    {name: getattr(problems, name) for name in PROBLEMS},
    dict.fromkeys(("BOCA", "MFGPUCB, 3 levels", "LogEI, target alone", "dragonfly")),
    (10, 20),
    ("regret", "spent", "queries", "decision_seconds"),
    measured,
    minutes=4,
    play=play,
    report=report,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, write the table; the exit status."""
    given = STUDY.parser(__doc__, dragonfly=os.environ.get(INTERPRETER, "")).parse_args(arguments)
    os.environ[INTERPRETER] = given.dragonfly
    given.methods = [m for m in given.methods if m != "dragonfly" or given.dragonfly]
    return STUDY.finish(given)


if __name__ == "__main__":
    raise SystemExit(main())

"""Dragonfly's BOCA in an interpreter of its own, as its package needs another NumPy: asks by lines of JSON.

The first line that comes in is ``{"bounds": [[lower, upper], ...], "costs": [...], "capital": c, "seed": s}``; each
line that goes out is a query ``[z, [x, ...]]`` with ``z`` in ``[0, 1]``, and its value comes in.
"""

import json
import os
import sys
import warnings


def main() -> None:
    """Optimise what the other end of the pipe evaluates."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the package prints is not for the pipe
    warnings.simplefilter("ignore")
    import numpy as np
    from dragonfly import maximise_multifidelity_function

    given = json.loads(sys.stdin.readline())
    np.random.seed(given["seed"])
    z, costs = np.linspace(0, 1, len(given["costs"])), np.array(given["costs"])

    def cost(fidelity):
        return float(np.interp(fidelity[0], z, costs))

    def value(fidelity, x):
        print(json.dumps([float(fidelity[0]), [float(part) for part in x]]), file=answers, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise SystemExit
        return float(line)

    maximise_multifidelity_function(
        value, [[0.0, 1.0]], given["bounds"], np.array([1.0]), cost, given["capital"], capital_type="return_value"
    )


if __name__ == "__main__":
    main()

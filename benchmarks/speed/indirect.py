"""How the deconditional GP and conditional max-value entropy grow with the samples in D1 and the queries.

    python -m benchmarks.speed.indirect [--threads 2] [--queries 10000] [--repeats 5]

Each figure is the least of the repeats, in seconds of the wall clock and of all processors. ``setup`` is everything up
to the first posterior, the choice of the kernel on queries apart (``leave_one_out``); ``observation`` is one more
average, with the first posteriors of ``f`` and ``g`` at one point; ``acquisition`` is the truncated form with 16
samples at all queries, ``acquisition_noisy`` the other form; ``draws`` are 16 joint draws of ``f`` over as many inputs.
Exponents are slopes of the logarithms. Writes ``indirect-scaling.json``.
"""

import json
import resource
import time
from collections.abc import Callable, Sequence

import torch

from benchmarks.common import parser, quiet, write_json
from benchmarks.timing import exponent
from mfbo_torch.acquisition import ConditionalMaxValueEntropy
from mfbo_torch.acquisition.max_values import joint_draws
from mfbo_torch.models import DeconditionalGP, EmpiricalConditional

SAMPLES = (625, 1250, 2500, 5000)
OBSERVED = (75, 150, 300)
ACCURACY = 1000


def objective(X: torch.Tensor) -> torch.Tensor:
    return (6 * X[:, :1]).sin() * (4 * X[:, 1:]).cos()


def least(run: Callable[[], object], repeats: int) -> dict[str, float]:
    """Seconds of the quickest of the repeats."""
    times = []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - wall, time.process_time() - processor))
    return dict(zip(("wall", "processor"), map(min, zip(*times, strict=True)), strict=True))


def problem(samples: int, observed: int) -> tuple[EmpiricalConditional, DeconditionalGP]:
    """A model with the lengthscales of a fit."""
    torch.manual_seed(0)
    A = torch.rand(samples, 2, dtype=torch.double)
    conditional = EmpiricalConditional(A + 0.05 * torch.randn_like(A), A)
    queries = torch.rand(observed, 2, dtype=torch.double)
    Z = objective(queries) + 0.01 * torch.randn(observed, 1, dtype=torch.double)
    model = DeconditionalGP(queries, Z, conditional)
    model.covar_module.base_kernel.lengthscale = torch.tensor([0.17, 0.28], dtype=torch.double)
    model.likelihood.noise = 1e-4
    return conditional, model.eval()


def bytes_kept(model: DeconditionalGP) -> int:
    """What a model keeps between two acquisitions."""
    solved, solver = model._solved, model.conditional._solver
    tensors = [solved.embedding.weights, solved.features.matrix, solved.known, solved.factor.inverse, solver.factor]
    return sum(t.nbytes for t in [*tensors, *([] if solver.columns is None else [solver.columns])])


def measure(samples: int, observed: int, queries: int, repeats: int) -> dict[str, object]:
    conditional, model = problem(samples, observed)
    A = torch.rand(queries, 1, 2, dtype=torch.double)
    X = torch.rand(queries, 2, dtype=torch.double)
    row: dict[str, object] = {"samples": samples, "observed": observed}

    def setup() -> None:
        conditional._solver = None
        model._caught = model._solution = None
        model._solved  # noqa: B018

    def observation() -> None:
        grown = model.condition_on_observations(A[0], torch.zeros(1, 1, dtype=torch.double))
        grown.mean_variance(A[:1]), grown.latent_mean_variance(X[:1])

    with torch.no_grad():
        row["setup"] = least(setup, repeats)
        row["observation"] = least(observation, 4 * repeats)
        acquisition = ConditionalMaxValueEntropy(model, X[:500], 16)
        row["acquisition"] = least(lambda: acquisition(A), repeats)
        acquisition.form = "noisy"
        row["acquisition_noisy"] = least(lambda: acquisition(A), repeats)
        row["draws"] = least(lambda: joint_draws(model, X, 16), min(repeats, 2))
    row["features"] = model._solved.known.shape[-1]
    row["bytes_kept"] = bytes_kept(model)
    return row


def accuracy(samples: int, observed: int) -> dict[str, float]:
    """Errors that the quick paths make, against the dense formulas, relative to the prior variance."""
    conditional, model = problem(samples, observed)
    A, X = torch.rand(ACCURACY, 2, dtype=torch.double), torch.rand(ACCURACY, 2, dtype=torch.double)
    kernel, scale = model.covar_module, model.covar_module.outputscale.item()
    with torch.no_grad():
        features = model._solved.features(A)[1]
        gram = conditional.covar_module(conditional.queries, conditional.queries).to_dense()
        gram.diagonal().add_(conditional.regularization * samples)
        W = torch.linalg.solve(gram, conditional.covar_module(conditional.queries, A).to_dense()).mT
        exact = W @ kernel(conditional.points, conditional.points).to_dense() @ W.mT
        posterior = model.latent_posterior(X).distribution.covariance_matrix
        _, left = joint_draws(model, X, 1)
    return {
        "prior_covariance_of_averages": ((features @ features.mT - exact).abs().max() / scale).item(),
        "variance_left_to_independent_draws": left**2 / scale,
        "largest_posterior_variance": (posterior.diagonal().max() / scale).item(),
    }


def exponents(rows: list[dict], along: str) -> dict[str, float]:
    """How the processor times grow."""
    kinds, sizes = ("setup", "observation", "acquisition"), [row[along] for row in rows]
    return {kind: exponent(sizes, [row[kind]["processor"] for row in rows]) for kind in kinds}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    made = parser(__doc__, threads=2, queries=10_000, repeats=5, samples=SAMPLES, observed=OBSERVED)
    options = made.parse_args(arguments)
    quiet(options.threads)
    most, largest = max(options.observed), max(options.samples)
    pairs = [(n, most) for n in options.samples] + [(largest, t) for t in options.observed if t != most]
    rows = [measure(*pair, options.queries, options.repeats) for pair in pairs]
    in_observed = sorted((row for row in rows if row["samples"] == largest), key=lambda row: row["observed"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # before the dense formulas
    report = {
        "queries": options.queries,
        "rows": rows,
        "exponent_in_samples": exponents([row for row in rows if row["observed"] == most], "samples"),
        "exponent_in_observed": exponents(in_observed, "observed"),
        "leave_one_out": least(lambda: problem(largest, 2), 1),
        "accuracy": accuracy(min(largest, 2500), most),
        "peak_mebibytes": peak,
    }
    print(json.dumps(report, indent=2))
    write_json(options.results / "indirect-scaling.json", report)


if __name__ == "__main__":
    main()

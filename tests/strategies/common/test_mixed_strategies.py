"""Choices and conditions: the kernel, the search, and every strategy, which takes them or says that it does not."""

import itertools

import pytest
import torch
from botorch.acquisition import AcquisitionFunction, UpperConfidenceBound
from botorch.models import SingleTaskGP
from botorch.models.kernels.categorical import CategoricalKernel
from gpytorch.kernels import MaternKernel, RBFKernel
from refusals import refused
from strategy_table import PLAIN_ROWS, each, loop

from mfbo_torch import MFGPUCB, CachedGP, Prior
from mfbo_torch.acquisition.optimize_mixed import alternated
from mfbo_torch.history import History, Query
from mfbo_torch.models.gp.shared_lengthscales import ard_kernel
from mfbo_torch.ops.kernels import describe
from mfbo_torch.space import Parameter, Space
from mfbo_torch.strategies import GPUCB, ExpectedImprovement
from mfbo_torch.strategies.common.initial_design import allowed, sobol

SPACE = Space(
    (
        Parameter("kind", choices=["p", "q", "r"]),
        Parameter("x", 0.0, 1.0),
        Parameter("depth", choices=[1, 2, 4, 8], ordered=True),
        Parameter("bias", choices=[True, False]),
        Parameter("y", -1.0, 1.0, when={"kind": "q", "bias": True}),
    ),
    (1.0, 4.0),
)


def value(query: Query) -> float:
    named = SPACE.named(query.x)
    peak = {"p": 0.2, "q": 0.7, "r": 0.5}[named["kind"]]
    found = -((named["x"] - peak) ** 2) + 0.2 * (named["kind"] == "q") - 0.05 * abs(named["depth"] - 4)
    return found - 0.1 * abs(named.get("y", 0.6) - 0.5) - 0.02 * (1 - query.fidelity) * named["x"]


def designs(n: int, seed: int = 0) -> torch.Tensor:
    return SPACE.designs(torch.rand(n, SPACE.dim, generator=torch.Generator().manual_seed(seed), dtype=torch.double))


def test_the_kernel_of_a_choice_is_that_of_the_hamming_distance():
    kernel = ard_kernel(SPACE.unit_dim, SPACE.groups).double()
    own = torch.tensor([0.7, 0.3, 1.1, 0.9, 0.4], dtype=torch.double)
    kernel.initialize(raw_lengthscale=kernel.raw_lengthscale_constraint.inverse_transform(own.view(1, -1)))
    U = designs(12)
    labels = U[:, :3].argmax(-1, keepdim=True).double()
    hamming = CategoricalKernel().double()
    hamming.lengthscale = own[0].square()
    rest = RBFKernel(ard_num_dims=4).double()
    rest.lengthscale = own[1:]
    assert torch.allclose(kernel(U).to_dense(), hamming(labels).to_dense() * rest(U[:, 3:]).to_dense(), rtol=1e-10)
    assert describe(kernel, 7)[1].tolist() == pytest.approx([0.7, 0.7, 0.7, 0.3, 1.1, 0.9, 0.4])
    prior = kernel.lengthscale_prior  # counts each lengthscale once
    (_, module, _, closure, _) = next(iter(kernel.named_priors()))
    assert prior.log_prob(closure(module)).shape == (1, 5)


def test_the_rougher_kernel_shares_the_lengthscales_of_a_choice():
    kernel = ard_kernel(SPACE.unit_dim, SPACE.groups, smooth=False).double()
    own = torch.tensor([0.7, 0.3, 1.1, 0.9, 0.4], dtype=torch.double)
    kernel.initialize(raw_lengthscale=kernel.raw_lengthscale_constraint.inverse_transform(own.view(1, -1)))
    plain = MaternKernel(2.5, ard_num_dims=7).double()
    plain.lengthscale = own[[0, 0, 0, 1, 2, 3, 4]]
    U = designs(12)
    assert torch.allclose(kernel(U).to_dense(), plain(U).to_dense(), rtol=1e-10)
    assert describe(kernel, 7)[0] == "matern52"


class Opaque(AcquisitionFunction):
    """An acquisition, or a function of queries, without a form of its own on arrays."""

    def __init__(self, inner) -> None:
        super().__init__(getattr(inner, "model", None))
        self.inner = inner

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.inner(X)


@pytest.mark.parametrize("wrap", [lambda a: a, Opaque], ids=["fused", "graph"])
def test_the_search_finds_what_all_choices_and_a_grid_find(wrap):
    U = designs(25)
    Y = torch.tensor([value(Query(tuple(x), 1)) for x in SPACE.from_unit(U).tolist()]).double()
    model = SingleTaskGP(U, Y.unsqueeze(-1), covar_module=ard_kernel(7, SPACE.groups), outcome_transform=None).eval()
    acquisition = wrap(UpperConfidenceBound(CachedGP(model), 0.5))
    line, choices = torch.linspace(0, 1, 41), itertools.product(range(3), range(4), range(2))
    rows = [[k, x, d, b, 2 * y - 1] for k, d, b in choices for x in line.tolist() for y in line[::4].tolist()]
    with torch.no_grad():
        best = acquisition(SPACE.to_unit(torch.tensor(rows, dtype=torch.double)).unsqueeze(-2)).max().item()
    point, found = alternated(acquisition, designs(32, 5), SPACE, 4)
    assert found >= best - 1e-6
    assert torch.equal(SPACE.snap(point), point)
    assert found == pytest.approx(acquisition(point.unsqueeze(0)).item())


@pytest.mark.parametrize("row", each(PLAIN_ROWS))
def test_every_strategy_takes_them_or_says_that_it_does_not(row):
    strategy = row.make(0).bind(SPACE, row.capital)
    if not strategy.takes_choices:
        refused(rf"parameters = \['kind', .*{type(strategy).__name__} takes no choices", strategy.ask, History())
        return
    history = loop(strategy, value, min(row.steps, 6))
    U = strategy.unit_points(history.records)[:, :-1]
    assert torch.equal(SPACE.snap(U), U)
    for record in history:
        x = record.query.x
        assert SPACE.contains(x)
        assert SPACE.point(SPACE.named(x)) == x


@pytest.mark.slow
@pytest.mark.parametrize("make", [MFGPUCB, ExpectedImprovement], ids=["MFGPUCB", "EI"])
def test_the_best_choices_are_found(make):
    history = loop(make(space=SPACE, capital=100.0), value, 26)
    best = SPACE.named(max(history.done, key=lambda r: (r.query.fidelity, r.value)).query.x)
    assert (best["kind"], best["depth"]) == ("q", 4)
    assert best["x"] == pytest.approx(0.7, abs=0.1)


def test_constraints_beside_choices():
    numbers = (Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0))
    space = Space((*SPACE.parameters[:1], *numbers), (1.0,), constraints=("a + b <= 0.5",))
    history = loop(GPUCB(space=space, initial=4), lambda query: query.x[1] + 2 * query.x[2], 6)
    assert all(record.query.x[1] + record.query.x[2] <= 0.5 + 1e-8 for record in history)
    weights = torch.tensor([0.0, 0.0, 0.5, 1.0, 2.0], dtype=torch.double)
    raw = allowed(lambda n: sobol(3, n, 0), 16, space)
    point, found = alternated(Opaque(lambda X: X[..., 0, :] @ weights), raw, space, 4, space.inequalities)
    assert found == pytest.approx(1.5, abs=1e-3)
    assert point[0].tolist() == pytest.approx([0, 0, 1, 0, 0.5], abs=1e-3)


def test_a_known_prior_has_a_lengthscale_a_parameter():
    strategy = GPUCB(space=SPACE, prior=Prior("rbf", lengthscale=[0.5, 0.2, 0.4, 0.6, 0.3], noise=1e-4))
    model = strategy.gp.model(*strategy.observed(strategy.snapshot(loop(strategy, value, 4))))
    scales = describe(model.model.covar_module, SPACE.unit_dim)[1].tolist()
    assert scales == pytest.approx([0.5, 0.5, 0.5, 0.2, 0.4, 0.6, 0.3])

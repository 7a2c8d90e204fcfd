"""What queries average over, beside plain NumPy and quasi-Monte-Carlo."""

import pickle

import averages
import numpy as np
import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, BotorchWarning, InputDataError, UnsupportedError
from gaussian import draw
from gpytorch import kernels
from gpytorch.means import ConstantMean, LinearMean, Mean
from refusals import refused
from sklearn.linear_model import LogisticRegression
from tolerances import TOLERANCES

from mfbo_torch.models import (
    DeconditionalGP,
    EmpiricalConditional,
    GaussianConditional,
    PolicyConditional,
    UniformConditional,
)
from mfbo_torch.models.indirect.conditionals import closed_forms, leave_one_out
from mfbo_torch.ops.kernels import correlation

KINDS = ("rbf", "matern12", "matern32", "matern52")
WINDOWS = {"gaussian": GaussianConditional, "uniform": UniformConditional}


def samples(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs that follow their queries."""
    A = draw(n, 2, seed=seed)
    noise = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.double)
    return A.square() + 0.1 * noise, A


def ell(lengthscale: float = 0.4) -> kernels.RBFKernel:
    kernel = kernels.RBFKernel(ard_num_dims=2).double()
    kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.double)
    return kernel


def ell_gram(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return averages.gram(A, B, lengthscale=np.array([0.4, 0.4])) / averages.OUTPUTSCALE


class Bump(Mean):
    """A mean that is no polynomial."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (-4 * x.square().sum(-1)).exp()


def location(A: torch.Tensor) -> torch.Tensor:
    return torch.cos(torch.pi * A[..., :2] / 2)


def width(A: torch.Tensor) -> torch.Tensor:
    return 0.02 + 0.3 * A[..., 2:]


@pytest.mark.parametrize("n", [40, 1500])
def test_weights_are_those_of_a_dense_solve(n):
    X, A = samples(n)
    conditional = EmpiricalConditional(X, A, covar_module=ell(), regularization=0.02)
    queries = draw(6, 2, seed=3)
    expected = averages.empirical(X.numpy(), A.numpy(), ell_gram, 0.02)(queries.numpy())
    assert conditional.weights(queries).numpy() == pytest.approx(expected.W, abs=1e-10)
    assert (conditional._solver.columns is None) == (n <= 1000)  # many samples: from few columns
    embedded = expected.covariance(expected)
    assert conditional.covariance(averages.kernel(), queries).detach().numpy() == pytest.approx(embedded, abs=1e-9)
    X_new = draw(5, 2, seed=4)
    cross = conditional.cross(averages.kernel(), X_new, queries).detach().numpy()
    assert cross == pytest.approx(expected.cross(X_new.numpy()), abs=1e-9)
    mean = conditional.mean(averages.linear_mean(), queries).detach().numpy()
    assert mean == pytest.approx(expected.mean(), abs=1e-9)


def test_a_small_regularisation_takes_the_dense_factor():
    X, A = samples(1100)
    conditional = EmpiricalConditional(X, A, covar_module=ell(0.1), regularization=1e-9)
    queries = draw(3, 2, seed=3)
    weights = conditional.weights(queries)
    assert conditional._solver.columns is None
    gram = ell(0.1)(A, A).to_dense() + 1100e-9 * torch.eye(1100, dtype=torch.double)
    assert torch.allclose(gram @ weights.mT, ell(0.1)(A, queries).to_dense(), atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [60, 900])
def test_features_are_the_covariances(kind, n):
    X, A = samples(n)
    conditional = EmpiricalConditional(X, A, covar_module=ell(), regularization=0.02)
    queries = draw(7, 2, seed=3)
    mean, features = conditional.features(averages.kernel(kind), averages.linear_mean())(queries)
    with torch.no_grad():
        expected = conditional.covariance(averages.kernel(kind), queries)
    assert torch.allclose(features @ features.mT, expected, rtol=0, atol=1e-9)
    assert torch.allclose(mean, conditional.mean(averages.linear_mean(), queries), rtol=0, atol=1e-9)
    if kind == "rbf":
        assert features.shape[-1] < 300


def test_features_in_parts_are_the_same(monkeypatch):
    X, A = samples(50)
    conditional = EmpiricalConditional(X, A, covar_module=ell(), regularization=0.02)
    features = conditional.features(averages.kernel(), averages.linear_mean())
    queries = draw(2, 7, 2, seed=3)
    whole = features(queries)
    monkeypatch.setattr("mfbo_torch.models.indirect.conditionals.weighted.CHUNK_BYTES", 3 * 8 * 50)
    torch.testing.assert_close(features(queries), whole, rtol=0, atol=1e-14)


def test_gradient_of_many_samples_is_that_of_all(monkeypatch):
    """The covariances of the queries in the kernel's hyper-parameters, from few columns and from all."""
    X, A = samples(600)
    conditional = EmpiricalConditional(X, A, covar_module=ell(), regularization=0.02)
    embedding, found = conditional.embed(draw(5, 2, seed=3)), []
    for many in (500, 10**6):
        monkeypatch.setattr("mfbo_torch.models.indirect.conditionals.weighted.DENSE_POINTS", many)
        monkeypatch.setattr("mfbo_torch.ops.kernels.GRAPH_BYTES", 600 * 8 * 100)
        kernel = averages.kernel()
        value = embedding.covariance(kernel, embedding)
        gradient = torch.autograd.grad((value * draw(5, 5, seed=5)).sum(), list(kernel.parameters()))
        found.append([value.detach(), *gradient])
    torch.testing.assert_close(*found, rtol=1e-6, atol=1e-8)


def test_rough_kernels_use_all_samples():
    X, A = samples(600)
    conditional = EmpiricalConditional(X, A, covar_module=ell(), regularization=0.02)
    queries, kernel = draw(4, 2, seed=3), averages.kernel("matern12")
    with torch.no_grad():
        expected = conditional.covariance(kernel, queries)
    assert torch.allclose(conditional.covariance(kernel, queries), expected, rtol=0, atol=1e-12)


def test_leave_one_out_is_leaving_one_out():
    X, A = samples(12)
    gram, target = (part.numpy() for part in (ell()(A, A).to_dense().detach(), leave_one_out.target_gram(X)))
    errors = []
    for j in range(12):
        rest = [i for i in range(12) if i != j]
        w = np.linalg.solve(gram[np.ix_(rest, rest)] + 0.3 * np.eye(11), gram[rest, j])
        errors.append(target[j, j] - 2 * w @ target[rest, j] + w @ target[np.ix_(rest, rest)] @ w)
    found = leave_one_out.loss(torch.as_tensor(gram), torch.as_tensor(target), 0.3)
    assert found.item() == pytest.approx(np.mean(errors), rel=1e-10)


def test_chosen_hyperparameters_have_the_least_error():
    X, A = samples(80)
    conditional = EmpiricalConditional(X, A)
    target = leave_one_out.target_gram(X)

    def error(scale: float, ridge: float) -> float:
        kernel = kernels.RBFKernel(ard_num_dims=2).double()
        kernel.lengthscale = conditional.covar_module.lengthscale * scale
        with torch.no_grad():
            return leave_one_out.loss(kernel(A, A).to_dense(), target, ridge).item()

    chosen = conditional.regularization.item() * 80
    best = error(1.0, chosen)
    for scale, ridge in [(0.8, chosen), (1.25, chosen), (1.0, chosen / 2), (1.0, chosen * 2)]:
        assert best <= error(scale, ridge)
    assert best < min([error(s, r) for s in (0.1, 0.3, 3.0) for r in (1e-3, 0.1, 10.0)])


def test_what_is_given_stays():
    X, A = samples(40)
    kernel = ell(0.7)
    conditional = EmpiricalConditional(X, A, covar_module=kernel)
    assert conditional.covar_module.lengthscale.tolist() == kernel.lengthscale.tolist()
    assert not any(p.requires_grad for p in conditional.parameters())
    assert all(p.requires_grad for p in kernel.parameters())
    assert conditional.regularization > 0
    given = EmpiricalConditional(X, A, regularization=0.05)
    assert given.regularization.item() == 0.05
    assert given.covar_module.lengthscale.tolist() != kernels.RBFKernel().lengthscale.tolist()


def test_constant_queries_and_inputs_and_any_kernel_on_queries():
    rational = EmpiricalConditional(*samples(30), covar_module=kernels.ScaleKernel(kernels.RQKernel()).double())
    assert rational.weights(draw(3, 2)).shape == (3, 30)
    conditional = EmpiricalConditional(torch.ones(5, 1).double(), torch.zeros(5, 2).double())
    assert conditional.weights(torch.zeros(1, 2).double()).isfinite().all()
    assert EmpiricalConditional(torch.ones(1, 1), torch.zeros(1, 2)).regularization > 0


def test_far_queries_are_warned_about():
    X, A = samples(50)
    conditional = EmpiricalConditional(X, A, covar_module=ell(0.1), regularization=0.01)
    far = torch.tensor([[0.5, 0.5], [7.0, 7.0]], dtype=torch.double)
    with pytest.warns(BotorchWarning, match=r"query \[7.0, 7.0\] is far outside D1: its effective sample size is 0"):
        conditional.weights(far)
    sizes = conditional.effective_sample_size(far)
    assert sizes[0] > 1
    assert sizes[1] < 1e-10
    near = averages.gram(far[:1].numpy(), A.numpy(), lengthscale=np.full(2, 0.1)).sum() / averages.OUTPUTSCALE
    assert sizes[0].item() == pytest.approx(near)


@pytest.mark.parametrize("shape", WINDOWS)
def test_closed_forms_are_the_quadrature(shape):
    widths = np.array([0.11, 0.07])
    conditional = WINDOWS[shape](widths, location)
    A, X = draw(3, 2), draw(3, 2, seed=1)
    prior = averages.embed([averages.window(h, widths, shape) for h in location(A).numpy()])
    kernel = averages.kernel()
    assert conditional.covariance(kernel, A).detach().numpy() == pytest.approx(prior.covariance(prior), abs=1e-11)
    assert conditional.cross(kernel, X, A).detach().numpy() == pytest.approx(prior.cross(X.numpy()), abs=1e-11)
    assert conditional.mean(averages.linear_mean(), A).detach().numpy() == pytest.approx(prior.mean(), abs=1e-11)
    diagonal = np.diag(prior.covariance(prior))
    assert conditional.variance(kernel, A).detach().numpy() == pytest.approx(diagonal, abs=1e-11)


@pytest.mark.parametrize("shape", WINDOWS)
def test_closed_forms_from_narrow_to_wide(shape):
    """Widths from a thousandth of a lengthscale to five, each with each."""
    widths = 0.3 * np.array([1e-3, 0.1, 0.49, 0.51, 1.0, 5.0])
    centres = np.array([0.0, 0.1, 0.3, 0.2, 0.5, 1.0])
    if shape == "gaussian":
        t = np.linspace(-9, 9, 601)
        weights = np.exp(-0.5 * t**2)
    else:
        t, weights = np.polynomial.legendre.leggauss(120)
    rows = [((h + w * t)[:, None], weights / weights.sum()) for h, w in zip(centres, widths, strict=True)]
    points, weights = np.concatenate([x for x, _ in rows]), averages.embed(rows).W
    expected = weights @ averages.gram(points, points, lengthscale=np.array([0.3])) @ weights.T
    conditional = WINDOWS[shape](lambda A: A[..., 1:], lambda A: A[..., :1])
    queries = torch.as_tensor(np.stack([centres, widths], -1))
    found = conditional.covariance(averages.kernel(lengthscale=np.array([0.3])), queries)
    assert found.detach().numpy() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("shape", WINDOWS)
def test_the_width_may_be_part_of_the_query(shape):
    conditional = WINDOWS[shape](width, location)
    A = draw(5, 3) * torch.tensor([1.0, 1.0, 0.2])
    A[0, 2] = 0.0
    widths = width(A).expand(5, 2).numpy()
    rows = [averages.window(h, w, shape, 14) for h, w in zip(location(A).numpy(), widths, strict=True)]
    prior = averages.embed(rows)
    found = conditional.covariance(averages.kernel(), A).detach().numpy()
    assert found == pytest.approx(prior.covariance(prior), abs=1e-11)
    batched = conditional.covariance(averages.kernel(), A.view(5, 1, 3), A)
    assert batched.shape == (5, 1, 5)
    assert torch.allclose(batched.squeeze(-2), conditional.covariance(averages.kernel(), A), atol=1e-14)


@pytest.mark.parametrize("shape", WINDOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_closed_forms_agree_with_quasi_monte_carlo(shape, kind):
    A = draw(6, 3)
    kernel = averages.kernel(kind)
    with torch.no_grad():
        exact = WINDOWS[shape](width, location).covariance(kernel, A)
        sampled = WINDOWS[shape](width, location, num_samples=128)
        error = sampled.standard_error(kernel, A)
        difference = (sampled.covariance(kernel, A) - exact).abs()
    assert (difference <= 5 * error + 1e-9).all()
    assert error.max() < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_the_mixture_is_the_correlation(kind):
    r = torch.cat([torch.zeros(1), torch.logspace(-6, 1.5, 200)]).double()
    mixed = sum(w * torch.exp(-0.5 * r.square() / s) for w, s in closed_forms.mixture(kind))
    assert (mixed - correlation(kind, r)).abs().max() < closed_forms.MIXTURE_ERROR


@pytest.mark.parametrize("alpha", [0.1, 0.5, 2.0, 30.0, 1000.0])
def test_the_mixture_of_the_rational_quadratic(alpha):
    r = torch.cat([torch.zeros(1), torch.logspace(-6, 1.5, 200)]).double()
    alpha = torch.tensor(alpha, dtype=torch.double, requires_grad=True)
    mixed = sum(w * torch.exp(-0.5 * r.square() / s) for w, s in closed_forms.rational(alpha))
    exact = (1 + r.square() / (2 * alpha)) ** -alpha
    assert (mixed - exact).abs().max() < 2 * closed_forms.MIXTURE_ERROR
    slopes = [torch.autograd.grad(values[150], alpha)[0].item() for values in (mixed, exact)]
    assert slopes[0] == pytest.approx(slopes[1], abs=1e-8)


def composed(kind: str) -> kernels.Kernel:
    """Kernels of two inputs that are made of parts."""
    first, second = kernels.RBFKernel(active_dims=[0]), kernels.RQKernel(active_dims=[1])
    first.lengthscale, second.lengthscale, second.alpha = 0.4, 0.5, 1.3
    found = {
        "rational quadratic": lambda: kernels.RQKernel(ard_num_dims=2),
        "linear": lambda: kernels.LinearKernel(),
        "linear, a variance a side": lambda: kernels.LinearKernel(ard_num_dims=2),
        "sum": lambda: kernels.ScaleKernel(kernels.RBFKernel() + kernels.LinearKernel()) + kernels.ConstantKernel(),
        "additive": lambda: kernels.ScaleKernel(first) + kernels.ScaleKernel(second),
        "product": lambda: kernels.ScaleKernel(first * second),
        "one input": lambda: kernels.ScaleKernel(kernels.RBFKernel(active_dims=[1])),
    }[kind]().double()
    for part in found.modules():
        if isinstance(part, kernels.ScaleKernel):
            part.outputscale = 1.7
        if isinstance(part, kernels.LinearKernel):
            part.variance = torch.tensor([0.8, 0.3]) if part.ard_num_dims else 0.8
    return found


COMPOSED = ("rational quadratic", "linear", "linear, a variance a side", "sum", "additive", "product", "one input")


@pytest.mark.parametrize("shape", WINDOWS)
@pytest.mark.parametrize("kind", COMPOSED)
def test_composed_kernels_are_the_quadrature(shape, kind):
    """GPyTorch's own values of the kernel at the nodes, weighted."""
    widths, kernel = np.array([0.21, 0.07]), composed(kind)
    conditional = WINDOWS[shape](widths, location)
    A, X = draw(3, 2), draw(4, 2, seed=1)
    prior = averages.embed([averages.window(h, widths, shape, 24) for h in location(A).numpy()])
    points = torch.as_tensor(prior.points)
    with torch.no_grad():
        full, cross = kernel(points, points).to_dense().numpy(), kernel(X, points).to_dense().numpy()
        expected = prior.W @ full @ prior.W.T
        assert conditional.covariance(kernel, A).numpy() == pytest.approx(expected, abs=1e-8)
        assert conditional.cross(kernel, X, A).numpy() == pytest.approx(cross @ prior.W.T, abs=1e-8)
        assert conditional.variance(kernel, A).numpy() == pytest.approx(np.diag(expected), abs=1e-8)


def test_a_model_with_a_composed_kernel_learns_its_parts():
    A = draw(12, 2)
    Z = (A[:, :1] + (6 * A[:, 1:]).sin()).double()
    model = DeconditionalGP(A, Z, GaussianConditional(0.1), covar_module=composed("additive"))
    before = [p.detach().clone() for p in model.covar_module.parameters()]
    model.fit(optimizer_kwargs={"options": {"maxiter": 5}})
    assert all(not torch.equal(p, q) for p, q in zip(before, model.covar_module.parameters(), strict=True))
    mean, variance = model.mean_variance(A)
    assert (mean - Z.squeeze(-1)).abs().max() < 0.5
    assert (variance >= 0).all()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (kernels.RBFKernel() * kernels.LinearKernel(), "must be of different inputs"),
        (kernels.RBFKernel(active_dims=[0]) * kernels.RBFKernel(active_dims=[0, 1]), "must be of different inputs"),
        (kernels.RBFKernel() + kernels.PolynomialKernel(power=2), "kernel = PolynomialKernel: must be RBF, RQ"),
        (kernels.RBFKernel(ard_num_dims=3), "3 numbers, must be 1 or 2"),
        (kernels.ScaleKernel(kernels.RBFKernel(), batch_shape=torch.Size([2])), "a parameter of 2 numbers"),
    ],
)
def test_kernels_without_a_closed_form(kernel, message):
    with pytest.raises(UnsupportedError, match=rf"no closed form: .*{message}.*num_samples"):
        GaussianConditional(0.2).covariance(kernel.double(), draw(3, 2))


def test_windows_as_wide_as_many_lengthscales():
    """Far from where quadrature resolves the kernel: against the analytic limit of a wide window."""
    kernel = averages.kernel(lengthscale=np.array([0.01]))
    half = 5.0
    value = UniformConditional(half).variance(kernel, torch.zeros(1, 1).double()).item()
    expected = averages.OUTPUTSCALE * (np.sqrt(2 * np.pi) * 0.01 / (2 * half) - 2 * 0.01**2 / (2 * half) ** 2)
    assert value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("shape", WINDOWS)
def test_other_kernels_and_means_by_samples(shape):
    A = draw(4, 2)
    kernel = kernels.ScaleKernel(kernels.PolynomialKernel(power=2)).double()
    refused(r"no closed form.*num_samples", WINDOWS[shape](0.2).covariance, kernel, A, error=UnsupportedError)
    sampled = WINDOWS[shape](0.2, num_samples=512)
    with torch.no_grad():
        error = 5 * sampled.standard_error(kernel, A, A[:2]) + 1e-6
        prior = averages.embed([averages.window(a, np.array([0.2, 0.2]), shape) for a in A.numpy()])
        expected = prior.W @ kernel(*2 * [torch.as_tensor(prior.points)]).to_dense().numpy() @ prior.W[:2].T
        assert (np.abs(sampled.covariance(kernel, A, A[:2]).numpy() - expected) <= error.numpy()).all()
        assert torch.allclose(sampled.variance(kernel, A), sampled.covariance(kernel, A).diagonal())
        X = draw(3, 2, seed=1)
        cross = kernel(torch.as_tensor(X), torch.as_tensor(prior.points)).to_dense().numpy() @ prior.W.T
        assert sampled.cross(kernel, X, A).numpy() == pytest.approx(cross, abs=0.01)
        bump = WINDOWS[shape](0.2).mean(Bump(), A).numpy()
    assert bump == pytest.approx(prior.W @ Bump()(torch.as_tensor(prior.points)).numpy(), abs=2e-3)
    refused("num_samples = None", WINDOWS[shape](0.2).standard_error, averages.kernel(), A)


def test_samples_in_parts_are_the_same(monkeypatch):
    conditional, A = GaussianConditional(0.2, num_samples=16), draw(5, 2).requires_grad_()
    kernel = averages.kernel()

    def found() -> list[torch.Tensor]:
        values = [conditional.covariance(kernel, A, A[:2]), conditional.variance(kernel, A)]
        return [*values, *(torch.autograd.grad(value.sum(), A)[0] for value in values)]

    whole = found()
    monkeypatch.setattr("mfbo_torch.models.indirect.conditionals.windows.MOST_PRODUCTS", 2 * 16 * 16 * 2)
    torch.testing.assert_close(found(), whole, rtol=0, atol=1e-12)


def test_policies_weigh_the_arms():
    arms = draw(4, 2, seed=8)
    slopes = torch.ones(2, 4).double() * torch.arange(4)
    conditional = PolicyConditional(lambda A: torch.softmax(A @ slopes, -1), arms)
    A = draw(3, 2)
    p = conditional.weights(A).numpy()
    assert p.sum(-1) == pytest.approx(1)
    prior = averages.Prior(arms.numpy(), p)
    expected, kernel = prior.covariance(prior), averages.kernel()
    assert conditional.covariance(kernel, A).detach().numpy() == pytest.approx(expected, abs=1e-12)
    assert conditional.variance(kernel, A).detach().numpy() == pytest.approx(np.diag(expected), abs=1e-12)


def test_a_classifier_is_a_policy():
    A = draw(200, 2)
    played = (2 * A[:, 0] + A[:, 1]).long().numpy()
    classifier = LogisticRegression().fit(A.numpy(), played)
    conditional = PolicyConditional(classifier, 3)
    queries = draw(2, 4, 2, seed=1)
    flat = queries.reshape(-1, 2).numpy()
    expected = classifier.predict_proba(flat)
    assert conditional.weights(queries).reshape(-1, 3).numpy() == pytest.approx(expected, abs=1e-15)
    unseen = LogisticRegression().fit(A.numpy(), np.where(played == 1, 3, played))  # nobody played arm 1
    weights = PolicyConditional(unseen, 4).weights(queries)
    assert (weights[..., 1] == 0).all()
    assert weights[..., 3].reshape(-1).numpy() == pytest.approx(unseen.predict_proba(flat)[:, 2])
    named = LogisticRegression().fit(A.numpy(), np.array(["a", "b", "c"])[played])
    assert PolicyConditional(named, 3).weights(queries).shape == (2, 4, 3)
    refused("policy = 'a classifier of 3 classes'", PolicyConditional, named, 4)


def every() -> dict[str, object]:
    X, A = samples(40)
    return {
        "empirical": EmpiricalConditional(X, A, covar_module=ell(), regularization=0.02),
        "gaussian": GaussianConditional(0.2, torch.cos),
        "uniform": UniformConditional([0.1, 0.4], torch.cos),
        "policy": PolicyConditional(torch.nn.Softmax(dim=-1), draw(2, 2, seed=5)),
        "sampled": GaussianConditional(0.2, num_samples=16),
    }


@pytest.mark.parametrize("name", every())
def test_gradient_in_the_queries(name):
    conditional, kernel = every()[name], averages.kernel("matern52" if name == "gaussian" else "rbf")
    A, other = draw(3, 2, seed=2).requires_grad_(), draw(2, 2, seed=3)
    for function in (
        lambda a: conditional.covariance(kernel, a, other),
        lambda a: conditional.variance(kernel, a),
        lambda a: conditional.mean(averages.linear_mean(), a),
        lambda a: conditional.cross(kernel, other, a),
    ):
        assert torch.autograd.gradcheck(function, (A,))


@pytest.mark.parametrize("name", every())
def test_single_precision_and_pickles(name):
    conditional, kernel = every()[name], averages.kernel()
    A = draw(4, 2, seed=2)
    with torch.no_grad():
        expected = conditional.covariance(kernel, A)
        assert torch.equal(pickle.loads(pickle.dumps(conditional)).covariance(kernel, A), expected)
        found = conditional.float().covariance(kernel.float(), A.float())
    assert found.dtype == torch.float
    assert torch.allclose(found.double(), expected, rtol=0, atol=TOLERANCES[torch.float] * averages.OUTPUTSCALE)


def test_state_is_saved():
    X, A = samples(30)
    first = EmpiricalConditional(X, A, regularization=0.02)
    second = EmpiricalConditional(*samples(30, seed=9), regularization=0.5)
    queries = draw(2, 2)
    second.weights(queries)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.weights(queries), second.weights(queries))


@pytest.mark.parametrize("name", [name for name in every() if name != "sampled"])
def test_covariances_have_no_negative_eigenvalue(name):
    with torch.no_grad():
        covariance = every()[name].covariance(averages.kernel("matern32"), draw(30, 2, seed=4))
    assert torch.linalg.eigvalsh(covariance).min() > -1e-12


def test_bad_samples():
    X, A = samples(5)
    with pytest.raises(BotorchTensorDimensionError, match="A of 4 rows: must have one a row of X, which has 5"):
        EmpiricalConditional(X, A[:4])
    refused(r"A of shape \(5,\)", EmpiricalConditional, X, A[:, 0], error=BotorchTensorDimensionError)
    refused("D1: must have at least one sample", EmpiricalConditional, X[:0], A[:0], error=InputDataError)
    refused("X: must be finite", EmpiricalConditional, X / 0, A, error=InputDataError)
    for wrong in (0.0, -1.0, float("nan")):
        refused(r"regularization = .*: must be a number above 0", EmpiricalConditional, X, A, regularization=wrong)
    conditional = EmpiricalConditional(X, A, covar_module=kernels.MaternKernel(), regularization=0.1)
    with pytest.raises(BotorchTensorDimensionError, match=r"queries of shape \(1, 3\): must be ... x m x 2, as wide"):
        conditional.weights(draw(1, 3))
    refused("queries: must be finite", conditional.weights, draw(1, 2) / 0, error=InputDataError)


def test_bad_windows():
    for wrong in (0.0, [0.1, -0.2], float("nan"), float("inf")):
        refused(r"width = .*: must be positive numbers", GaussianConditional, wrong)
    refused("num_samples = 1", UniformConditional, 0.1, num_samples=1)
    with pytest.raises(InputDataError, match=r"width = -0.5 of a query: must be positive"):
        GaussianConditional(lambda A: A[..., :1] - 1).embed(torch.full((2, 2), 0.5))
    with pytest.raises(BotorchTensorDimensionError, match=r"width of shape \(3,\)"):
        GaussianConditional([0.1, 0.1, 0.1]).embed(draw(4, 2))
    with pytest.raises(BotorchTensorDimensionError, match="location of shape"):
        GaussianConditional(0.1, lambda A: A.sum()).embed(draw(4, 2))
    refused(r"must be ... x m x p", GaussianConditional(0.1).embed, draw(4), error=BotorchTensorDimensionError)
    first, other = (conditional(0.1).embed(draw(3, 2)) for conditional in WINDOWS.values())
    for call in (first.joined, lambda second: first.covariance(ell(), second)):
        refused("other = UniformWindows: must be GaussianWindows", call, other, error=UnsupportedError)
    weights = EmpiricalConditional(*samples(5), regularization=0.1).embed(draw(3, 2))
    refused("other = GaussianWindows: must be Weights", weights.joined, first, error=UnsupportedError)


def test_windows_of_no_dimension():
    """Nothing varies, so every covariance is that of a constant."""
    nothing = GaussianConditional(0.1, lambda A: A[..., :0])
    assert nothing.covariance(kernels.RBFKernel(), draw(3, 2)).tolist() == [[1.0] * 3] * 3


def test_bad_policies():
    with pytest.raises(InputDataError, match=r"sum of the probabilities: must be one, is 0.5 off"):
        PolicyConditional(lambda A: torch.full((*A.shape[:-1], 3), 0.5), 3).weights(draw(2, 1))
    with pytest.raises(InputDataError, match="probability = -1: must not be negative"):
        PolicyConditional(lambda A: torch.tensor([-1.0, 2.0]).expand(*A.shape[:-1], 2), 2).weights(draw(2, 1))
    with pytest.raises(BotorchTensorDimensionError, match=r"probabilities of shape \(2, 3\): must be \(2, 2\)"):
        PolicyConditional(lambda A: torch.full((*A.shape[:-1], 3), 1 / 3), 2).weights(draw(2, 1))
    refused("policy = 'float'", PolicyConditional, 0.5, 2)
    for wrong in (0, True, 2.5, draw(3)):
        refused("arms", PolicyConditional, torch.softmax, wrong)


def test_affine_means_are_exact():
    A = draw(3, 2)
    for mean in (ConstantMean().double(), LinearMean(2).double(), averages.linear_mean()):
        assert torch.equal(GaussianConditional(5.0).mean(mean, A), mean(A))

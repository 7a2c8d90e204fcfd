"""The deconditional GP beside plain NumPy, the ordinary GP and the finite linear-Gaussian update."""

import pickle
from unittest.mock import Mock

import averages
import numpy as np
import pytest
import torch
from botorch import exceptions
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gaussian import draw
from gpytorch.kernels import LinearKernel, PolynomialKernel
from gpytorch.means import ConstantMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from refusals import refused
from tolerances import TOLERANCES

from mfbo_torch.models import (
    DeconditionalGP,
    EmpiricalConditional,
    GaussianConditional,
    PolicyConditional,
    UniformConditional,
)
from mfbo_torch.models.indirect.conditionals import Conditional
from mfbo_torch.models.indirect.deconditional import default_kernel

WIDTHS = np.array([0.11, 0.07])
NOISE = 0.03
NAMES = ("empirical", "gaussian", "uniform", "policy")


def scores(A: torch.Tensor) -> torch.Tensor:
    return torch.softmax(5 * A.sum(-1, keepdim=True) * torch.arange(4).to(A), -1)


ARMS = draw(4, 2, seed=11)
D1 = (draw(60, 2, seed=12).square(), draw(60, 2, seed=12))


def make(name: str) -> Conditional:
    if name == "empirical":
        return EmpiricalConditional(*D1, regularization=0.01)
    if name == "policy":
        return PolicyConditional(scores, ARMS)
    return {"gaussian": GaussianConditional, "uniform": UniformConditional}[name](WIDTHS, torch.cos)


def plain(name: str, A: torch.Tensor) -> averages.Prior:
    """The same queries without the library."""
    if name == "empirical":
        X, queries = D1[0].numpy(), D1[1].numpy()
        ell = make(name).covar_module.lengthscale.numpy()
        gram = lambda a, b: averages.gram(a, b, lengthscale=ell) / averages.OUTPUTSCALE  # noqa: E731
        return averages.empirical(X, queries, gram, 0.01)(A.numpy())
    if name == "policy":
        return averages.Prior(ARMS.numpy(), scores(A).numpy())
    return averages.embed([averages.window(h, WIDTHS, name, 14) for h in torch.cos(A).numpy()])


def data(t: int = 8, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    A = draw(t, 2, seed=seed)
    return A, (5 * A).sin().sum(-1, keepdim=True)


def model(name: str, t: int = 8, Zvar: torch.Tensor | None = None, kind: str = "rbf") -> DeconditionalGP:
    """Hyper-parameters set by hand."""
    A, Z = data(t)
    made = DeconditionalGP(
        A, Z, make(name), Zvar, covar_module=averages.kernel(kind), mean_module=averages.linear_mean()
    )
    if Zvar is None:
        made.likelihood.noise = torch.tensor(NOISE, dtype=torch.double)
    return made.eval()


def moments(posterior) -> tuple[np.ndarray, np.ndarray]:
    return posterior.mean.squeeze(-1).detach().numpy(), posterior.distribution.covariance_matrix.detach().numpy()


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "rbf") for name in NAMES), ("empirical", "matern52"), ("policy", "matern52")]
)
def test_posteriors_are_the_equations(name, known, kind):
    Zvar = 0.01 + 0.1 * draw(8, 1, seed=2) if known else None
    made = model(name, Zvar=Zvar, kind=kind)
    X, queries = draw(5, 2, seed=3), draw(6, 2, seed=4)
    noise = Zvar.squeeze(-1).numpy() if known else np.full(8, NOISE)
    A, Z = data()
    expected = averages.posterior(plain(name, A), Z.squeeze(-1).numpy(), noise, X.numpy(), plain(name, queries), kind)
    found = *moments(made.latent_posterior(X)), *moments(made.posterior(queries))
    tolerance = TOLERANCES[torch.double]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, abs=tolerance, rel=tolerance)
    marginals = *made.latent_mean_variance(X), *made.mean_variance(queries)
    for ours, theirs in zip(marginals, expected, strict=True):
        wanted = theirs if theirs.ndim == 1 else np.diag(theirs)
        assert ours.detach().numpy() == pytest.approx(wanted, abs=tolerance)


def test_a_conditional_of_two_models_stays_as_it_is():
    A, X = draw(6, 1), draw(6, 1, seed=1)
    conditional = EmpiricalConditional(X, A)
    first = DeconditionalGP(A, A, conditional).eval()
    mean, _ = first.mean_variance(A)
    DeconditionalGP(A.float(), A.float(), conditional)
    first.train()
    assert torch.equal(first.eval().mean_variance(A)[0], mean)
    assert DeconditionalGP(A, A, conditional).conditional is conditional


@pytest.mark.parametrize("shape", [GaussianConditional, UniformConditional])
@pytest.mark.parametrize("kind", ["rbf", "matern52"])
def test_a_window_that_shrinks_to_a_point_is_the_ordinary_gp(shape, kind):
    A, Z = data(12)
    kernel = averages.kernel(kind)
    ordinary = SingleTaskGP(
        A, Z, torch.full_like(Z, NOISE), covar_module=kernel, mean_module=ConstantMean(), outcome_transform=None
    ).double()
    ordinary.mean_module.constant.data.fill_(0.4)
    ours = DeconditionalGP(
        A, Z, shape(1e-7), torch.full_like(Z, NOISE), covar_module=kernel, mean_module=ordinary.mean_module
    )
    X = draw(7, 2, seed=3)
    mean, covariance = moments(ordinary.posterior(X))
    for posterior in (ours.posterior(X), ours.latent_posterior(X)):
        found = moments(posterior)
        assert found[0] == pytest.approx(mean, abs=1e-8)
        assert found[1] == pytest.approx(covariance, abs=1e-8)


def test_policies_update_the_arms_like_any_linear_gaussian_vector():
    generator = np.random.default_rng(0)
    root = generator.normal(size=(4, 4))
    mu, Sigma = generator.normal(size=4), root @ root.T
    arms = torch.as_tensor(np.concatenate([np.linalg.cholesky(Sigma), mu[:, None]], 1))

    class Rewards(ConstantMean):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[..., -1]

    class First(LinearKernel):
        def forward(self, x1, x2, **kwargs):
            return super().forward(x1[..., :-1], x2[..., :-1], **kwargs)

    kernel = First().double()
    kernel.variance = torch.ones(1, dtype=torch.double)
    A, Z = data(6)
    made = DeconditionalGP(
        A, Z, PolicyConditional(scores, arms), torch.full_like(Z, NOISE), covar_module=kernel, mean_module=Rewards()
    )
    P = scores(A).numpy()
    precision = np.linalg.inv(Sigma) + P.T @ P / NOISE  # the information form
    covariance = np.linalg.inv(precision)
    mean = covariance @ (np.linalg.solve(Sigma, mu) + P.T @ Z.squeeze(-1).numpy() / NOISE)
    found = moments(made.latent_posterior(arms))
    assert found[0] == pytest.approx(mean, abs=1e-8)
    assert found[1] == pytest.approx(covariance, abs=1e-8)
    p = scores(draw(3, 2, seed=5)).numpy()
    found = moments(made.posterior(draw(3, 2, seed=5)))
    assert found[0] == pytest.approx(p @ mean, abs=1e-8)
    assert found[1] == pytest.approx(p @ covariance @ p.T, abs=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_marginal_likelihood(name):
    made = model(name, Zvar=torch.full((8, 1), NOISE, dtype=torch.double)).train()
    A, Z = data()
    prior = plain(name, A)
    K = prior.covariance(prior) + NOISE * np.eye(8)
    r = Z.squeeze(-1).numpy() - prior.mean()
    expected = -0.5 * r @ np.linalg.solve(K, r) - 0.5 * np.linalg.slogdet(K)[1] - 4 * np.log(2 * np.pi)
    mll = ExactMarginalLogLikelihood(made.likelihood, made)
    assert mll(made(made.train_A), made.train_targets).item() == pytest.approx(expected / 8, rel=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_fit(name):
    A, Z = data(15)
    found = []
    for fit in (lambda m: m.fit(), lambda m: fit_gpytorch_mll(ExactMarginalLogLikelihood(m.likelihood, m))):
        made = DeconditionalGP(A, Z, make(name))
        before = _mll(made)
        fit(made)
        assert not made.training
        assert _mll(made) > before
        found.append(made.posterior(A).mean)
        assert all(not p.requires_grad for p in made.conditional.parameters())
    assert torch.allclose(*found)


def _mll(made: DeconditionalGP) -> float:
    return ExactMarginalLogLikelihood(made.likelihood, made).train()(made(made.train_A), made.train_targets).item()


def test_fit_finds_the_noise():
    generator = torch.Generator().manual_seed(0)
    A = draw(150, 2)
    exact = model("gaussian", 8).posterior(A).mean.detach()
    Z = exact + 0.2 * torch.randn(150, 1, generator=generator, dtype=torch.double)
    made = DeconditionalGP(A, Z, make("gaussian")).fit()
    assert made.noise.item() == pytest.approx(0.04, rel=0.3)
    assert (made.posterior(A).mean - exact).abs().max() < 0.3


def test_fit_follows_the_units():
    A, Z = data(15)
    first = DeconditionalGP(A, Z, GaussianConditional(0.1)).fit()
    second = DeconditionalGP(A, 1e4 * Z - 3e5, GaussianConditional(0.1)).fit()
    X = draw(4, 2, seed=3)
    for method in ("mean_variance", "latent_mean_variance"):
        (mean, variance), (scaled, wide) = getattr(first, method)(X), getattr(second, method)(X)
        assert torch.allclose(1e4 * mean - 3e5, scaled, rtol=1e-4, atol=1.0)
        assert torch.allclose(1e8 * variance, wide, rtol=1e-2)


def test_a_failed_fit_keeps_the_hyperparameters(monkeypatch):
    made = model("gaussian")
    failing = Mock(side_effect=exceptions.ModelFittingError("no"))
    monkeypatch.setattr("mfbo_torch.models.gp.likelihood.fit_gpytorch_mll", failing)
    with pytest.warns(UserWarning, match="hyper-parameters stay as they were"):
        made.fit()
    assert made.likelihood.noise.item() == pytest.approx(NOISE)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("known", [False, True])
def test_pending_queries_touch_the_deviation_alone(name, known):
    made = model(name, Zvar=torch.full((8, 1), NOISE, dtype=torch.double) if known else None)
    pending, X = draw(3, 2, seed=5), draw(6, 2, seed=3)
    twice = made.hallucinate(pending[:2]).hallucinate(pending[2:])
    believed = made.condition_on_observations(pending, made.posterior(pending).mean.detach())
    for hallucinated in (made.hallucinate(pending), twice):
        for method in ("mean_variance", "latent_mean_variance"):
            mean, variance = getattr(hallucinated, method)(X)
            assert torch.allclose(mean, getattr(made, method)(X)[0], rtol=0, atol=1e-12)
            assert torch.allclose(variance, getattr(believed, method)(X)[1], rtol=0, atol=1e-10)
    assert made.hallucinate(None) is made
    again = twice.train().eval()  # the pending queries are not forgotten with the factor
    assert torch.allclose(again.mean_variance(X)[1], believed.mean_variance(X)[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("known", [False, True])
def test_new_averages_extend_the_factor(name, known, monkeypatch):
    A, Z = data(12)
    Zvar = 0.01 + 0.1 * draw(12, 1, seed=2) if known else None
    whole = model(name, 12, Zvar)
    made = model(name, 12, Zvar)
    prior = {"covar_module": made.covar_module, "mean_module": made.mean_module}
    kept = DeconditionalGP(A[:8], Z[:8], made.conditional, None if Zvar is None else Zvar[:8], **prior)
    if not known:
        kept.likelihood = made.likelihood
    kept.posterior(A[:1])
    monkeypatch.setattr("mfbo_torch.models.indirect.deconditional.factorize", None)  # nothing is factored again
    for some in (slice(8, 9), slice(9, 12)):
        kept = kept.condition_on_observations(A[some], Z[some], None if Zvar is None else Zvar[some])
    monkeypatch.undo()
    X = draw(6, 2, seed=3)
    for method in ("mean_variance", "latent_mean_variance"):
        torch.testing.assert_close(getattr(kept, method)(X), getattr(whole, method)(X), rtol=0, atol=1e-10)
    assert len(kept.train_A) == 12
    assert torch.allclose(kept.train().eval().mean_variance(X)[0], whole.mean_variance(X)[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_no_averages_yet(name):
    made = DeconditionalGP(
        draw(0, 2), draw(0, 1), make(name), covar_module=averages.kernel(), mean_module=averages.linear_mean()
    )
    X = draw(3, 2, seed=3)
    prior = plain(name, X)
    found = moments(made.fit().posterior(X))
    assert found[0] == pytest.approx(prior.mean(), abs=1e-9)
    assert found[1] == pytest.approx(prior.covariance(prior), abs=1e-9)
    assert moments(made.latent_posterior(X))[1] == pytest.approx(averages.gram(X.numpy(), X.numpy()), abs=1e-12)
    assert made.hallucinate(X).mean_variance(X)[1].max() < made.mean_variance(X)[1].max()
    assert DeconditionalGP(draw(0, 2), draw(0, 1), make(name), draw(0, 1)).noise == 0


@pytest.mark.parametrize("name", NAMES)
def test_gradients_in_queries_and_inputs(name):
    made, A = model(name), draw(3, 2, seed=6).requires_grad_()
    for method in (made.mean_variance, made.latent_mean_variance):
        assert torch.autograd.gradcheck(lambda a, f=method: torch.stack(f(a)), (A,))


@pytest.mark.parametrize("name", NAMES)
def test_batches_and_wishes(name):
    made, A = model(name), draw(5, 2, 2, seed=6)
    whole = made.posterior(A.view(10, 2))
    batched = made.posterior(A)
    assert batched.mean.shape == (5, 2, 1)
    assert torch.allclose(batched.mean.view(10), whole.mean.view(10), atol=1e-12)
    assert torch.allclose(batched.variance.view(10), whole.variance.view(10), atol=1e-12)
    assert made.mean_variance(A)[0].shape == (5, 2)
    noisy = made.posterior(A, observation_noise=True)
    assert torch.allclose(noisy.variance - batched.variance, torch.tensor(NOISE).double())
    given = made.posterior(A, observation_noise=torch.full((5, 2, 1), 0.2, dtype=torch.double))
    assert torch.allclose(given.variance - batched.variance, torch.tensor(0.2).double())
    minus = ScalarizedPosteriorTransform(torch.tensor([-1.0]).double())
    assert torch.allclose(made.posterior(A, posterior_transform=minus).mean, -batched.mean)
    assert made.latent_posterior(A, posterior_transform=minus).mean.shape == (5, 2, 1)
    assert made.num_outputs == 1
    assert made.batch_shape == torch.Size()


@pytest.mark.parametrize("name", NAMES)
def test_state_precision_and_pickles(name):
    made, X = model(name), draw(6, 2, seed=3)
    mean, variance = (part.detach() for part in made.mean_variance(X))
    other = DeconditionalGP(
        *data(), make(name), covar_module=averages.kernel("rbf", np.ones(2), 5.0), mean_module=averages.linear_mean()
    )
    other.posterior(X)
    other.load_state_dict(made.state_dict())
    if name != "policy":
        assert torch.equal(pickle.loads(pickle.dumps(made)).mean_variance(X)[0], made.mean_variance(X)[0])
    assert made.to(torch.double)._solved is made._solved  # moving to where it is forgets nothing
    assert torch.allclose(other.mean_variance(X)[1], variance, rtol=0, atol=1e-12)
    single = made.float()
    for ours, theirs in zip(single.mean_variance(X.float()), (mean, variance), strict=True):
        assert ours.dtype == torch.float
        assert torch.allclose(ours.double(), theirs, rtol=0, atol=TOLERANCES[torch.float] * averages.OUTPUTSCALE)
    assert single.latent_posterior(X.float()).mean.dtype == torch.float


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_on_a_gpu(name):
    made, X = model(name), draw(6, 2, seed=3)
    expected = *made.mean_variance(X), *made.latent_mean_variance(X)
    made = made.cuda()
    found = *made.mean_variance(X.cuda()), *made.latent_mean_variance(X.cuda())
    torch.testing.assert_close([part.cpu() for part in found], list(expected), rtol=0, atol=TOLERANCES[torch.double])


def test_default_hyperparameters_follow_the_reach_of_the_inputs():
    A, Z = data(10)
    X = 1000 * D1[0]
    small = DeconditionalGP(A, Z, EmpiricalConditional(*D1)).covar_module.base_kernel.lengthscale
    large = DeconditionalGP(A, Z, EmpiricalConditional(X, D1[1])).covar_module.base_kernel.lengthscale
    assert torch.allclose(1000 * small, large, rtol=1e-5)
    for Z in (torch.zeros(4, 1), torch.full((4, 1), 7.0), torch.ones(1, 1)):
        assert DeconditionalGP(draw(len(Z), 2), Z.double(), GaussianConditional(0.1)).covar_module.outputscale > 0


def test_bad_input():
    A, Z = data()
    conditional = make("empirical")
    with pytest.raises(exceptions.BotorchTensorDimensionError, match=r"train_A of shape \(8,\): must be t x p"):
        DeconditionalGP(A[:, 0], Z, conditional)
    with pytest.raises(
        exceptions.BotorchTensorDimensionError, match=r"train_Z of shape \(7, 1\): must be t x 1 with t = 8"
    ):
        DeconditionalGP(A, Z[1:], conditional)
    with pytest.raises(exceptions.BotorchTensorDimensionError, match="as wide as those of D1"):
        DeconditionalGP(A[:, :1], Z, conditional).posterior(A[:, :1])
    refused("train_Z: must be finite", DeconditionalGP, A, Z / 0, conditional, error=exceptions.InputDataError)
    with pytest.raises(exceptions.InputDataError, match="train_Zvar = -1: must not be negative"):
        DeconditionalGP(A, Z, conditional, torch.full_like(Z, -1.0))
    with pytest.raises(exceptions.UnsupportedError, match="no closed form"):
        DeconditionalGP(A, Z, GaussianConditional(0.1), covar_module=PolynomialKernel(power=2)).posterior(A)
    made = model("gaussian")
    with pytest.raises(exceptions.BotorchTensorDimensionError, match="without batches"):
        made.condition_on_observations(A.view(2, 4, 2), Z.view(2, 4, 1))
    with pytest.raises(exceptions.UnsupportedError, match="without pending queries"):
        made.hallucinate(A).condition_on_observations(A, Z)


def test_loading_a_state_leaves_the_model_it_was_made_from():
    one, A = model("gaussian"), draw(4, 2, seed=2)
    grown, beside = one.condition_on_observations(A, draw(4, 1, seed=3)), one.hallucinate(A)
    before = [made.mean_variance(A)[0].detach() for made in (one, beside)]
    grown.load_state_dict({name: 2 * value for name, value in grown.state_dict().items()})
    for made, mean in zip((one, beside), before, strict=True):
        made.train().eval()
        assert torch.equal(made.mean_variance(A)[0], mean)


def test_a_default_prior_can_be_written_back():
    """As a fit that fails does: it restores the state it began with."""
    kernel = default_kernel(torch.ones(3, dtype=torch.double), 2.0)
    kernel.load_state_dict({name: value.clone() for name, value in kernel.state_dict().items()})
    assert all(0 not in buffer.stride() for buffer in kernel.buffers() if buffer.dim())


def test_known_noise_of_small_values_is_fitted_as_it_is() -> None:
    """GPyTorch would raise these variances to 1e-6."""
    A, found = draw(12, 2, seed=1), []
    Z = (4 * A).sin().sum(-1, keepdim=True) + 0.05 * draw(12, 1, seed=2)
    for unit in (1.0, 1e-4):
        one = DeconditionalGP(A, Z * unit, GaussianConditional(0.1), torch.full_like(Z, 2.5e-3) * unit**2).fit()
        found.append(torch.stack(one.mean_variance(draw(5, 2, seed=3))) / torch.tensor([[unit], [unit**2]]))
        assert one.likelihood.noise.tolist() == one.train_Zvar.flatten().tolist()
        grown = one.condition_on_observations(A[:1], Z[:1] * unit)
        assert grown.likelihood.noise.tolist() == grown.train_Zvar.flatten().tolist()
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-6)

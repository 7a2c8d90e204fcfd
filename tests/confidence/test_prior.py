"""A known prior: its covariance by formula, and what is refused."""

import math
import pickle

import pytest
import torch
from dense import KINDS, gram
from refusals import refused

from mfbo_torch.app.builder import build, resolve_run
from mfbo_torch.confidence.prior import Prior

A, B = torch.tensor([[0.1, 0.9], [0.3, 0.2]], dtype=torch.double), torch.tensor([[0.4, 0.5]], dtype=torch.double)


@pytest.mark.parametrize("kernel", KINDS)
def test_covariance_by_formula(kernel):
    found = Prior(kernel, [0.2, 0.7], outputscale=3.0).covariance(A, B)
    assert found.numpy() == pytest.approx(gram(kernel, A.tolist(), B.tolist(), [0.2, 0.7], 3.0), rel=1e-9)


def test_linear_covariance():
    found = Prior("linear", [0.5, 2.0], outputscale=3.0).covariance(A, A)
    assert found[0, 1].item() == pytest.approx(3.0 * (0.1 * 0.3 / 0.25 + 0.9 * 0.2 / 4.0), rel=1e-12)


def test_is_a_value_and_one_lengthscale_is_that_of_all_parameters():
    X = torch.rand(5, 3, generator=torch.Generator().manual_seed(0)).double()
    assert torch.equal(Prior(lengthscale=0.3).covariance(X, X), Prior(lengthscale=[0.3] * 3).covariance(X, X))
    prior = Prior(lengthscale=[0.1, 0.2])
    assert pickle.loads(pickle.dumps(prior)) == prior
    assert len({prior, Prior(lengthscale=(0.1, 0.2))}) == 1


@pytest.mark.parametrize(
    ("setting", "settings"),
    [
        ("kernel", {"kernel": "cosine"}),
        ("lengthscale", {"lengthscale": 0.0}),
        ("lengthscale", {"lengthscale": []}),
        ("lengthscale", {"lengthscale": [0.1, math.inf]}),
        ("outputscale", {"outputscale": -1.0}),
        ("noise", {"noise": 0.0}),
        ("mean", {"mean": math.nan}),
    ],
)
def test_bad_settings(setting, settings):
    refused(rf"^prior\.{setting} = ", Prior, **settings)


def test_wrong_number_of_lengthscales():
    said = r"^prior.lengthscale = \[0.1, 0.2\]: must be one number, or 3$"
    refused(said, Prior(lengthscale=[0.1, 0.2]).covar_module, 3)


def configured(**prior: object) -> dict[str, object]:
    return {
        "problem": {"class_path": "GPSample", "init_args": {"sizes": [20], "prior": prior}},
        "strategy": {"class_path": "GPBUCB", "init_args": {"prior": prior, "beta": "theory"}},
        "capital": 10,
        "out": "nowhere",
    }


def test_from_a_configuration():
    problem, strategy = build(resolve_run(configured(kernel="rbf", lengthscale=[0.1], noise=0.02)))
    assert problem.prior == strategy.prior == Prior("rbf", [0.1], noise=0.02)


@pytest.mark.parametrize("prior", [{"kernel": "cosine"}, {"noise": "loud"}, {"length": 3}])
def test_bad_configuration_is_one_line(prior):
    refused(next(iter(prior)), lambda: build(resolve_run(configured(**prior))))

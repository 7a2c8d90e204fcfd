"""Each kind of workers, with the cluster that it needs, which lasts as long as a module's tests."""

import pytest
from installed import installed
from slurm_cluster import REASON, slurm_cluster

from mfbo_torch.loop.executors import start


def needs(library):
    return pytest.mark.skipif(not installed(library), reason=f"{library} is not installed")


KINDS = [
    pytest.param("processes"),
    pytest.param("dask", marks=[pytest.mark.slow, needs("distributed")]),
    pytest.param("ray", marks=[pytest.mark.slow, needs("ray")]),
    pytest.param("submitit", marks=[pytest.mark.slow, needs("submitit")]),
    pytest.param("slurm", marks=[pytest.mark.slow, pytest.mark.slurm, needs("submitit")]),
]


@pytest.fixture(scope="module")
def ray_cluster():
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def slurm():
    if REASON:
        pytest.skip(REASON)
    with slurm_cluster() as cluster:
        yield cluster


@pytest.fixture(params=KINDS)
def kind(request):
    if request.param == "slurm":
        request.getfixturevalue("slurm")
    return request.param


@pytest.fixture
def workers_of(kind, request, tmp_path):
    """A function that starts two workers, with a timeout."""
    if kind == "ray":
        request.getfixturevalue("ray_cluster")
    return lambda timeout=None: start(kind, 2, timeout=timeout, folder=tmp_path / "jobs")

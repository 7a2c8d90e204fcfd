"""Small stand-ins for the public data sets, in the layout of the real files."""

import os

import numpy as np
import pytest


@pytest.fixture(scope="session")
def made_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    redshift = rng.uniform(0.016, 1.755, 192)
    modulus = 43.2 + 5 * np.log10(redshift * (1 + 0.5 * redshift)) + 0.2 * rng.standard_normal(192)
    np.savetxt(folder / "davis2007_supernovae.txt", np.c_[redshift, modulus, rng.uniform(0.13, 0.43, 192)], fmt="%.6f")
    plant = rng.standard_normal((9568, 4))
    energy = np.sin(plant[:, 0]) + 0.5 * plant[:, 1] ** 2 + 0.1 * rng.standard_normal(9568)
    table = np.c_[plant * [7, 12, 6, 14] + [20, 54, 1013, 73], 454 + 17 * energy]
    header = {"header": "\ufefftemperature,vacuum,pressure,humidity,energy", "comments": "", "encoding": "utf-8"}
    np.savetxt(folder / "ccpp.csv", table, delimiter=",", fmt="%.4f", **header)
    magic = rng.standard_normal((19020, 10))
    labels = np.where(magic[:, :2].sum(1) + 0.5 * rng.standard_normal(19020) > 0, "g", "h")
    lines = [",".join(f"{v:.3f}" for v in row) + f",{label}\n" for row, label in zip(magic, labels, strict=True)]
    (folder / "magic04.data").write_text("".join(lines))
    return folder


@pytest.fixture
def data_dir(made_data, monkeypatch):
    """``MFBO_DATA_DIR`` set to the stand-ins."""
    monkeypatch.setenv("MFBO_DATA_DIR", str(made_data))
    return made_data


REAL_DATA_DIR = os.environ.get("MFBO_DATA_DIR")


@pytest.fixture
def real_data_dir():
    """The folder that ``MFBO_DATA_DIR`` named when the tests started."""
    if not REAL_DATA_DIR:
        pytest.skip("MFBO_DATA_DIR names no folder with the public data sets")
    return REAL_DATA_DIR

"""Which cluster a run of Ray joins."""

import socket
import time

import pytest
from installed import installed

from mfbo_torch.loop.executors.ray_workers import on_ray
from mfbo_torch.loop.executors.resources import Placement
from mfbo_torch.utils.errors import SettingError


@pytest.mark.skipif(not installed("ray"), reason="ray is not installed")
@pytest.mark.parametrize("told", ["scheduler", "environment"])
def test_an_address_where_nobody_listens_is_refused_at_once(told, monkeypatch):
    """Ray would try for a quarter of an hour."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    if told == "environment":
        monkeypatch.setenv("RAY_ADDRESS", address)
    begun = time.monotonic()
    with (
        pytest.raises(SettingError, match=f"scheduler = '{address}': must be the address of a running Ray cluster"),
        on_ray(Placement("ray"), 2, address if told == "scheduler" else None, None),
    ):
        pass
    assert time.monotonic() - begun < 30

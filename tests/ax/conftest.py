"""Leaves this folder out where Ax is not installed: pip install mfbo-torch[ax]."""

import logging
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("ax") else ["test_*.py"]
logging.getLogger("ax").setLevel(logging.ERROR)


@pytest.fixture
def database(tmp_path):
    """Where Ax stores: a new SQLite file. Ax keeps one database a process, so the former one is left."""
    pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed: pip install mfbo-torch[ax]")
    from ax.api.configs import StorageConfig
    from ax.storage.sqa_store.db import init_engine_and_session_factory

    url = f"sqlite:///{tmp_path / 'ax.db'}"
    init_engine_and_session_factory(url=url, force_init=True)
    return StorageConfig(url=url)

"""What the suite arranges for itself, whatever the environment."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch


@pytest.mark.slow
def test_a_process_has_the_threads_it_was_told():
    """One, unless somebody asks for more; also in the processes that tests start."""
    assert str(torch.get_num_threads()) == os.environ["OMP_NUM_THREADS"]
    command = [sys.executable, "-c", "import torch; print(torch.get_num_threads())"]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    assert child.stdout.strip() == os.environ["OMP_NUM_THREADS"]


def test_tests_share_helpers_only():
    """What two test files need is in ``tests/helpers``, the only folder of the tests on the path."""
    files = Path(__file__).parent.rglob("*.py")
    shared = re.compile(r"^\s*(?:from|import) test_\w+", re.MULTILINE)
    assert [path.name for path in files if shared.search(path.read_text("utf-8"))] == []

"""Lets one process compute in one thread, and Keras by torch. What several tests share is in ``helpers``, which is on
the import path."""

import os
import signal
import sys

# Each of the parallel workers would start as many threads as there are cores. The libraries read this when they are
# first imported, and the processes that tests start inherit it.
if "torch" in sys.modules and "OMP_NUM_THREADS" not in os.environ:  # a plugin was first
    sys.modules["torch"].set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("KERAS_BACKEND", "torch")  # the only one of its three that is installed in any case


def pytest_configure() -> None:
    """Hear Ctrl-C, which a job in the background of a shell is started deaf to, and its children with it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

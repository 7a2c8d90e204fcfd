"""Ctrl-C while workers start."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mfbo_torch.loop.executors.workers import without_ctrl_c


def test_ctrl_c_is_heard_at_the_end_of_the_start_whichever_thread_gets_it():
    started, reached = threading.Event(), threading.Event()

    def press():
        started.wait(60)
        os.kill(os.getpid(), signal.SIGINT)  # this thread was there before, so it may get it

    thread = threading.Thread(target=press)
    thread.start()

    def begin():
        with without_ctrl_c():
            started.set()
            thread.join()
            time.sleep(0.1)
            reached.set()

    with pytest.raises(KeyboardInterrupt):
        begin()
    assert reached.is_set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_a_dask_cluster_that_is_interrupted_while_it_starts_ends_with_all_its_processes(tmp_path):
    pytest.importorskip("distributed")
    script = tmp_path / "starts.py"
    script.write_text(
        "import signal\nfrom mfbo_torch.loop.executors import start\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    print('begins', flush=True)\n"
        "    with start('dask', 1):\n        print('never', flush=True)\n"
    )
    driver = subprocess.Popen(
        [sys.executable, script], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "begins\n"
    give_up = time.monotonic() + 300
    while driver.poll() is None and not has_children(driver.pid) and time.monotonic() < give_up:
        time.sleep(0.01)
    time.sleep(0.2)  # multiprocessing's own helper is there, the cluster starts
    os.killpg(driver.pid, signal.SIGINT)
    out, err = driver.communicate(timeout=300)
    assert out == ""
    assert "KeyboardInterrupt" in err
    assert driver.returncode
    while alive(driver.pid) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not alive(driver.pid)


def has_children(process: int) -> bool:
    return any(path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children"))


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True

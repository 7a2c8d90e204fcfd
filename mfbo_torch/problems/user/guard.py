"""Runs a program and ends all that it has started: when it is over, when told to, and when whoever asked is gone.

A process of its own, between the one that evaluates and the program, ``python guard.py GRACE COMMAND...``, made of the
standard library alone as it is started for every evaluation. Its standard input is the line to whoever asked: once
that is closed, which a process does by dying too, the program is asked to leave (SIGTERM) and, ``GRACE`` seconds
later, ended (SIGKILL). It exits as the program does, with 128 and the signal's number where a signal ended it.

It is two processes: the first ends what is left where the program ends or stops the second.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
NOT_FOUND, NOT_RUN = 127, 126
"""Exit codes of a program that is not there or cannot be run, as shells have them."""
TICK = 0.02
"""Seconds between two checks for processes that are left."""
MARGIN = 1.0
"""Seconds after the second process should have ended everything, at which the first does."""


def main(grace: float, command: list[str]) -> int:
    """Run a command; its exit code."""
    heard = listen()
    if second := os.fork():
        return watch(second, heard, grace + MARGIN, last=True)
    heard = listen()
    try:
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=_with_parent)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUN
    return watch(program.pid, heard, grace)  # once forgotten, it would wait for the child itself


def listen() -> int:
    """Take over what is orphaned below this process, and write the signals it gets to a pipe, whose end is returned."""
    heard, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    _control(PR_SET_CHILD_SUBREAPER, 1)
    return heard


def watch(child: int, heard: int, grace: float, last: bool = False) -> int:
    """Wait for a child or for the end of the line, and end what is left; its exit code."""
    code = None
    while code is None:
        ready, _, _ = select.select([0, heard], [], [])
        if 0 in ready or any(number != signal.SIGCHLD for number in os.read(heard, 512)):
            break
        code = reaped(child)
    end(child, grace if code is None else 0.0, last)
    return 128 + signal.SIGTERM if code is None else code


def reaped(child: int) -> int | None:
    """The exit code of a child if it has ended; whatever else has, is forgotten."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
    return code if code is None or code >= 0 else 128 - code


def end(child: int, grace: float, last: bool = False) -> None:
    """End a child, its group and everything below this process; the ``last`` asks the child alone to leave."""
    until = time.monotonic() + grace
    number = signal.SIGTERM if grace else signal.SIGKILL
    signalled: set[int] = set()
    while True:
        reaped(child)
        left = descendants()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, 0)
            left.add(-child)
        if not left:
            return
        if number == signal.SIGTERM and time.monotonic() > until:
            number, signalled = signal.SIGKILL, set()
        for process in ({child} if last and number == signal.SIGTERM else left) - signalled:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)  # a negative one is a group
        signalled = left if number == signal.SIGTERM else set()
        time.sleep(TICK)


def descendants() -> set[int]:
    """The processes below this one, as far as the system tells."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
                below.setdefault(parent, []).append(int(name))
    found, front = set[int](), [os.getpid()]
    while front:
        children = below.get(front.pop(), [])
        front += children
        found.update(children)
    return found


def _with_parent() -> None:
    """Let the program end with the guard, should someone end that."""
    signal.set_wakeup_fd(-1)
    _control(PR_SET_PDEATHSIG, signal.SIGKILL)


def _control(option: int, value: int) -> None:
    """``prctl`` where there is one."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    os._exit(main(float(sys.argv[1]), sys.argv[2:]))  # an interpreter takes longer to end than all of this

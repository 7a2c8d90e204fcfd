"""``mfbo serve``."""

from __future__ import annotations

from mfbo_torch.app import run_folder
from mfbo_torch.app.cli.terminal import say
from mfbo_torch.utils.errors import SettingError


def serve(folder: str | None, host: str, port: str) -> int:
    """Show a run as a page that follows it, until Ctrl-C."""
    if not port.isdecimal() or int(port) > 65535:
        raise SettingError("port", port, "a whole number from 0 to 65535")
    out = run_folder.chosen(folder, "mfbo serve runs/mine", single=True)
    if run_folder.compares(out):
        raise SettingError("folder", str(out), "that of a single run; this one holds a comparison")
    from mfbo_torch.app.serve.live_run import LiveRun
    from mfbo_torch.app.serve.server import Server

    run = LiveRun(out)
    run.page()  # what it lacks is said before it listens
    with Server(run, host, int(port)) as server:
        run.start()
        say(f"{out} is at {server.address}")
        say("Ctrl-C ends this; the run itself goes on.")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
        finally:
            run.close()
    return 0

"""A Slurm cluster of this one machine: munge, slurmctld and slurmd from a folder, until the context ends.

``python slurm_cluster.py`` starts one and leaves it running until Ctrl-C.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scancel")
MISSING = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None]
REASON = (
    f"Slurm is not installed ({', '.join(MISSING)}): apt-get install slurmctld slurmd munge"
    if MISSING
    else ""
    if hasattr(os, "geteuid") and os.geteuid() == 0
    else "a Slurm of one's own is started by root"
)
"""Why there can be no cluster here; empty where there can."""
CONFIG = """
ClusterName=mfbo
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
MpiDefault=none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
KillWait=2
MinJobAge=60
SchedulerParameters=sched_interval=2,bf_interval=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=4000 State=UNKNOWN
PartitionName=usual Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 OverSubscribe=NO
PartitionName=urgent Nodes={host} MaxTime=INFINITE State=UP PriorityTier=10 OverSubscribe=NO PreemptMode=OFF
"""


def free_ports(count):
    """Numbers of ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


class SlurmCluster:
    """The daemons, which can be ended and started again."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.running = {}
        host = socket.gethostname().partition(".")[0]
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.config = self.folder / "slurm.conf"
        self.config.write_text(CONFIG.format(host=host, folder=self.folder, ports=free_ports(2)))
        self.environment = {**os.environ, "SLURM_CONF": str(self.config)}
        self.environment["PATH"] += ":/usr/sbin"
        munge = ["munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}"]
        munge += [f"--{name}-file={self.folder}/munged.{name}" for name in ("log", "pid", "seed")]
        self.commands = {
            "munged": munge,
            "slurmctld": ["slurmctld", "-D", "-f", str(self.config)],
            "slurmd": ["slurmd", "-D", "-f", str(self.config), "-N", host],
        }

    def start(self, name):
        with (self.folder / f"{name}.out").open("a") as said:
            self.running[name] = subprocess.Popen(
                self.commands[name], env=self.environment, stdout=said, stderr=said, start_new_session=True
            )

    def kill(self, name):
        self.running[name].kill()
        self.running.pop(name).wait()

    def wait_until_idle(self, seconds=60):
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            said = self.ask("sinfo", "--noheader", "--format=%T")
            if said.strip() and set(said.split()) <= {"idle"}:
                return
            time.sleep(0.2)
        logs = "".join((self.folder / f"{name}.out").read_text()[-2000:] for name in self.commands)
        raise RuntimeError(f"Slurm did not start: {said} {logs}")

    def ask(self, *command):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        return done.stdout


@contextmanager
def slurm_cluster():
    """A cluster with its configuration in the environment of this process."""
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        cluster = SlurmCluster(folder)
        before = {name: os.environ.get(name) for name in ("SLURM_CONF", "PATH")}
        os.environ.update({name: cluster.environment[name] for name in before})
        try:
            cluster.start("munged")
            while not (cluster.folder / "munge.socket").exists() and cluster.running["munged"].poll() is None:
                time.sleep(0.05)
            cluster.start("slurmctld")
            cluster.start("slurmd")
            cluster.wait_until_idle()
            yield cluster
        finally:
            cluster.ask("scancel", "--me")
            time.sleep(1.0)
            for process in reversed(cluster.running.values()):
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


if __name__ == "__main__":
    with slurm_cluster() as started:
        print(f"export SLURM_CONF={started.config}", flush=True)
        signal.pause()

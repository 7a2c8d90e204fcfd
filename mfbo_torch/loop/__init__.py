"""Ask and tell, the loop around it, and one call for all of it."""

from typing import Literal

Kind = Literal["processes", "dask", "ray", "slurm", "submitit"]
"""Kinds of executors: processes of this machine, a Dask or a Ray cluster, Slurm, and submitit's jobs on this machine.
They are named here, as a run's options are read without loading them."""

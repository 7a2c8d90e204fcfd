"""A sweep: jobs are launched until the capital is spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.types import Override, ValueType
from hydra.core.utils import JobReturn

from mfbo_torch import strategies
from mfbo_torch.history import Record
from mfbo_torch.history.observation import unusable
from mfbo_torch.history.storage.journal import Journal
from mfbo_torch.hydra.codec import SweepCodec
from mfbo_torch.loop.early_failures import ALIKE, Hopeless
from mfbo_torch.loop.optimizer import Optimizer
from mfbo_torch.utils.errors import SettingError, did_you_mean
from mfbo_torch.utils.files import write_text
from mfbo_torch.utils.output_streams import logger
from mfbo_torch.utils.validation import number, whole

HISTORY, RESULTS, SWEPT = "history.sqlite", "optimization_results.yaml", "swept.yaml"
"""Files in the folder of a sweep; one that is given the folder again goes on where the history ends."""
LOG = logger(__name__)


def spend(
    overrides: Sequence[Override],
    launch: Callable[[list[list[str]], int], Sequence[JobReturn]],
    folder: str,
    *,
    capital: float,
    fidelity: str | None,
    costs: Sequence[float] | None,
    maximize: bool,
    strategy: str,
    seed: int,
    workers: int,
) -> list[Sequence[JobReturn]]:
    """Launch jobs in batches of ``workers``; what they return, batch by batch.

    Raises:
        SettingError: A setting cannot work.
        Hopeless: The first :data:`~mfbo_torch.loop.early_failures.ALIKE` jobs have failed in the same way, or all jobs.
    """
    codec = SweepCodec(overrides, fidelity, costs)
    names = [name for name in strategies.__all__ if name != strategies.Strategy.__name__]
    if strategy not in names:
        wanted = f"one of {', '.join(names)}{did_you_mean(strategy, names)}"
        raise SettingError("hydra.sweeper.strategy", strategy, wanted)
    number("hydra.sweeper.capital", capital, min(codec.space.costs))
    whole("hydra.sweeper.workers", workers)
    place = Path(folder).absolute()
    place.mkdir(parents=True, exist_ok=True)
    lines, priced = [*map(_line, overrides)], None if costs is None else [*map(float, costs)]
    sweep = {"overrides": lines, "fidelity": fidelity, "costs": priced, "maximize": maximize}
    sign, returns, mistakes = 1.0 if maximize else -1.0, [], list[str]()
    with Journal(place / HISTORY) as journal:
        _same(place, sweep, begun=len(journal.history()) > 0)
        chosen = getattr(strategies, strategy)(seed=seed).bind(codec.space, capital)
        optimizer = Optimizer(chosen, journal)
        while batch := optimizer.history.pending[:workers] or optimizer.ask(workers, capital=capital):
            jobs = launch([codec.job(r.query.x, r.query.fidelity) for r in batch], batch[0].id)
            returns.append(jobs)
            for record, job in zip(batch, jobs, strict=True):
                mistakes += _taken(optimizer, record, job, sign)
            if len(mistakes) >= ALIKE and not optimizer.history.done and len({*mistakes}) == 1:
                raise Hopeless(f"the first {len(mistakes)} jobs have failed in the same way, with {mistakes[0]}")
        if mistakes and not optimizer.history.done:
            raise Hopeless(f"all jobs have failed, the last one with {mistakes[-1]}", spent=True)
        best = optimizer.history.best(codec.space.target)
    found = None if best is None else codec.read(codec.decode(best.query.x, best.query.fidelity))
    value = None if best is None or best.value is None else sign * best.value
    results = {"name": "mfbo", "best_evaluated_params": found, "best_evaluated_result": value}
    write_text(place / RESULTS, yaml.safe_dump(results, sort_keys=False))
    return returns


def _line(override: Override) -> str | None:
    """An override as it was written; of a glob the options that it stands for, which other files change."""
    if override.value_type != ValueType.GLOB_CHOICE_SWEEP:
        return override.input_line
    return f"{override.get_key_element()}={','.join(override.sweep_string_iterator())}"


def _same(place: Path, sweep: dict[str, Any], begun: bool) -> None:
    """Refuse a folder in which another sweep has begun; note in one without any query what is swept there."""
    path = place / SWEPT
    if not (begun and path.exists()):
        write_text(path, yaml.safe_dump(sweep, sort_keys=False))
    elif (before := yaml.safe_load(path.read_text("utf-8"))) != sweep:
        raise SettingError("hydra.sweep.dir", str(place), f"another folder, as the sweep of this one has {before}")


def _taken(optimizer: Optimizer, record: Record, job: JobReturn, sign: float) -> list[str]:
    """Take in what a job has returned, or that it has failed: the mistake, if there was one."""
    raised: Exception | None = None
    try:
        if job.return_value is None:
            raise SettingError("the application", None, "one that returns its loss, a number")
        value = float(job.return_value)
    except Exception as error:  # of whatever kind: the application's own
        optimizer.fail(record.id, error)
        mistake, raised = f"{type(error).__name__}: {error}", error
    else:
        optimizer.tell(record.id, sign * value)
        if (reason := unusable(value)) is None:
            return []
        mistake = reason
    LOG.warning("Job %d has failed with %s", record.id, mistake, exc_info=raised)
    return [mistake]

"""The options of a run: settings by the same names, checked where they are made."""

import math
from dataclasses import fields

import numpy as np
import pytest
from refusals import refused
from toy import Hill

from mfbo_torch.app.experiment import MAY_DIFFER
from mfbo_torch.app.schema import RUN
from mfbo_torch.loop.executors import Workers
from mfbo_torch.loop.run_options import RunOptions, check_capital, warn_of_no_target


def test_every_option_is_a_setting_that_may_differ():
    options = [option.name for option in fields(RunOptions)]
    assert set(options) <= set(RUN.settings)
    assert set(MAY_DIFFER) == {"capital", "out", "progress", *options}
    assert RunOptions.of({"capital": 1.0, **{name: RUN.settings[name].default for name in options}}) == RunOptions()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("max_pending", 0), ("max_pending", 1.0), ("retries", -1), ("retries", 1.5), ("retries", True)),
        *(("charge_retries", "no"), ("charge_deciding", "yes"), ("patience", 0), ("patience", -1)),
        *(("time_limit", 0), ("time_limit", math.inf), ("stop_at", math.nan), ("stop_at", "best")),
        *(("stop_gain", 0), ("stop_gain", 1.5)),
    ],
)
def test_options_that_cannot_work(option, value):
    refused(rf"^{option} = ", RunOptions, **{option: value})


def test_one_process_is_this_one_unless_evaluations_have_to_be_ended():
    with RunOptions().start() as here, RunOptions(timeout=1.0).start() as there:
        assert here is None
        assert isinstance(there, Workers)
    refused(r"^workers = 2: must be left out", RunOptions(workers=2, scheduler="tcp://nowhere").start)


def test_a_capital_pays_for_a_query():
    assert check_capital(Hill(), np.int64(1)) == 1.0
    assert check_capital(Hill(measured=True), 0.1) == 0.1
    for problem, capital in ((Hill(), 0.5), (Hill(measured=True), 0.0), (Hill(), float("nan")), (Hill(), True)):
        refused(r"^capital = ", check_capital, problem, capital)


def test_a_capital_that_pays_for_no_query_of_the_target_is_warned_of(caplog):
    warn_of_no_target(Hill(), Hill().space.costs[-1])
    warn_of_no_target(Hill(measured=True), 1.0)
    assert not caplog.messages
    warn_of_no_target(Hill(), 9.0)
    assert caplog.messages == ["capital = 9 pays for no query of the target: give 10 or more"]

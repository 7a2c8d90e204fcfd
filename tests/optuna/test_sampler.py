"""The sampler of Optuna: Optuna's own tests of samplers, and what fidelities add."""

import math
import pickle

import pytest
from refusals import refused

optuna = pytest.importorskip("optuna", reason="needs the extra mfbo-torch[optuna]")
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution  # noqa: E402
from optuna.samplers import PartialFixedSampler  # noqa: E402
from optuna.storages import JournalStorage  # noqa: E402
from optuna.storages.journal import JournalFileBackend  # noqa: E402
from optuna.testing.pytest_samplers import (  # noqa: E402
    BasicSamplerTestCase,
    MultiObjectiveSamplerTestCase,
    RelativeSamplerTestCase,
)
from optuna.trial import TrialState, create_trial  # noqa: E402

from mfbo_torch import GPBUCB, Space  # noqa: E402
from mfbo_torch.history import History, Status  # noqa: E402
from mfbo_torch.optuna import Sampler  # noqa: E402
from mfbo_torch.optuna.codec import StudyCodec  # noqa: E402
from mfbo_torch.optuna.conditions import conditions_of  # noqa: E402
from mfbo_torch.optuna.history import read  # noqa: E402
from mfbo_torch.optuna.sampler import EARLY  # noqa: E402
from mfbo_torch.strategies import RandomSearch  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)
EPOCHS = {1: 1.0, 3: 3.0, 9: 9.0}
SPACE = {"x": FloatDistribution(-2.0, 2.0), "epochs": IntDistribution(1, 9)}


class TestContract(BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase):
    """What Optuna expects of a sampler, as it tests its own."""

    @pytest.fixture
    def sampler(self):
        return Sampler


def loss(trial):
    """Smallest, 0, at x = 1 and rate = 1e-2; fewer epochs add to it."""
    x, rate = trial.suggest_float("x", -2, 2), trial.suggest_float("rate", 1e-4, 1, log=True)
    return (x - 1) ** 2 + (math.log10(rate) + 2) ** 2 + 1 / trial.suggest_int("epochs", 1, 9) - 1 / 9


def study_of(sampler, trials, **settings):
    study = optuna.create_study(sampler=sampler, **settings)
    study.optimize(loss, n_trials=trials)
    return study


def test_fidelities():
    sampler = Sampler("epochs", EPOCHS)
    with pytest.raises(ValueError, match="no trial at the target"):
        Sampler("epochs", EPOCHS).best_trial(study_of(Sampler("epochs", EPOCHS), 1))
    study = study_of(sampler, 17)
    asked = [trial.params["epochs"] for trial in study.trials]
    assert asked[0] == 1
    assert set(asked) == set(EPOCHS)
    best = sampler.best_trial(study)
    assert best.value == min([trial.value for trial in study.trials if trial.params["epochs"] == 9]) < 1.0


def test_maximising_is_minimising_the_negative():
    down = study_of(Sampler("epochs", EPOCHS), 14)
    up = optuna.create_study(sampler=Sampler("epochs", EPOCHS), direction="maximize")
    up.optimize(lambda trial: -loss(trial), n_trials=14)
    assert [trial.params for trial in up.trials] == [trial.params for trial in down.trials]
    assert Sampler("epochs", EPOCHS).best_trial(up).value == -Sampler("epochs", EPOCHS).best_trial(down).value


def test_a_study_goes_on_in_its_storage(tmp_path):
    """Nothing but the storage is carried over, and the trials are those of a study that was not interrupted."""
    for _ in range(2):
        storage = JournalStorage(JournalFileBackend(str(tmp_path / "study.log")))
        study = study_of(Sampler("epochs", EPOCHS), 8, storage=storage, study_name="s", load_if_exists=True)
    whole = study_of(pickle.loads(pickle.dumps(Sampler("epochs", EPOCHS))), 16)
    assert [trial.params for trial in study.trials] == [trial.params for trial in whole.trials]


def begun(sampler, trials=6, seconds=2):
    """A study with completed ``trials``, and ``seconds`` further ones that have begun and have no parameters yet."""
    study = study_of(sampler, trials)
    ids = [study._storage.create_new_trial(study._study_id) for _ in range(seconds)]
    return study, [study._storage.get_trial(id) for id in ids]


def test_workers_that_decide_at_once_get_different_trials():
    """None sees what the others get, and each takes its own place of the same batch."""

    def decided(trials, study):
        sampler = Sampler("epochs", EPOCHS)
        return [sampler.sample_relative(study, t, sampler.infer_relative_search_space(study, t)) for t in trials]

    study, trials = begun(Sampler("epochs", EPOCHS))
    batch = decided(trials, study)
    at_once = []
    for i in range(2):
        study, trials = begun(Sampler("epochs", EPOCHS))
        at_once += decided(trials[i : i + 1], study)
    assert at_once == batch
    assert batch[0] != batch[1]


def test_threads():
    study = optuna.create_study(sampler=Sampler(strategy=GPBUCB(initial=3)))
    study.optimize(lambda trial: (trial.suggest_float("x", -2, 2) - 1) ** 2, n_trials=8, n_jobs=3)
    assert len({trial.params["x"] for trial in study.trials}) == 8


def test_an_enqueued_trial_whatever_a_strategy_notes_of_its_first_design():
    study = optuna.create_study(sampler=Sampler("epochs", EPOCHS, strategy="FreezeThaw"))
    for step in range(4):
        study.enqueue_trial({"x": step / 10})
    study.optimize(
        lambda t: t.suggest_float("x", 0, 1) + t.suggest_float("y", 0, 1) + 1 / t.suggest_int("epochs", 1, 9), 5
    )
    assert len({trial.params["y"] for trial in study.trials}) == 5


def test_a_sampler_around_it_may_fix_the_fidelity():
    study = optuna.create_study(sampler=PartialFixedSampler({"epochs": 9}, Sampler("epochs", EPOCHS)))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1) + trial.suggest_int("epochs", 1, 9), 5)
    assert len({trial.params["x"] for trial in study.trials}) == 5


def test_what_an_enqueued_trial_leaves_open_differs():
    """Each counts as one of the first design; one that leaves nothing open does not."""
    study = optuna.create_study(sampler=Sampler())
    for step in range(4):
        study.enqueue_trial({"x": step / 10})
    study.enqueue_trial({"x": 0.5, "y": 0.5})
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1) + trial.suggest_float("y", 0, 1), 6)
    assert len({trial.params["y"] for trial in study.trials[:4]}) == 4
    codec = StudyCodec(study.trials[0].distributions, None, None)
    history, _ = read(study, codec, study._storage.get_trial(study._storage.create_new_trial(study._study_id)))
    assert [record.query.meta.get("stage") for record in history] == [None, *["initial"] * 3, None, "initial"]


def test_what_a_study_tells():
    study = optuna.create_study(direction="minimize")
    frozen, pruned = {"distributions": SPACE}, {"distributions": SPACE, "state": TrialState.PRUNED}
    study.add_trial(create_trial(params={"x": 0.5, "epochs": 9}, value=3.0, **frozen))
    study.add_trial(create_trial(params={"x": 0.6, "epochs": 3}, state=TrialState.FAIL, **frozen))
    study.add_trial(create_trial(params={"x": 0.7, "epochs": 9}, intermediate_values={1: 8.0, 3: 7.0}, **pruned))
    study.add_trial(create_trial(params={"x": 0.8, "epochs": 9}, intermediate_values={2: 7.0}, **pruned))
    study.add_trial(create_trial(params={"x": 0.9, "epochs": 9}, value=math.inf, **frozen))
    study.add_trial(create_trial(params={"x": 1.0, "epochs": 5}, value=1.0, **frozen))  # none of the fidelities
    study.add_trial(create_trial(params={"epochs": 9}, distributions={"epochs": SPACE["epochs"]}, value=1.0))
    study.add_trial(create_trial(params={"x": 1.1, "epochs": 9}, state=TrialState.RUNNING, **frozen))
    study.enqueue_trial({"x": 1.2, "epochs": 9})
    _, now = (study._storage.create_new_trial(study._study_id) for _ in range(2))
    history, undecided = read(study, StudyCodec(SPACE, "epochs", EPOCHS), study._storage.get_trial(now))
    told = [(r.query.x[0], r.query.fidelity, r.status, r.value, r.cost) for r in history]
    assert told == [
        (0.5, 2, Status.DONE, -3.0, 9.0),
        (0.6, 1, Status.FAILED, None, 3.0),
        (0.7, 1, Status.DONE, -7.0, 3.0),
        (0.7, 2, Status.STOPPED, None, 9.0),
        (0.8, 0, Status.DONE, -7.0, 1.0),
        (0.8, 2, Status.STOPPED, None, 9.0),
        (0.9, 2, Status.FAILED, None, 9.0),
        (1.1, 2, Status.PENDING, None, 9.0),
    ]
    assert undecided == 1


def training(trial):
    """Fewer epochs are worse in the loss, and flatter the wrong rate."""
    rate, epochs = trial.suggest_float("rate", 0, 1), trial.suggest_int("epochs", 1, 27)
    return (rate - 0.7) ** 2 + abs(rate - 0.1) / epochs


def test_a_trial_at_the_target_comes_early():
    """Also where the strategy would stay below: nobody tells it how many trials there are."""
    sampler = Sampler("epochs", {1: 1.0, 3: 3.0, 27: 1000.0})
    study = optuna.create_study(sampler=sampler)
    study.optimize(training, n_trials=EARLY + 1)
    assert [trial.params["epochs"] for trial in study.trials][-1] == 27
    best = min(study.trials[:-1], key=lambda trial: (-trial.params["epochs"], trial.value))
    assert sampler.best_trial(study).params["rate"] == best.params["rate"]


def test_a_study_without_an_answer_at_the_target_is_warned_of():
    def never(trial):
        value = training(trial)
        if trial.params["epochs"] == 27:
            raise optuna.TrialPruned
        return value

    study = optuna.create_study(sampler=Sampler("epochs", {1: 1.0, 27: 1000.0}))
    with pytest.warns(UserWarning, match=r"none of 16 trials has been completed at the highest epochs"):
        study.optimize(never, n_trials=2 * EARLY)
    assert sum(trial.params["epochs"] == 27 for trial in study.trials) == 1


def test_a_best_trial_below_the_target_is_warned_of():
    study = optuna.create_study(sampler=Sampler("epochs", {1: 1.0, 27: 1000.0}), direction="maximize")
    with pytest.warns(UserWarning, match=r"study.best_trial has epochs = 1, .* sampler.best_trial\(study\)"):
        study.optimize(training, n_trials=EARLY + 2)


def branches(trial):
    """Two branches with parameters of their own, the better one deeper; smallest, 0, at x = -0.4, y = 0.5."""
    if trial.suggest_categorical("kind", ["a", "b", "c"]) == "b":
        return (trial.suggest_float("x", -1, 1) + 0.4) ** 2 + (trial.suggest_float("y", -1, 1) - 0.5) ** 2
    return (trial.suggest_float("z", -1, 1) - 0.3) ** 2 + 0.2


def test_conditional_parameters_are_searched_jointly():
    study = optuna.create_study(sampler=Sampler())
    study.optimize(branches, n_trials=25)
    trials = study.get_trials()
    found = conditions_of(trials, ["kind"])
    assert (found["x"], found["y"]) == ({"kind": ["b"]}, {"kind": ["b"]})
    assert sorted(found["z"]["kind"]) == ["a", "c"]
    assert {*study.sampler.infer_relative_search_space(study, trials[-1])} == {"kind", "x", "y", "z"}
    assert study.best_value < 1e-3


def test_what_is_there_at_some_fidelities_only_is_drawn_independently():
    def objective(trial):
        x, epochs = trial.suggest_float("x", 0, 1), trial.suggest_int("epochs", 1, 27)
        return (x - 0.3) ** 2 + (trial.suggest_float("decay", 0, 1) if epochs >= 9 else 1)

    study = optuna.create_study(sampler=Sampler("epochs"))
    study.optimize(objective, n_trials=16)
    assert {*study.sampler.infer_relative_search_space(study, study.trials[-1])} == {"x", "epochs"}


def test_what_no_condition_explains_is_drawn_independently():
    ranges = {"n": IntDistribution(1, 3), "x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}
    wide = {**ranges, "y": FloatDistribution(0, 2)}

    def of(given, kinds=ranges):
        return create_trial(params=given, distributions={name: kinds[name] for name in given}, value=1.0)

    same = [of({"n": 1, "x": 0.5, "y": 0.5}), of({"n": 2, "x": 0.5})]
    assert conditions_of(same, ["n", "x"]) == {"y": {"n": [1]}}
    assert conditions_of([*same, of({"n": 1, "x": 0.1})], ["n", "x"]) == {}  # there and not there at n = 1
    assert conditions_of([*same, of({"n": 1, "x": 0.1, "y": 1.5}, wide)], ["n", "x"]) == {}  # in another range
    deep = {"a": IntDistribution(0, 1), "b": IntDistribution(0, 1), "c": FloatDistribution(0, 1)}
    nested = [of({"a": 0}, deep), of({"a": 1, "b": 0}, deep), of({"a": 1, "b": 1, "c": 0.5}, deep)]
    assert conditions_of(nested, ["a"]) == {"b": {"a": [1]}, "c": {"b": [1]}}


@pytest.mark.parametrize("pruner", [optuna.pruners.MedianPruner(), optuna.pruners.SuccessiveHalvingPruner()])
def test_a_pruned_trial_is_not_asked_again(pruner):
    study = optuna.create_study(sampler=Sampler("epochs", EPOCHS), pruner=pruner)

    def reporting(trial):
        value = loss(trial)
        for epoch in range(1, trial.params["epochs"] + 1):
            trial.report(value + 1 / epoch, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study.optimize(reporting, n_trials=20)
    asked = [tuple(trial.params.values()) for trial in study.trials]
    assert any(trial.state == TrialState.PRUNED for trial in study.trials)
    assert len({*asked}) == len(asked)


def test_the_view_of_a_bracket():
    """It has no metric names."""
    study = optuna.create_study(sampler=Sampler(), pruner=optuna.pruners.HyperbandPruner(1, 9))
    study.optimize(lambda trial: trial.report(loss(trial), 1) or 0.0, n_trials=4)
    assert len(study.trials) == 4


def test_a_fidelity_alone_is_the_target():
    study = optuna.create_study(sampler=Sampler("epochs", EPOCHS))
    study.optimize(lambda trial: 1 / trial.suggest_int("epochs", 1, 9), n_trials=3)
    assert [trial.params["epochs"] for trial in study.trials] == [1, 9, 9]


def test_pruned_trials_count_where_there_is_no_fidelity():
    """As much as completed trials have changed since that step."""
    study, only = optuna.create_study(), {"x": SPACE["x"]}
    for value, curve in ((3.0, {0: 5.0, 1: 4.0}), (1.0, {0: 2.0, 1: 1.0}), (7.0, {0: 9.5, 1: 8.0})):
        study.add_trial(
            create_trial(params={"x": value / 9}, distributions=only, value=value, intermediate_values=curve)
        )
    pruned = {"distributions": only, "state": TrialState.PRUNED}
    study.add_trial(create_trial(params={"x": 0.5}, intermediate_values={0: 6.0}, **pruned))
    study.add_trial(create_trial(params={"x": 0.6}, intermediate_values={0: math.nan}, **pruned))
    now = study._storage.get_trial(study._storage.create_new_trial(study._study_id))
    history, _ = read(study, StudyCodec(only), now)
    assert [r.value for r in history][:4] == [-3.0, -1.0, -7.0, -(6.0 - 2.0)]
    assert history.records[4].status == Status.FAILED


def foreign(**changed):
    """A completed trial of another sampler, with some parameters changed: (value, distribution), or left out."""
    given = {
        "x": (0.5, SPACE["x"]),
        "rate": (0.1, FloatDistribution(1e-4, 1, log=True)),
        "epochs": (9, SPACE["epochs"]),
    }
    given = {name: pair for name, pair in {**given, **changed}.items() if pair is not None}
    params, distributions = ({name: pair[i] for name, pair in given.items()} for i in (0, 1))
    return create_trial(params=params, distributions=distributions, value=1.0)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (foreign(x=None), "no x"),
        (foreign(epochs=None), "no epochs"),
        (foreign(x=(5.0, FloatDistribution(-9, 9))), "x = 5.0"),
        (foreign(x=("left", CategoricalDistribution(["left", "right"]))), "x = 'left'"),
        (foreign(epochs=(27, IntDistribution(1, 81))), "epochs = 27, none of 1, 3, 9"),
    ],
)
def test_foreign_trials_that_do_not_fit_are_passed_over(other, why):
    """All parameters go on being searched, by the trials that fit; one warning says how many do not."""
    sampler = Sampler("epochs", EPOCHS)
    study = optuna.create_study(sampler=sampler)
    study.add_trials([other, foreign(), foreign(x=None), foreign(x=(1.5, FloatDistribution(1, 2)))])
    study.enqueue_trial({"x": 0.25, "rate": 0.5, "epochs": 9})
    with pytest.warns(UserWarning, match="completed trials are outside the search space and passed over") as said:
        study.optimize(loss, n_trials=4)
    assert [str(warning.message).partition(": ")[2] for warning in said] == [f"trial 0 has {why}"]
    assert str(said[0].message).startswith("2 of 5")
    now = study.ask()
    space = sampler.infer_relative_search_space(study, study.trials[now.number])
    assert {*space} == {"x", "rate", "epochs"}
    history, _ = read(study, StudyCodec(space, "epochs", EPOCHS), study.trials[now.number])
    assert sum(not record.query.meta and record.status == Status.DONE for record in history) == 3
    assert [trial.params["x"] for trial in study.trials[4:5]] == [0.25]


DISTRIBUTIONS = {
    "float": FloatDistribution(-1, 3),
    "log": FloatDistribution(1e-5, 1, log=True),
    "step": FloatDistribution(0.1, 1.0, step=0.3),
    "unit step": FloatDistribution(0.0, 3.0, step=1.0),
    "int": IntDistribution(-2, 5),
    "int step": IntDistribution(3, 12, step=3),
    "int log": IntDistribution(1, 64, log=True),
    "category": CategoricalDistribution(["a", None, 3, True]),
    "epochs": IntDistribution(1, 9, step=4),
}


def test_there_and_back():
    codec = StudyCodec(DISTRIBUTIONS, "epochs", [1.0, 2.0, 5.0])
    for query in RandomSearch(space=codec.space).ask(History(), 20):
        parameters = codec.decode(query.x, query.fidelity)
        for name, distribution in DISTRIBUTIONS.items():
            assert distribution._contains(distribution.to_internal_repr(parameters[name])), name
        x, fidelity = codec.encode(parameters)
        assert x == pytest.approx(query.x, abs=1e-12)
        assert fidelity == query.fidelity
        assert codec.external(codec.internal(query)) == parameters


def test_fidelities_by_their_costs():
    fine = {"mesh": IntDistribution(1, 8), "x": FloatDistribution(0, 1)}
    assert StudyCodec(fine, "mesh", {1: 64.0, 4: 4.0, 8: 1.0}).levels == [8, 4, 1]
    assert StudyCodec(fine, "mesh").levels == [1, 3, 8]
    assert StudyCodec(fine, "mesh").space.costs == (1.0, 3.0, 8.0)
    assert StudyCodec(fine, "mesh", {8: 1.0, 1: 64.0}).encode({"mesh": 1, "x": 0.5}) == ((0.5,), 1)
    assert StudyCodec({"x": FloatDistribution(0, 1)}).space.costs == (1.0,)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fidelity": 3}, "fidelity = 3: must be the name of a parameter"),
        ({"costs": [1, 2]}, "must be left out where no fidelity is named"),
        ({"strategy": "MFGPUBC"}, "strategy = 'MFGPUBC': must be a strategy .*did you mean MFGPUCB"),
        ({"strategy": RandomSearch(space=Space.box([[0.0], [1.0]], [1.0]))}, "without a space"),
        ({"strategy": "CMES"}, "must be an IndirectSpace for CMES"),
        ({"fidelity": "epochs", "strategy": "MFNaive"}, "capital = None: must be known"),
        ({"strategy": RandomSearch(), "seed": 1}, "seed = 1: must be left out, the strategy has its own, 0"),
        ({"fidelity": "epoch"}, r"fidelity = 'epoch': must be a parameter of every trial.*\('epochs'\)"),
        ({"fidelity": "x"}, "fidelity = 'x': must be .*by suggest_int"),
        ({"fidelity": "epochs", "costs": [1, 2]}, r"one for each epochs, 1 to 9; or name some, as in \{9: 1.0\}"),
        ({"fidelity": "epochs", "costs": {1: 1, 27: 2}}, "costs = 27: must be a value of epochs, 1 to 9"),
        ({"fidelity": "epochs", "costs": {1: 0, 9: 2}}, "a mapping from values of the fidelity to positive numbers"),
        ({"fidelity": "epochs", "costs": 27}, "costs = 27: must be a mapping from values of the fidelity"),
        ({"fidelity": "epochs", "costs": "1, 2"}, "must be a mapping from values of the fidelity"),
        ({"fidelity": "epochs", "costs": {1: 2, 9: 2}}, "increasing"),
    ],
)
def test_what_is_wrong_is_said(settings, said):
    """At once, or after the first trial, whose parameters nobody knew before."""
    refused(said, lambda: study_of(Sampler(**settings), 2))


@pytest.mark.parametrize("fidelity", [None, "epochs"])
def test_a_range_that_has_changed_is_searched(fidelity):
    """From the third trial with it on."""

    def objective(high):
        def value(trial):
            own = 1 / trial.suggest_int("epochs", 1, 9) if fidelity else 0.0
            return (trial.suggest_float("x", 0, high) - 1.5) ** 2 + own

        return value

    study = optuna.create_study(sampler=Sampler(fidelity))
    study.optimize(objective(1.0), n_trials=8)
    study.optimize(objective(2.0), n_trials=12)
    late = study.trials[-8:]
    assert min(abs(t.params["x"] - 1.5) for t in late) < 0.05
    assert fidelity is None or {t.params["epochs"] for t in late} != {9}


def test_a_parameter_that_came_later_is_drawn_at_random_and_told():
    study = optuna.create_study(sampler=Sampler())
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=4)
    with pytest.warns(UserWarning, match=r"'y' is drawn at random: 2 of 6 trials have it, and a new study searches it"):
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1) + trial.suggest_float("y", 0, 1), n_trials=4)

"""A training in each library pauses, goes on from what it has saved, and has the curve that it would have had."""

import importlib
import math
import pickle

import numpy as np
import pytest
import torch

from mfbo_torch import Optimizer, Parameter, Space
from mfbo_torch.loop.trial_folders import trials
from mfbo_torch.problems.user.function import FunctionProblem
from mfbo_torch.strategies import RandomSearch

EPOCHS = 9
SPACE = Space([Parameter("rate", 1e-3, 0.3, log=True)], epochs=EPOCHS)
DRAWN = np.random.default_rng(0)
X = DRAWN.standard_normal((120, 4)).astype("float32")
Y = (X[:, 0] * X[:, 1] > 0).astype("int64")
TRAIN, HELD = slice(0, 80), slice(80, 120)


def callback(library):
    module = importlib.import_module(f"mfbo_torch.callbacks.{library}")
    return next(made for name, made in vars(module).items() if name.lower() == f"{library}callback")


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def by_lightning(parameters, trial):
    import lightning

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()

        def _loss(self, batch):
            return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def training_step(self, batch):
            return self._loss(batch)

        def validation_step(self, batch):
            self.log("val_loss", self._loss(batch))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), parameters["rate"], momentum=0.9)

    train, held = (
        torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(torch.tensor(X[part]), torch.tensor(Y[part])), batch_size=40
        )
        for part in (TRAIN, HELD)
    )
    told = callback("lightning")(trial)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(max_epochs=EPOCHS, callbacks=[told], enable_checkpointing=False, **quiet)
    trainer.fit(Net(), train, held, ckpt_path=told.checkpoint, weights_only=True)


def by_keras(parameters, trial):
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(parameters["rate"], momentum=0.9), loss)
    settings = {"validation_data": (X[HELD], Y[HELD]), "shuffle": False, "verbose": 0, "batch_size": 40}
    model.fit(X[TRAIN], Y[TRAIN], epochs=EPOCHS, callbacks=[callback("keras")(trial)], **settings)


def by_skorch(parameters, trial):
    import skorch

    net = skorch.NeuralNetClassifier(
        network(),
        criterion=torch.nn.CrossEntropyLoss,
        max_epochs=EPOCHS,
        lr=parameters["rate"],
        optimizer__momentum=0.9,
        batch_size=40,
        verbose=0,
        callbacks=[callback("skorch")(trial)],
    )
    net.fit(X, Y)


def by_transformers(parameters, trial):
    import transformers

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, x, labels):
            output = self.net(x)
            return {"loss": torch.nn.functional.cross_entropy(output, labels), "logits": output}

    train, held = ([{"x": x, "labels": y} for x, y in zip(X[p], Y[p], strict=True)] for p in (TRAIN, HELD))
    told = callback("transformers")(trial)
    arguments = transformers.TrainingArguments(
        told.folder,
        num_train_epochs=EPOCHS,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        learning_rate=parameters["rate"],
        per_device_train_batch_size=40,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        logging_strategy="no",
    )
    trainer = transformers.Trainer(Net(), arguments, train_dataset=train, eval_dataset=held, callbacks=[told])
    trainer.train(resume_from_checkpoint=told.checkpoint)


def by_xgboost(parameters, trial):
    import xgboost

    told = callback("xgboost")(trial, "held-logloss", rounds=2)
    train, held = (xgboost.DMatrix(X[part], Y[part]) for part in (TRAIN, HELD))
    settings = {"eta": parameters["rate"], "objective": "binary:logistic", "eval_metric": "logloss", "nthread": 1}
    xgboost.train(
        settings,
        train,
        2 * EPOCHS,
        evals=[(held, "held")],
        verbose_eval=False,
        xgb_model=told.checkpoint,
        callbacks=[told],
    )


def by_lightgbm(parameters, trial):
    import lightgbm

    told = callback("lightgbm")(trial, "held-binary_logloss", rounds=2)
    settings = {"learning_rate": parameters["rate"], "objective": "binary", "verbose": -1, "num_threads": 1}
    train = lightgbm.Dataset(X[TRAIN], Y[TRAIN], free_raw_data=False)
    held = lightgbm.Dataset(X[HELD], Y[HELD], reference=train, free_raw_data=False)
    lightgbm.train(settings, train, 2 * EPOCHS, [held], ["held"], init_model=told.checkpoint, callbacks=[told])


def by_partial_fit(parameters, trial):
    from sklearn.linear_model import SGDClassifier

    _by_estimator(SGDClassifier(loss="log_loss", eta0=parameters["rate"], random_state=0), trial, classes=[0, 1])


def by_warm_start(parameters, trial):
    from sklearn.ensemble import GradientBoostingClassifier

    _by_estimator(GradientBoostingClassifier(learning_rate=parameters["rate"], random_state=0), trial, rounds=3)


def _by_estimator(estimator, trial, **settings):
    from sklearn.metrics import log_loss

    from mfbo_torch.callbacks.estimators import train

    train(estimator, X[TRAIN], Y[TRAIN], trial, lambda e: log_loss(Y[HELD], e.predict_proba(X[HELD])), **settings)


TRAININGS = {
    "lightning": by_lightning,
    "keras": by_keras,
    "skorch": by_skorch,
    "transformers": by_transformers,
    "xgboost": by_xgboost,
    "lightgbm": by_lightgbm,
    "sklearn.linear_model": by_partial_fit,
    "sklearn.ensemble": by_warm_start,
}


def curve(training, folder, fidelities):
    """The values of a training that goes through some fidelities, each in a call of its own."""
    problem = FunctionProblem(training, SPACE, maximize=False)
    optimizer = Optimizer(RandomSearch(seed=0), problem=problem)
    found = {}
    with trials(problem, folder, None, 9) as made:
        for fidelity in fidelities:
            record = optimizer.enqueue({"rate": 0.05}, {"epochs": fidelity})
            optimizer.ask()
            ended = made.evaluate(
                problem, record.query.x, record.query.fidelity, record.id, made.of(record, optimizer.history)
            )
            assert ended.observation is not None, ended.reason
            assert not found.keys() & dict(ended.curve).keys()
            found |= dict(ended.curve)
            optimizer.tell(record.id, ended.observation, curve=ended.curve)
    return found


@pytest.mark.parametrize("library", TRAININGS)
def test_pauses_and_goes_on_with_the_same_curve(library, tmp_path):
    pytest.importorskip(library)
    whole = curve(TRAININGS[library], tmp_path / "whole", [9])
    paused = curve(TRAININGS[library], tmp_path / "paused", [1, 3, 9])
    assert [*whole] == [*paused] == [*range(1, EPOCHS + 1)]
    assert all(math.isclose(whole[step], paused[step], rel_tol=1e-4) for step in whole)
    assert len({*whole.values()}) > 5


@pytest.mark.parametrize("library", ["lightning", "transformers", "xgboost", "lightgbm"])
def test_a_checkpoint_that_is_not_given_back_is_missed(library, tmp_path, monkeypatch):
    pytest.importorskip(library)
    monkeypatch.setattr(callback(library), "checkpoint", None)
    with pytest.raises(AssertionError, match="None: must be the callback's checkpoint: 1 of the epochs are saved"):
        curve(TRAININGS[library], tmp_path, [1, 3])


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_iterations_on_top_of_those_before_are_as_many_in_each_epoch(tmp_path):
    from sklearn.linear_model import LogisticRegression

    from mfbo_torch.callbacks.estimators import train

    counts = []

    def training(parameters, trial):
        def value(fitted):
            counts.append(int(fitted.n_iter_[0]))
            return 1.0 / len(counts)

        train(LogisticRegression(C=100.0, tol=1e-12), X[TRAIN], Y[TRAIN], trial, value, rounds=2)

    curve(training, tmp_path, [3])
    assert counts == [2, 2, 2]


class Evil:
    """Makes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("library", ["keras", "skorch", "transformers", "lightning"])
def test_whatever_files_a_stranger_left_in_their_place_nothing_runs(library, tmp_path):
    """Every file that the library has saved is replaced by a pickle, or by torch's own archive of one."""
    pytest.importorskip(library)
    problem, optimizer = FunctionProblem(TRAININGS[library], SPACE, maximize=False), None
    for name, write in (("pickle", pickle.dump), ("archive", torch.save)):
        ran, optimizer = tmp_path / f"ran {name}", Optimizer(RandomSearch(seed=0), problem=problem)
        with trials(problem, tmp_path / name, None, 9) as made:
            for fidelity in (1, 3):
                record = optimizer.enqueue({"rate": 0.05}, {"epochs": fidelity})
                optimizer.ask()
                trial = made.of(record, optimizer.history)
                ended = made.evaluate(problem, record.query.x, record.query.fidelity, record.id, trial)
                if fidelity == 1:
                    optimizer.tell(record.id, ended.observation, curve=ended.curve)
                    saved = [file for file in trial.folder.glob(f"{library}*") for file in (file, *file.rglob("*"))]
                    files = [file for file in saved if file.is_file()]
                    assert files
                    for file in files:
                        with file.open("wb") as forged:
                            write(Evil(ran), forged)
        assert not ran.exists()


@pytest.mark.parametrize("packed", [True, False])
def test_a_checkpoint_of_a_stranger_runs_nothing(packed, tmp_path):
    skops, ran = pytest.importorskip("skops.io"), tmp_path / "ran"
    forged = skops.dumps(Evil(ran)) if packed else pickle.dumps(Evil(ran))
    problem = FunctionProblem(by_partial_fit, SPACE, maximize=False)
    optimizer = Optimizer(RandomSearch(seed=0), problem=problem)
    with trials(problem, tmp_path, None, 9) as made:
        for fidelity, reason in ((1, ""), (3, "checkpoint = ")):
            record = optimizer.enqueue({"rate": 0.05}, {"epochs": fidelity})
            optimizer.ask()
            trial = made.of(record, optimizer.history)
            ended = made.evaluate(problem, record.query.x, record.query.fidelity, record.id, trial)
            assert reason in ended.reason
            assert bool(reason) == (ended.observation is None)
            if ended.observation is not None:
                optimizer.tell(record.id, ended.observation, curve=ended.curve)
                (trial.folder / "estimator.skops").write_bytes(forged)
    assert not ran.exists()

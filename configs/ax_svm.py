"""Tunes a real SVM with four workers, two of whose trials fail: Ax keeps the experiment, MF-GP-UCB decides.

python configs/ax_svm.py
"""

from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from ax.api.configs import RangeParameterConfig

from mfbo_torch.ax import best_point, multi_fidelity_client
from mfbo_torch.problems import SVM


def accuracy(trial: int, parameters: dict) -> float:
    """Five-fold cross-validation on 400 digits at fidelity 0, on 1,797 at fidelity 1."""
    if trial in (7, 11):
        raise RuntimeError("the worker was lost")
    return SVM().evaluate((parameters["bandwidth"], parameters["C"]), parameters["fidelity"])


def tune(trials: int = 30) -> None:
    """Keep four trials in flight; each one that ends is replaced at once."""
    bandwidth = RangeParameterConfig("bandwidth", bounds=(1e-3, 1e1), parameter_type="float", scaling="log")
    margin = RangeParameterConfig("C", bounds=(1e-1, 1e5), parameter_type="float", scaling="log")
    client = multi_fidelity_client([bandwidth, margin], costs=SVM().space.costs, objective="accuracy")
    flying: dict[Future, int] = {}
    with ProcessPoolExecutor(max_workers=4) as workers:
        for _ in range(trials):
            for trial, parameters in client.get_next_trials(max_trials=1).items():
                flying[workers.submit(accuracy, trial, parameters)] = trial
            while len(flying) == 4 or (flying and len(client.summarize()) == trials):
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    if error := future.exception():
                        client.mark_trial_failed(flying.pop(future), failed_reason=str(error))
                    else:
                        client.complete_trial(flying.pop(future), raw_data={"accuracy": future.result()})
    print(best_point(client))


if __name__ == "__main__":
    tune()

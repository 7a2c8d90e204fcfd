"""The files that ``mfbo init`` writes."""

from __future__ import annotations

from string import Template

CONFIG = Template("""\
# mfbo run $file spends the capital; run again, it goes on where it stopped.
problem:
  class_path: mfbo_torch.problems.UserProblem
  init_args:
$objective
    # log: true searches the logarithm, integer: true whole numbers; choices are names, or sizes in order.
    parameters:
$parameters
$fidelities
    # true: larger values are better; false: smaller ones are.
    maximize: $maximize
strategy:
  # mfbo run --strategy.help $strategy explains its settings.
  class_path: mfbo_torch.strategies.$strategy
# What may be spent in all, in the unit of the costs.
capital: $capital
# The seed of every random choice: the same seed, the same decisions.
seed: 0
# Settings of evaluating, as they are unless set:
# workers: 1          # processes that evaluate at once
# timeout: null       # seconds after which an evaluation is ended, and failed
# retries: 0          # how often one that failed is tried again
# stop_at: null       # a value at the target that is good enough
# patience: null      # capital after which a run ends that found no better value
# time_limit: null    # seconds after which nothing more is started
# warm_start: null    # observations to begin with: a table, or a run
out: $out
""")
FUNCTION = Template("""\
    # A function f(parameters, $fidelity) that returns a number, looked for in the current folder first.
    # parameters is a mapping of names to values$counted.
    objective: $place""")
TRAINING = Template("""\
    # A function f(parameters, trial) that reports a number after each epoch, looked for in the current folder first.
    # parameters is a mapping of names to values; trial.epochs() are the epochs still to train.
    objective: $place""")
COMMAND = Template("""\
    # A program and its arguments; {NAME} is the value of a parameter, {start} the folder that mfbo was started from.
    command: $command
    # Where its value is: the last line that it prints. mfbo run --problem.help UserProblem names other places.
    result: last line""")
COSTS = Template("""\
    # One increasing cost a fidelity, the target last. A single one: no cheap approximation.
    # Or "measured", the seconds each evaluation takes, with num_fidelities: 2 beside it.
    costs: $costs""")
NAMED = Template("""\
    # The name of the fidelity and its values, the target last. Their costs are the values, unless costs are given.
    fidelities: {$name: $values}""")
EPOCHS = Template("""\
    # The epochs of a whole training. One pauses on the way, goes on later, or is left; an epoch costs 1.
    epochs: $epochs""")
SOURCE = Template('''\
"""What is optimised; replace the body by your own."""
$imports
NUMBERS = $numbers
CHOICES = $choices


def $function(parameters, $fidelity):
    """$better is better. $meaning"""
    distance = sum(((parameters[name] - (a + b) / 2) / (b - a)) ** 2 for name, (a, b) in NUMBERS.items())
    distance += sum(0.1 * options.index(parameters[name]) for name, options in CHOICES.items())
    return $sign(distance + 0.1 * $bias)
''')
TRAINED = Template('''\
"""What is trained; replace the body by your own."""

import json

NUMBERS = $numbers
CHOICES = $choices


def $function(parameters, trial):
    """$better is better. A training that was paused is called again, and goes on from its checkpoint."""
    end = sum(((parameters[name] - (a + b) / 2) / (b - a)) ** 2 for name, (a, b) in NUMBERS.items())
    end += sum(0.1 * options.index(parameters[name]) for name, options in CHOICES.items())
    checkpoint = trial.folder / "loss.json"
    loss = json.loads(checkpoint.read_text()) if checkpoint.exists() else end + 1
    for _ in trial.epochs():
        loss = end + 0.8 * (loss - end)  # train an epoch here
        checkpoint.write_text(json.dumps(loss))
        trial.report($sign)
''')
MAIN = Template("""

given = dict(argument.split("=", 1) for argument in sys.argv[1:])
fidelity = float(given.pop("$fidelity"))
for name in NUMBERS:
    given[name] = float(given[name])
for name, options in CHOICES.items():
    given[name] = next(option for option in options if str(option) == given[name])
print($function(given, fidelity))
""")

"""What is measured, and the figures of the papers.

Every command takes ``--results FOLDER`` (``benchmarks/results`` if not given) and ``--help``. A JSON report has a key
``about`` (versions, commit, processor, date); a CSV file of runs has ``NAME.about.json`` beside it. Runs of a
:class:`benchmarks.study.Study` can be stopped and started again, and its command writes the report too (``--report``:
the report alone).

=========================================  =========================================================================
``python -m``                              what; where its result goes
=========================================  =========================================================================
``benchmarks.quality.regret``              regret of every strategy at equal capital; ``regret.csv``, ``.md``, ``.png``
``benchmarks.quality.real``                the papers' real problems: best value, seconds, unseen pictures; ``real.*``
``benchmarks.quality.robust.run``          problems that nothing was tuned on, other packages beside; ``robust*``
``benchmarks.quality.robust.ablation``     what each part of the default earns; ``hedge-ablation.csv``, ``.md``
``benchmarks.quality.robust.calibration``  are true values within the bands? ``calibration.csv``, ``.md``
``benchmarks.quality.fidelity_map``        does a cheap fidelity pay? by what it is and its cost; ``fidelity_map.*``
``benchmarks.quality.continuous``          a continuous fidelity beside discrete ones and dragonfly; ``continuous.*``
``benchmarks.quality.mixed``               tunings with choices beside Optuna; ``mixed.csv``, ``.md``
``benchmarks.quality.stopping``            what each rule that ends a run saves and gives up; ``stopping.csv``, ``.md``
``benchmarks.quality.limits``              what it costs that models are made of few observations; ``limits.csv``
``benchmarks.quality.continuing``          a network whose trainings go on or begin anew; ``continuing.csv``, ``.md``
``benchmarks.quality.trainings.run``         every epoch observed, beside pruners at equal epochs; ``trainings.*``
``benchmarks.quality.trainings.trained``     the same trainings done, not looked up; ``trainings-trained.*``
``benchmarks.quality.trainings.table``       the curves of 24 real trainings; ``curves.npz`` beside it
``benchmarks.quality.constrained``         limits on outcomes, BoTorch's constrained functions; ``constrained.csv``
``benchmarks.quality.objectives.run``      several objectives at several fidelities beside others; ``objectives.*``
``benchmarks.quality.searches``            the search of scikit-learn beside its own; ``doors-searches.csv``
``benchmarks.quality.samplers``            the sampler of Optuna beside its own; ``doors-samplers.csv``
``benchmarks.quality.batch.run CONFIG``    batches and delays, simulated (``configs/batch``); ``batch/NAME.*``
``benchmarks.quality.indirect.run``        regret with indirect queries; ``indirect.csv``, ``.md``, ``.png``
``benchmarks.quality.indirect.ablation``   CMES and MES with parts exchanged; ``indirect-ablation.csv``, ``.md``
``benchmarks.quality.indirect.batches``    averaged queries one and four at a time; ``indirect-batches.csv``, ``.md``
``benchmarks.quality.indirect.fields``     several resolutions on other fields; ``indirect-fields.csv``, ``.md``
``benchmarks.quality.bandit.figure2``      regret and plays of MF-UCB beside its peers; ``bandit.md`` and ``bandit*``
``benchmarks.speed.ops.run``               operations checked against BoTorch and timed; ``MACHINE.json``
``benchmarks.speed.ops.parts``             where the time of an acquisition goes; ``acquisition_parts.json``
``benchmarks.gpu``                         everything on a CUDA device; ``DEVICE.json``, ``DEVICE.md``
``benchmarks.speed.greedy``                selecting batches from a finite set; ``greedy.json``
``benchmarks.speed.bandit``                time a play, three ways; ``bandit-speed.json``
``benchmarks.speed.indirect``              time and memory against samples and queries; ``indirect-scaling.json``
``benchmarks.speed.decision_time``         decisions beside MF-GIBBON's, and as data grow; ``decision_time.json``
``benchmarks.speed.objectives``            decisions with two objectives; ``objectives_decision.json``
``benchmarks.speed.mixed_decision``        decisions with choices and without; ``mixed_decision.json``
``benchmarks.speed.ax_overhead``           what Ax adds to a decision; ``ax_overhead.json``
``benchmarks.speed.workers``               how busy workers are kept, what an executor costs; ``workers.json``
``benchmarks.first_result``                five users' lines and seconds to a first result; ``docs/five-users.md``
``benchmarks.robustness.faults``           workers and drivers killed, every query accounted for; ``faults.csv``
``benchmarks.robustness.kills``            twelve kills on each engine, lost and repeated; ``kills.json``
``benchmarks.robustness.soak``             10,000 observations: time, memory, disk; ``soak.json``
``benchmarks.robustness.width``            many workers: decisions, idle time, memory; ``width.json``
``benchmarks.robustness.bit_flips``        every bit of a journal changed: noticed or harmless? ``bit_flips.json``
``benchmarks.robustness.fuzz``             damaged files and forged folders, read as anyone would; ``fuzz.json``
``benchmarks.robustness.equal_histories``  do equal seeds give equal histories after a change?
``benchmarks.robustness.paths``            modules that a decision, and a value, passes through
``benchmarks.figures``                     how the methods work; ``illustration-T.png`` and others
=========================================  =========================================================================

``benchmarks.quality.dragonfly_child`` is what the study of continuous fidelities runs in an environment of dragonfly's.
"""

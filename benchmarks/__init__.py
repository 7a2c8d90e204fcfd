"""What is measured, and the figures of the papers.

Every command takes ``--results FOLDER`` (``benchmarks/results`` if not given) and ``--help``. A JSON report has a key
``about`` (versions, commit, processor, date); a CSV file of runs has ``NAME.about.json`` beside it. Runs of a grid can
be stopped and started again; their one runner is :mod:`benchmarks.runs`.

==================================  ================================================================================
``python -m``                       what; where its result goes
==================================  ================================================================================
``benchmarks.regret.run``           simple regret of every strategy at equal capital; ``regret.csv``
``benchmarks.regret.report``        ``regret.md``, ``regret.png``
``benchmarks.real.run``             the papers' real problems: best value, seconds, unseen pictures; ``real.csv``
``benchmarks.real.report``          ``real.md``, ``real.png``
``benchmarks.robust.run``           problems that nothing was tuned on, and methods of other packages; ``robust.csv``
``benchmarks.robust.report``        ``robust.md``, ``robust.png``, ``robust-profile.png``
``benchmarks.robust.calibration``   are true values within the bands? ``calibration.csv``, ``calibration.md``
``benchmarks.continuous.run``       a continuous fidelity beside discrete ones and dragonfly; ``continuous.*``
``benchmarks.mixed.run``            tunings with choices beside Optuna; ``mixed.csv``, ``mixed.md``
``benchmarks.mixed.decision``       decisions with choices and without; ``mixed_decision.json``
``benchmarks.stopping``             what each rule that ends a run saves and gives up; ``stopping.csv``, ``stopping.md``
``benchmarks.continuing.run``       a network whose trainings go on or begin anew; ``continuing.csv``, ``continuing.md``
``benchmarks.constrained.run``      limits on outcomes, BoTorch's constrained functions; ``constrained.csv``
``benchmarks.batch.run CONFIG``     batches and delays, simulated (``configs/batch``); ``batch/NAME.csv``
``benchmarks.batch.report``         ``batch/NAME.md``, ``batch/NAME.png``
``benchmarks.indirect.run``         regret with indirect queries; ``indirect.csv``
``benchmarks.indirect.report``      ``indirect.md``, ``indirect.png``
``benchmarks.indirect.ablation``    CMES and MES with parts exchanged; ``indirect-ablation.csv``
``benchmarks.indirect.fields``      several resolutions on other fields, and their limits; ``indirect-fields.csv``
``benchmarks.indirect.scaling``     time and memory against samples and queries; ``indirect-scaling.json``
``benchmarks.indirect.pictures``    what is believed of a function seen through averages; ``indirect-NAME.png``
``benchmarks.bandit.figure2``       regret and plays of MF-UCB beside its peers; ``bandit.md`` and ``bandit*``
``benchmarks.bandit.speed``         time a play, three ways; ``bandit-speed.json``, ``bandit-speed.png``
``benchmarks.ops.run``              the operations checked against BoTorch and timed; ``MACHINE.json``, ``MACHINE.png``
``benchmarks.gpu``                  everything on a CUDA device; ``DEVICE.json``, ``DEVICE.md``
``benchmarks.greedy.run``           selecting batches from a finite set; ``greedy.json``, ``greedy.png``
``benchmarks.decision_time``        MFGPUCB's decisions beside MF-GIBBON's; ``decision_time.json``
``benchmarks.ax_overhead``          what Ax adds to a decision; ``ax_overhead.json``
``benchmarks.doors.searches``       the search of scikit-learn beside its own; ``doors-searches.csv``
``benchmarks.doors.samplers``       the sampler of Optuna beside its own; ``doors-samplers.csv``
``benchmarks.workers``              how busy workers are kept, what an executor costs; ``workers.json``
``benchmarks.limits``               what it costs that models are made of so many observations; ``limits.csv``
``benchmarks.soak``                 10,000 observations: time, memory, disk; ``soak.json``
``benchmarks.faults``               workers and drivers killed, every query accounted for; ``faults.csv``
``benchmarks.bit_flips``            every bit of a journal changed: noticed or harmless? ``bit_flips.json``
``benchmarks.fuzz``                 damaged files of every kind, read as anyone would; ``fuzz.json``
``benchmarks.figures``              how MF-GP-UCB works; ``illustration-T.png``, ``queries-by-value.png``
==================================  ================================================================================

``benchmarks.continuous.dragonfly_child`` is what the former runs in an environment of dragonfly's own.

Two tools guard changes of the code, and write no results: ``benchmarks.robustness.equal_histories`` saves the
histories of many runs and compares them with those of changed code; ``benchmarks.robustness.paths`` prints the modules
through which a decision and a value lead.
"""

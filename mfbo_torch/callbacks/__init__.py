"""Trainings in other libraries: a callback for each, which reports every epoch, saves it, and ends at a pause.

Each is in a module of its own, which imports its library:
:class:`lightning.TrialCallback <mfbo_torch.callbacks.lightning.TrialCallback>` and likewise ``keras``, ``skorch``,
``transformers``, ``xgboost`` and ``lightgbm``; :mod:`~mfbo_torch.callbacks.estimators` trains those of scikit-learn.
"""

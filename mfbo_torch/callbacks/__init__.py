"""Trainings in other libraries: a callback for each, which reports every epoch, saves it, and ends at a pause.

Each is in a module of its own, which imports its library:
:class:`~mfbo_torch.callbacks.lightning.LightningCallback`, :class:`~mfbo_torch.callbacks.keras.KerasCallback`,
:class:`~mfbo_torch.callbacks.skorch.SkorchCallback`,
:class:`~mfbo_torch.callbacks.transformers.TransformersCallback`,
:class:`~mfbo_torch.callbacks.xgboost.XGBoostCallback` and
:class:`~mfbo_torch.callbacks.lightgbm.LightGBMCallback`; :mod:`~mfbo_torch.callbacks.estimators` trains those of
scikit-learn.
"""

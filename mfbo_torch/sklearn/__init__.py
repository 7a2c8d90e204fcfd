"""The strategies as a search of scikit-learn, beside ``RandomizedSearchCV`` and ``HalvingRandomSearchCV``."""

from mfbo_torch.sklearn.front import knee
from mfbo_torch.sklearn.search import MultiFidelitySearchCV

__all__ = ["MultiFidelitySearchCV", "knee"]

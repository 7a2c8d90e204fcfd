"""The strategies as a searcher of Ray Tune: ``TuneConfig(search_alg=Searcher(fidelity="epochs"))``."""

from mfbo_torch.ray.searcher import Searcher

__all__ = ["Searcher"]

"""Multi-fidelity, batch and indirect-query Bayesian optimisation on BoTorch."""

import lazy_loader

from mfbo_torch.utils.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

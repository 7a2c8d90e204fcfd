"""The strategies as a sweeper of Hydra: ``python train.py --multirun hydra/sweeper=mfbo rate=interval(0,1)``."""

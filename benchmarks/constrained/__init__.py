"""Limits on outcomes: BoTorch's constrained test functions with a cheapened fidelity."""

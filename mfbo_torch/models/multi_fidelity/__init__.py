"""Gaussian processes of several fidelities."""

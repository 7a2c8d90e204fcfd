"""Strategies at one fidelity."""
